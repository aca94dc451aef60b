// SPDX-License-Identifier: MIT
#include "change/switch/actions.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
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

static void free_action(struct action *action)
{
	free(action->text);
	free(action->stop);
	str_regexp_free(action->re);
}

void ocp_actions_free(struct ocp_actions *actions)
{
	if (!actions)
		return;
	for (size_t i = 0; i < actions->n; i++)
		free_action(&actions->list[i]);
	free(actions->list);
	tdestroy(actions->names, free);
	free(actions);
}

/*
 * An element of the tree of names. In memory, the name follows the element. A search key only
 * points to a name.
 */
struct named_action {
	const char *name;
	enum action_verb verb;
};

static int compare_named(const void *a, const void *b)
{
	const struct named_action *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int mixed_with_all(const struct ocp_actions *actions)
{
	return ctx_error(actions->ctx, -EINVAL,
			 "all probes and single probes: give one kind of action at a time");
}

/* Return -EINVAL, with a message, if an action already has NAME; else 0. */
static int check_new_name(const struct ocp_actions *actions, const char *name,
			  enum action_verb verb)
{
	const struct named_action key = { .name = name };
	struct named_action *const *found = tfind(&key, &actions->names, compare_named);

	if (!found)
		return 0;
	if ((*found)->verb == verb)
		return ctx_error(actions->ctx, -EINVAL, "probe '%s': named twice", name);
	return ctx_error(actions->ctx, -EINVAL,
			 "probe '%s': cannot be enabled and disabled at once", name);
}

static int remember_name(struct ocp_actions *actions, const char *name, enum action_verb verb)
{
	size_t bytes = strlen(name) + 1;
	struct named_action *named = malloc(sizeof(*named) + bytes);

	if (!named)
		return ctx_no_memory(actions->ctx);
	*named = (struct named_action){ .name = memcpy(named + 1, name, bytes), .verb = verb };
	if (tsearch(named, &actions->names, compare_named))
		return 0;
	free(named);
	return ctx_no_memory(actions->ctx);
}

static int copy_text(struct ocp_ctx *ctx, const char *text, char **copy)
{
	if (!text)
		return 0;
	*copy = strdup(text);
	return *copy ? 0 : ctx_no_memory(ctx);
}

/*
 * Add the names in ACTION to the tree. Return -EINVAL, with a message, if the tree already has one
 * of these names.
 */
static int remember_names(struct ocp_actions *actions, const struct action *action)
{
	int err;

	if (action->kind != ACTION_NAME && action->kind != ACTION_PAIR)
		return 0;
	/* Check both names before one is added, so that an error leaves the tree unchanged. */
	err = check_new_name(actions, action->text, action->verb);
	if (!err && action->stop)
		err = check_new_name(actions, action->stop, action->verb);
	if (!err)
		err = remember_name(actions, action->text, action->verb);
	if (!err && action->stop)
		err = remember_name(actions, action->stop, action->verb);
	return err;
}

/*
 * Append a copy of TEMPLATE. The strings are copied, and the regular expression is compiled again.
 */
static int append_action(struct ocp_actions *actions, const struct action *template)
{
	struct action *action;
	int err;

	if (actions->all)
		return mixed_with_all(actions);
	err = remember_names(actions, template);
	if (err)
		return err;
	action = array_add(actions->list, actions->n);
	if (!action)
		return ctx_no_memory(actions->ctx);
	*action = (struct action){
		.verb = template->verb,
		.kind = template->kind,
		.predicate = template->predicate,
		.data = template->data,
	};
	err = copy_text(actions->ctx, template->text, &action->text);
	if (!err)
		err = copy_text(actions->ctx, template->stop, &action->stop);
	if (!err && action->kind == ACTION_REGEXP)
		err = str_regexp_new(actions->ctx, action->text, &action->re);
	if (err) {
		free_action(action);
		actions->n--;
	}
	return err;
}

static int add_name_action(struct ocp_actions *actions, const char *name, enum action_verb verb)
{
	return append_action(actions, &(struct action){
					      .kind = ACTION_NAME,
					      .verb = verb,
					      .text = (char *)name,
				      });
}

static int add_pair_action(struct ocp_actions *actions, const char *start, const char *stop,
			   enum action_verb verb)
{
	if (strcmp(start, stop) == 0)
		return ctx_error(actions->ctx, -EINVAL,
				 "pair '%s,%s': the same name twice, a pair is two probes", start,
				 stop);
	return append_action(actions, &(struct action){
					      .kind = ACTION_PAIR,
					      .verb = verb,
					      .text = (char *)start,
					      .stop = (char *)stop,
				      });
}

static int add_regexp(struct ocp_actions *actions, const char *pattern, enum action_verb verb)
{
	return append_action(actions, &(struct action){
					      .kind = ACTION_REGEXP,
					      .verb = verb,
					      .text = (char *)pattern,
				      });
}

static int add_predicate(struct ocp_actions *actions, ocp_predicate_fn predicate, void *data,
			 enum action_verb verb)
{
	return append_action(actions, &(struct action){
					      .kind = ACTION_PREDICATE,
					      .verb = verb,
					      .predicate = predicate,
					      .data = data,
				      });
}

static int set_all(struct ocp_actions *actions, enum action_verb verb)
{
	if (actions->all)
		return ctx_error(actions->ctx, -EINVAL, "all probes: given twice");
	if (actions->n)
		return mixed_with_all(actions);
	actions->all = true;
	actions->all_verb = verb;
	return 0;
}

int ocp_actions_enable(struct ocp_actions *actions, const char *name)
{
	return add_name_action(actions, name, ACTION_ENABLE);
}

int ocp_actions_disable(struct ocp_actions *actions, const char *name)
{
	return add_name_action(actions, name, ACTION_DISABLE);
}

int ocp_actions_enable_pair(struct ocp_actions *actions, const char *start, const char *stop)
{
	return add_pair_action(actions, start, stop, ACTION_ENABLE);
}

int ocp_actions_disable_pair(struct ocp_actions *actions, const char *start, const char *stop)
{
	return add_pair_action(actions, start, stop, ACTION_DISABLE);
}

int ocp_actions_enable_regexp(struct ocp_actions *actions, const char *re)
{
	return add_regexp(actions, re, ACTION_ENABLE);
}

int ocp_actions_disable_regexp(struct ocp_actions *actions, const char *re)
{
	return add_regexp(actions, re, ACTION_DISABLE);
}

int ocp_actions_enable_if(struct ocp_actions *actions, ocp_predicate_fn fn, void *data)
{
	return add_predicate(actions, fn, data, ACTION_ENABLE);
}

int ocp_actions_disable_if(struct ocp_actions *actions, ocp_predicate_fn fn, void *data)
{
	return add_predicate(actions, fn, data, ACTION_DISABLE);
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
			err = append_action(kept, &actions->list[i]);
	if (err) {
		ocp_actions_free(kept);
		return NULL;
	}
	return kept;
}
