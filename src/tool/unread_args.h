/* SPDX-License-Identifier: MIT */
/* The arguments that --print shows as "?", and the reasons. They are reported once, at the end. */
#ifndef TOOL_UNREAD_ARGS_H
#define TOOL_UNREAD_ARGS_H

#include <stddef.h>
#include "ocaml_probes.h"

struct unread_arg {
	char *probe, *why;
	size_t arg;
};

struct unread_args {
	struct unread_arg *list; /* each argument once */
	size_t n;
};

/* Record the arguments without a value in HIT, a hit of METER. Returns 0 or -ENOMEM. */
int unread_args_note(struct unread_args *args, const struct ocp_meter *meter,
		     const struct ocp_hit *hit);
/* Print a line for each recorded argument to stderr. */
void unread_args_say(const struct unread_args *args);
void unread_args_free(struct unread_args *args);

#endif
