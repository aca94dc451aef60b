/* SPDX-License-Identifier: MIT */
/*
 * Chooses the pid namespace whose process ids the BPF programs use, and converts process ids to ids
 * of this namespace. Every process has an id in the initial namespace. The id of a process in any
 * other namespace is available to a BPF program only if this namespace is the process's own.
 */
#ifndef KERNEL_PID_NAMESPACE_H
#define KERNEL_PID_NAMESPACE_H

#include <linux/types.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct pid_namespace {
	uint64_t dev; /* the device of the namespace's file, in the format of kernel_file_dev() */
	uint64_t ino; /* the inode of the namespace's file; 0: the initial namespace */
};

/*
 * Set *NS to the initial namespace if this process is in it. Otherwise set *NS to the namespace of
 * process PID, or to the namespace of this process if PID is 0.
 */
int pid_namespace_choose(struct ocp_ctx *ctx, pid_t pid, struct pid_namespace *ns);

/*
 * Set *ID to the id that process PID has in NS: BPF programs that use NS see the process under this
 * id. Return -EINVAL if NS is not the initial namespace and PID is not in NS.
 */
int pid_namespace_id(struct ocp_ctx *ctx, const struct pid_namespace *ns, pid_t pid, __u32 *id);

#endif
