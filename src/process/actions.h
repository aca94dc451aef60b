/* SPDX-License-Identifier: MIT */
/* What is to be switched: names, or all. Public functions: see ocaml_probes.h. */
#ifndef PROCESS_ACTIONS_H
#define PROCESS_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "ocaml_probes.h"

enum action_verb { ACTION_ENABLE, ACTION_DISABLE };

struct action {
	char *name;
	enum action_verb verb;
};

/* Either ALL with one verb, or a list of names. */
struct ocp_actions {
	struct ocp_ctx *ctx;
	bool all;
	enum action_verb all_verb;
	struct action *list;
	size_t n;
};

/* A copy that holds the enable actions only; NULL when memory is short. */
struct ocp_actions *actions_enabling(const struct ocp_actions *actions);

#endif
