/* SPDX-License-Identifier: MIT */
/* --engine: who counts, the kernel or the process itself. */
#ifndef TOOL_CHOOSE_ENGINE_H
#define TOOL_CHOOSE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include "cli/cli.h"

/* The budget of --engine auto without --budget: a share of one core. */
#define ENGINE_AUTO_BUDGET 0.05

struct chosen_engine {
	bool is_inside;
	char reason[300]; /* "": the user has chosen, or it is the default */
};

/*
 * Choose the engine for measuring the N processes PROCS as OPTIONS say. To choose, `auto` may measure with
 * BPF for a tenth of a second, and then end that again; not if a command is to cause the hits, which starts
 * later. Without --engine it is BPF, or `inside` where BPF is not permitted and `inside` can do what is
 * asked. Says which engine was chosen and why, unless -quiet or it is the default.
 */
void choose_engine(const struct options *options, struct ocp_process **procs, size_t n,
		   struct chosen_engine *chosen);

#endif
