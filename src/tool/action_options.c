// SPDX-License-Identifier: MIT
/*
 * The flags that ask for actions. The library takes any mixture of them; on the command line it
 * would be a mistake more often than not, so all must be of one kind: -enable and -disable
 * together, or any other flag alone.
 */
#include "tool/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct action_flag {
	const char *name;
	const char *kind; /* what may stand together */
	bool splits;	  /* its value is a list of what ONE takes */
	/* One of them. */
	int (*one)(struct ocp_actions *actions, const char *text);
	int (*pair)(struct ocp_actions *actions, const char *start, const char *stop);
	int (*all)(struct ocp_actions *actions);
};

static const struct action_flag action_flags[] = {
	{ "enable", "names", true, .one = ocp_actions_enable },
	{ "disable", "names", true, .one = ocp_actions_disable },
	{ "enable-pair", "enable-pair", .pair = ocp_actions_enable_pair },
	{ "disable-pair", "disable-pair", .pair = ocp_actions_disable_pair },
	{ "enable-regexp", "enable-regexp", .one = ocp_actions_enable_regexp },
	{ "disable-regexp", "disable-regexp", .one = ocp_actions_disable_regexp },
	{ "enable-all", "enable-all", .all = ocp_actions_enable_all },
	{ "disable-all", "disable-all", .all = ocp_actions_disable_all },
};

static const struct action_flag *find_flag(const char *name)
{
	const struct action_flag *flag = action_flags;

	while (strcmp(flag->name, name) != 0)
		flag++;
	return flag;
}

/* NAME[,NAME]...; an empty name is a probe's name only if it stands alone. */
static int add_list(struct ocp_actions *actions, const struct action_flag *flag, char *list)
{
	const char *name;
	int err = 0;

	while (!err && (name = strsep(&list, ",")))
		err = flag->one(actions, name);
	return err;
}

/* START,STOP */
static int add_pair(struct ocp_actions *actions, const struct action_flag *flag, char *pair)
{
	const char *start = strsep(&pair, ",");

	return flag->pair(actions, start, pair);
}

static bool is_pair(const char *value)
{
	const char *comma = strchr(value, ',');

	return comma && !strchr(comma + 1, ',');
}

static int add(struct ocp_actions *actions, const struct action_flag *flag, const char *value)
{
	char *copy;
	int err;

	if (flag->all)
		return flag->all(actions);
	if (flag->one && !flag->splits)
		return flag->one(actions, value);
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	err = flag->pair ? add_pair(actions, flag, copy) : add_list(actions, flag, copy);
	free(copy);
	return err;
}

int options_add_actions(const struct command *command, struct options *options, const char *name,
			const char *value)
{
	const struct action_flag *flag = find_flag(name);
	int err;

	if (options->actions_flag &&
	    strcmp(find_flag(options->actions_flag)->kind, flag->kind) != 0)
		return say_usage(command, "-%s and -%s: one kind of action at a time",
				 options->actions_flag, name);
	options->actions_flag = name;
	if (flag->pair && !is_pair(value))
		return say_usage(command, "-%s '%s': not two names START,STOP", name, value);
	err = add(options->actions, flag, value);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}
