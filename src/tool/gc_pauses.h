/* SPDX-License-Identifier: MIT */
/* The pauses of the collector of a process, measured by the phases that its runtime has. */
#ifndef TOOL_GC_PAUSES_H
#define TOOL_GC_PAUSES_H

#include <stdbool.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct gc_pauses;

/*
 * Begin to measure process PID. Phases that the file or its runtime lacks are left out. An error
 * has a message in CTX.
 */
int gc_pauses_open(struct ocp_ctx *ctx, pid_t pid, struct gc_pauses **out);
/* Accepts NULL. */
void gc_pauses_close(struct gc_pauses *pauses);

/*
 * Read what was measured since the start (IS_TOTAL), or since the last read that was not a total.
 * *SAMPLE belongs to PAUSES until the next read, also after an error, when it is NULL.
 */
int gc_pauses_read(struct gc_pauses *pauses, bool is_total, const struct ocp_sample **sample);

#endif
