/* SPDX-License-Identifier: MIT */
/*
 * The pid namespace whose ids a BPF program uses. In the initial namespace, these are the ids that
 * all processes have there. In any other namespace, the program can look up ids only for the
 * processes of that namespace.
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
 * Set *NS to the initial namespace if we are in it. Otherwise set *NS to the namespace of process
 * PID, or to our own namespace if PID is 0.
 */
int pid_namespace_choose(struct ocp_ctx *ctx, pid_t pid, struct pid_namespace *ns);

/* Set *ID to the id that a program sees for PID. Return -EINVAL if PID is in another namespace. */
int pid_namespace_id(struct ocp_ctx *ctx, const struct pid_namespace *ns, pid_t pid, __u32 *id);

#endif
