/* SPDX-License-Identifier: MIT */
/*
 * Chooses the pid namespace whose process ids the BPF programs use, and converts process ids to it.
 * In the initial namespace, all processes have an id. In any other namespace, a BPF program can get
 * the id of a process only if it is the process's own namespace.
 */
#ifndef KERNEL_PID_NAMESPACE_H
#define KERNEL_PID_NAMESPACE_H

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

/*
 * Set *ID to the id by which BPF programs that use the namespace NS see process PID. Return -EINVAL
 * if NS is not the initial namespace and PID is not in NS.
 */
int pid_namespace_id(struct ocp_ctx *ctx, const struct pid_namespace *ns, pid_t pid, __u32 *id);

#endif
