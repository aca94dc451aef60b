/* SPDX-License-Identifier: MIT */
/* Measure the pauses of a process's collector, by the phases that the OCaml runtime has. */
#ifndef TOOL_GC_PAUSES_H
#define TOOL_GC_PAUSES_H

#include <stdbool.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct gc_pauses;

/*
 * Begin to measure process PID. Phases that the executable or its runtime lacks are left out. On
 * error, CTX has a message.
 */
int gc_pauses_open(struct ocp_ctx *ctx, pid_t pid, struct gc_pauses **out);
/* Accepts NULL. */
void gc_pauses_close(struct gc_pauses *pauses);

/*
 * Read the measurement since the start (IS_TOTAL), or since the last read that was not a total.
 * *SAMPLE belongs to PAUSES and is valid until the next read. After an error, *SAMPLE is unchanged
 * or NULL.
 */
int gc_pauses_read(struct gc_pauses *pauses, bool is_total, const struct ocp_sample **sample);

#endif
