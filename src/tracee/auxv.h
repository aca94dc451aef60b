/* SPDX-License-Identifier: MIT */
/* The auxiliary vector that the kernel gave a process: getauxval(3), /proc/PID/auxv. */
#ifndef TRACEE_AUXV_H
#define TRACEE_AUXV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/* Set *VALUE to the value of TYPE (AT_...) for process PID; 0 if its vector lacks TYPE. */
int auxv_read(struct ocp_ctx *ctx, pid_t pid, uint64_t type, uint64_t *value);

/* Return the value of TYPE in BYTES, the contents of /proc/PID/auxv; 0 if TYPE is missing. */
uint64_t auxv_find(const char *bytes, size_t n_bytes, uint64_t type);

#endif
