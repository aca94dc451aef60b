// SPDX-License-Identifier: MIT
#include "process/actions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"

struct ocp_actions *ocp_actions_new(struct ocp_ctx *ctx)
{
	struct ocp_actions *actions = calloc(1, sizeof(*actions));

	if (actions)
		actions->ctx = ctx;
	else
		ctx_no_memory(ctx);
	return actions;
}

void ocp_actions_free(struct ocp_actions *actions)
{
	if (!actions)
		return;
	for (size_t i = 0; i < actions->n; i++)
		free(actions->list[i].name);
	free(actions->list);
	free(actions);
}

static int mixed(const struct ocp_actions *actions)
{
	return ctx_error(actions->ctx, -EINVAL,
			 "all probes at once and probes by name: one kind "
			 "of action at a time");
}

static int add_name(struct ocp_actions *actions, const char *name, enum action_verb verb)
{
	struct action *list;
	char *copy;

	if (actions->all)
		return mixed(actions);
	for (size_t i = 0; i < actions->n; i++) {
		if (strcmp(actions->list[i].name, name) != 0)
			continue;
		if (actions->list[i].verb == verb)
			return ctx_error(actions->ctx, -EINVAL, "probe '%s': named twice", name);
		return ctx_error(actions->ctx, -EINVAL,
				 "probe '%s': to be enabled and disabled at once", name);
	}
	list = realloc(actions->list, (actions->n + 1) * sizeof(*list));
	if (list)
		actions->list = list;
	copy = strdup(name);
	if (!list || !copy) {
		free(copy);
		return ctx_no_memory(actions->ctx);
	}
	list[actions->n++] = (struct action){ .name = copy, .verb = verb };
	return 0;
}

static int set_all(struct ocp_actions *actions, enum action_verb verb)
{
	if (actions->all)
		return ctx_error(actions->ctx, -EINVAL,
				 "all probes at once: asked for twice, once is enough");
	if (actions->n)
		return mixed(actions);
	actions->all = true;
	actions->all_verb = verb;
	return 0;
}

int ocp_actions_enable(struct ocp_actions *actions, const char *name)
{
	return add_name(actions, name, ACTION_ENABLE);
}

int ocp_actions_disable(struct ocp_actions *actions, const char *name)
{
	return add_name(actions, name, ACTION_DISABLE);
}

int ocp_actions_enable_all(struct ocp_actions *actions)
{
	return set_all(actions, ACTION_ENABLE);
}

int ocp_actions_disable_all(struct ocp_actions *actions)
{
	return set_all(actions, ACTION_DISABLE);
}

struct ocp_actions *actions_enabling(const struct ocp_actions *actions)
{
	struct ocp_actions *kept = ocp_actions_new(actions->ctx);
	int err = 0;

	if (!kept)
		return NULL;
	if (actions->all && actions->all_verb == ACTION_ENABLE)
		err = set_all(kept, ACTION_ENABLE);
	for (size_t i = 0; !err && i < actions->n; i++)
		if (actions->list[i].verb == ACTION_ENABLE)
			err = add_name(kept, actions->list[i].name, ACTION_ENABLE);
	if (err) {
		ocp_actions_free(kept);
		return NULL;
	}
	return kept;
}
