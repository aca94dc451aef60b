/* SPDX-License-Identifier: MIT */
/* The actions that a user asks for. ocaml_probes.h describes the public functions. */
#ifndef PROCESS_ACTIONS_H
#define PROCESS_ACTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/str_regexp.h"
#include "ocaml_probes.h"

enum action_verb { ACTION_ENABLE, ACTION_DISABLE };

enum action_kind { ACTION_NAME, ACTION_PAIR, ACTION_REGEXP, ACTION_PREDICATE };

struct action {
	enum action_verb verb;
	enum action_kind kind;
	char *text;	       /* name, start of a pair, or pattern; NULL with a predicate */
	char *stop;	       /* the second name of a pair */
	struct str_regexp *re; /* the compiled pattern */
	ocp_predicate_fn predicate;
	void *data; /* for the predicate */
};

/* Either ALL with one verb, or a list. */
struct ocp_actions {
	struct ocp_ctx *ctx;
	bool all;
	enum action_verb all_verb;
	struct action *list;
	size_t n;
	void *names; /* a tree of the names in the list, also in pairs (tsearch) */
};

/* Return a copy of ACTIONS with its enable actions only, or NULL if out of memory. */
struct ocp_actions *actions_enabling(const struct ocp_actions *actions);

#endif
