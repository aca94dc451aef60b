/* SPDX-License-Identifier: MIT */
/*
 * Functions whose code in a process is not that of their file. The kernel takes the instruction under a
 * uprobe from the file, and puts it back at the end, so no uprobe may be put on them.
 */
#ifndef PROCESS_CHANGED_CODE_H
#define PROCESS_CHANGED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "program/code_probes.h"
#include "program/program.h"

/*
 * Compare the functions of CODE, which are those of PROG, with the memory of PID, which has mapped the
 * file with BIAS. CHANGED[i] is set if site I of the code is in a function that differs; *N is the
 * number of these sites. Int3s, calls of the kernel's trampoline for uprobes, and switched sites of
 * PROG's probes are no difference.
 */
int changed_code_find(struct ocp_ctx *ctx, pid_t pid, const struct ocp_program *prog, uint64_t bias,
		      const struct code_probes *code, bool *changed, size_t *n);

#endif
