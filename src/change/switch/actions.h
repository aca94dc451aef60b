/* SPDX-License-Identifier: MIT */
/* The actions that the user requests. ocaml_probes.h describes the public functions. */
#ifndef CHANGE_SWITCH_ACTIONS_H
#define CHANGE_SWITCH_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/str_regexp.h"
#include "ocaml_probes.h"

enum action_verb { ACTION_ENABLE, ACTION_DISABLE };

enum action_kind { ACTION_NAME, ACTION_PAIR, ACTION_REGEXP, ACTION_PREDICATE };

struct action {
	enum action_verb verb;
	enum action_kind kind;
	char *text; /* a name, the start of a pair, or a pattern; NULL: there is a predicate */
	char *stop; /* the stop of a pair; NULL: not a pair */
	struct str_regexp *re; /* the compiled pattern; NULL: no pattern */
	ocp_predicate_fn predicate;
	void *data; /* the argument that the predicate gets */
};

/* What the user requests: one verb for all probes (`all`), or a list of actions. */
struct ocp_actions {
	struct ocp_ctx *ctx;
	bool all;
	enum action_verb all_verb;
	struct action *list;
	size_t n;
	/* tsearch(3) tree of the names in the list, including both names of each pair */
	void *names;
};

/* Return a copy of ACTIONS without the actions that disable, or NULL if out of memory. */
struct ocp_actions *actions_enabling(const struct ocp_actions *actions);

#endif
