// SPDX-License-Identifier: MIT
/*
 * Parse the flags for actions, such as -enable. The library accepts any mixture of actions, but on
 * the command line a mixture is usually a mistake. So each flag has a kind, and all flags that are
 * given must be of one kind: -enable and -disable have the same kind, every other flag has its own
 * kind.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum value_shape {
	LIST,  /* the value of the flag is NAME[,NAME]... */
	ONE,   /* the value of the flag is one text */
	PAIR,  /* the value of the flag is START,STOP */
	WHOLE, /* the flag has no value */
};

struct action_flag {
	const char *name;
	const char *kind; /* only flags of one kind may be combined */
	enum value_shape shape;
	union {
		int (*one)(struct ocp_actions *actions, const char *text); /* for LIST and ONE */
		int (*pair)(struct ocp_actions *actions, const char *start, const char *stop);
		int (*all)(struct ocp_actions *actions);
	};
};

static const struct action_flag action_flags[] = {
	{ "enable", "names", LIST, .one = ocp_actions_enable },
	{ "disable", "names", LIST, .one = ocp_actions_disable },
	{ "enable-pair", "enable-pair", PAIR, .pair = ocp_actions_enable_pair },
	{ "disable-pair", "disable-pair", PAIR, .pair = ocp_actions_disable_pair },
	{ "enable-regexp", "enable-regexp", ONE, .one = ocp_actions_enable_regexp },
	{ "disable-regexp", "disable-regexp", ONE, .one = ocp_actions_disable_regexp },
	{ "enable-all", "enable-all", WHOLE, .all = ocp_actions_enable_all },
	{ "disable-all", "disable-all", WHOLE, .all = ocp_actions_disable_all },
};

static const struct action_flag *find_flag(const char *name)
{
	const struct action_flag *flag = action_flags;

	while (strcmp(flag->name, name) != 0)
		flag++;
	return flag;
}

static bool is_pair(const char *value)
{
	const char *comma = strchr(value, ',');

	return comma && !strchr(comma + 1, ',');
}

/* Add the actions of FLAG with VALUE. Modifies VALUE, to split it. */
static int add_flag_actions(struct ocp_actions *actions, const struct action_flag *flag,
			    char *value)
{
	const char *part;
	int err = 0;

	switch (flag->shape) {
	case LIST:
		/* Keep empty parts: "" is a possible name of a probe, though usually unknown. */
		while (!err && (part = strsep(&value, ",")))
			err = flag->one(actions, part);
		return err;
	case ONE:
		return flag->one(actions, value);
	case PAIR:
		part = strsep(&value, ",");
		return flag->pair(actions, part, value);
	default:
		return flag->all(actions);
	}
}

int options_add_actions(const struct command *command, struct options *options, const char *name,
			const char *value)
{
	const struct action_flag *flag = find_flag(name);
	char *copy;
	int err;

	if (options->actions_flag &&
	    strcmp(find_flag(options->actions_flag)->kind, flag->kind) != 0)
		return say_usage(command, "-%s and -%s cannot be combined", options->actions_flag,
				 name);
	options->actions_flag = name;
	if (flag->shape == PAIR && !is_pair(value))
		return say_usage(command, "-%s '%s': not two names START,STOP", name, value);
	copy = strdup(value ? value : "");
	if (!copy) {
		say("out of memory");
		return EXIT_FAILED;
	}
	err = add_flag_actions(options->actions, flag, copy);
	free(copy);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}
