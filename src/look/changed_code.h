/* SPDX-License-Identifier: MIT */
/*
 * Find functions whose code in a process differs from the code in their file. Such functions must
 * not get uprobes: the kernel copies the instruction under a uprobe from the file, and when the
 * uprobe is removed, it writes the instruction from the file into the process.
 */
#ifndef LOOK_CHANGED_CODE_H
#define LOOK_CHANGED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "program/code_probes.h"
#include "program/program.h"

/*
 * Compare the functions of CODE, in the file of PROG, with the memory of PID, which has mapped the
 * file with load bias BIAS. Set CHANGED[I] to true if site number I of CODE is in a function whose
 * code differs, and *N to the number of such sites. Int3s, calls of the kernel's trampoline for
 * uprobes, and switched sites of PROG's probes do not count as differences.
 */
int changed_code_find(struct ocp_ctx *ctx, pid_t pid, const struct ocp_program *prog, uint64_t bias,
		      const struct code_probes *code, bool *changed, size_t *n);

#endif
