/* SPDX-License-Identifier: MIT */
/*
 * Does this kernel let this process count, and if not, what is missing? Asked with a throw-away
 * program before the real one is loaded, so that the answer does not depend on what that contains.
 */
#ifndef MEASURE_BPF_SUPPORT_H
#define MEASURE_BPF_SUPPORT_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "measure.h"

/* The attach type of uprobe_multi links; Debian 12's linux/bpf.h is older than it. */
#define ATTACH_UPROBE_MULTI ((enum bpf_attach_type)48)

struct bpf_support {
	/* A program that does nothing, for uprobe_multi links that only try something out. */
	int idle_prog_fd;
	bool has_uprobe_multi;
	/* The kernel's pid filter means the process, not the one thread of that id. */
	bool pid_filter_is_sound;
};

/*
 * Find out. On success *SUPPORT holds a descriptor to be closed; on failure the ctx says what is
 * missing: -EPERM for a privilege, -EOPNOTSUPP for the kernel.
 */
int bpf_support_probe(struct ocp_ctx *ctx, struct bpf_support *support);

/*
 * Fill in CONFIG's conditions on whose hits count: none for a process with CAP_SYS_PTRACE, else
 * those under which this process may inspect another (bpf/measure_access.bpf.h). 0, or a negative
 * errno if it cannot be found out who we are; the ctx says why.
 */
int bpf_support_access(struct ocp_ctx *ctx, struct measure_config *config);

/* Word the errno CODE (negative) of a refused bpf() call made while DOING something. */
int bpf_support_explain(struct ocp_ctx *ctx, int code, const char *doing);

#endif
