/* SPDX-License-Identifier: MIT */
/* --engine: choose whether the kernel or the process itself counts. */
#ifndef TOOL_CHOOSE_ENGINE_H
#define TOOL_CHOOSE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include "cli/cli.h"

/* The budget of --engine auto without --budget: a share of one core. */
#define ENGINE_AUTO_BUDGET 0.05

struct chosen_engine {
	bool is_inside;
	char reason[300]; /* "": the user chose the engine, or it is the default */
};

/*
 * Choose the engine that measures the N processes PROCS, according to OPTIONS. `auto` may first
 * measure with BPF for a tenth of a second, and detach again; it does not do so if a command will
 * cause the hits, since the command starts later. Without --engine, the engine is BPF, or `inside`
 * if BPF is not permitted and `inside` supports the request. Print the engine and the reason,
 * unless -quiet is set or the reason is empty.
 */
void choose_engine(const struct options *options, struct ocp_process **procs, size_t n,
		   struct chosen_engine *chosen);

#endif
