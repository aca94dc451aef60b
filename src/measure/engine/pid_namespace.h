/* SPDX-License-Identifier: MIT */
/*
 * The pid namespace whose ids a BPF program sees. In the initial one it sees the ids that all
 * processes have there. Elsewhere it can look up the processes of one namespace only.
 */
#ifndef MEASURE_PID_NAMESPACE_H
#define MEASURE_PID_NAMESPACE_H

#include <linux/types.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct pid_namespace {
	uint64_t dev; /* in the kernel's format, see kernel_file.h */
	uint64_t ino; /* 0: the initial namespace */
};

/*
 * Set *NS to the initial namespace if we are in it; otherwise to that of process PID, or to ours if
 * PID is 0.
 */
int pid_namespace_choose(struct ocp_ctx *ctx, pid_t pid, struct pid_namespace *ns);

/* Set *ID to the id that a program sees for PID. -EINVAL: PID is in another namespace than NS. */
int pid_namespace_id(struct ocp_ctx *ctx, const struct pid_namespace *ns, pid_t pid, __u32 *id);

#endif
