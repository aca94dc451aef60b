/* SPDX-License-Identifier: MIT */
/*
 * Tests whether this kernel lets this process measure, and what is missing. The tests load a small
 * program of their own, so that their result does not depend on the real programs.
 */
#ifndef KERNEL_BPF_SUPPORT_H
#define KERNEL_BPF_SUPPORT_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "measure.h"

/* The attach type of uprobe_multi links, which linux/bpf.h of Debian 12 lacks. */
#define ATTACH_UPROBE_MULTI ((enum bpf_attach_type)48)

struct bpf_support {
	/* A program that does nothing, for links that are only tried out. */
	int idle_prog_fd;
	bool has_uprobe_multi;
	/* The kernel's pid filter selects the process, not only one of its threads. */
	bool pid_filter_is_sound;
};

/*
 * Test whether this process can measure on this kernel, and fill in SUPPORT. On success, the caller
 * closes support->idle_prog_fd. On failure, record a message that names what is missing, and return
 * -EPERM for a privilege, -EOPNOTSUPP for a feature of the kernel, or another negative errno.
 */
int bpf_support_probe(struct ocp_ctx *ctx, struct bpf_support *support);

/*
 * If this process lacks CAP_SYS_PTRACE, set in CONFIG that hits count only in processes that this
 * process may inspect (bpf/measure_access.bpf.h). If it has CAP_SYS_PTRACE, leave CONFIG as it is:
 * all hits count. Return 0, or a negative errno with a message if the ids of this process cannot be
 * read.
 */
int bpf_support_access(struct ocp_ctx *ctx, struct measure_config *config);

/*
 * Record the message for CODE, the negative errno of a bpf() call that failed. DOING says in words
 * what was attempted. Return the errno that the caller should return, which may differ from CODE.
 */
int bpf_support_explain(struct ocp_ctx *ctx, int code, const char *doing);

#endif
