/* SPDX-License-Identifier: MIT */
/* What tests may choose about engine_bpf; everybody else goes through engine_ops. */
#ifndef COUNT_ENGINE_BPF_H
#define COUNT_ENGINE_BPF_H

#include <stdbool.h>
#include "count/engine.h"

struct engine_bpf_options {
	/* Tell the process apart in the BPF program even where the kernel's own filter is sound. */
	bool filter_in_bpf;
};

/* As engine_bpf.open; OPTIONS may be NULL. */
int engine_bpf_open(struct ocp_ctx *ctx, const struct engine_target *targets, size_t n_targets,
		    const struct engine_bpf_options *options, struct engine **out);

#endif
