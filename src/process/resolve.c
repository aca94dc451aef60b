// SPDX-License-Identifier: MIT
#include "process/resolve.h"

#include <errno.h>
#include <stdlib.h>

#include "base/suggest.h"

enum mark { NOT_TAKEN, TAKEN_ENABLE, TAKEN_DISABLE };

struct resolver {
	struct ocp_ctx *ctx;
	const struct live *live;
	const struct image_list *images;
	unsigned char *marks; /* enum mark of each probe */
	struct action_target *targets;
	size_t n;
};

static int unknown_probe(const struct resolver *r, const char *name)
{
	struct suggestion suggestion = suggestion_for(name);
	int err;

	if (r->live->n_probes == 0)
		return ctx_error(r->ctx, -ENOENT, "probe '%s': %s has no OCaml probes", name,
				 image_list_name(r->images));
	for (size_t i = 0; i < r->live->n_probes; i++)
		suggestion_offer(&suggestion, r->live->probes[i].name);
	err = ctx_error(r->ctx, -ENOENT, "probe '%s': no such probe in %s", name,
			image_list_name(r->images));
	if (suggestion.best)
		ctx_hint(r->ctx, "did you mean '%s'?", suggestion.best);
	return err;
}

/* A probe that another action of the same direction has taken stays where it is in the order. */
static int take(struct resolver *r, size_t probe, enum action_verb verb, bool leave_disabled)
{
	enum mark mark = verb == ACTION_ENABLE ? TAKEN_ENABLE : TAKEN_DISABLE;

	if (r->marks[probe] == NOT_TAKEN) {
		r->marks[probe] = (unsigned char)mark;
		r->targets[r->n++] = (struct action_target){ probe, verb, leave_disabled };
	} else if (r->marks[probe] != mark) {
		return ctx_error(r->ctx, -EINVAL, "probe '%s': to be enabled and disabled at once",
				 r->live->probes[probe].name);
	}
	return 0;
}

static int take_name(struct resolver *r, const char *name, enum action_verb verb)
{
	ptrdiff_t probe = live_find_probe(r->live, name);

	return probe < 0 ? unknown_probe(r, name) : take(r, (size_t)probe, verb, false);
}

static int take_pair(struct resolver *r, const struct action *pair)
{
	bool enable = pair->verb == ACTION_ENABLE;
	int err = take_name(r, enable ? pair->stop : pair->text, pair->verb);

	return err ? err : take_name(r, enable ? pair->text : pair->stop, pair->verb);
}

static bool chooses(const struct action *action, const char *name)
{
	if (action->kind == ACTION_REGEXP)
		return str_regexp_match(action->re, name);
	return action->predicate(action->data, name);
}

static int take_chosen(struct resolver *r, const struct action *action)
{
	size_t n_chosen = 0;
	int err = 0;

	for (size_t i = 0; !err && i < r->live->n_probes; i++) {
		if (!chooses(action, r->live->probes[i].name))
			continue;
		n_chosen++;
		err = take(r, i, action->verb, true);
	}
	/* A predicate may want none; whoever wrote a pattern expects something of it. */
	if (!err && n_chosen == 0 && action->kind == ACTION_REGEXP)
		return ctx_error(r->ctx, -ENOENT, "regular expression '%s': matches no probe of %s",
				 action->text, image_list_name(r->images));
	return err;
}

static int take_action(struct resolver *r, const struct action *action)
{
	switch (action->kind) {
	case ACTION_NAME:
		return take_name(r, action->text, action->verb);
	case ACTION_PAIR:
		return take_pair(r, action);
	default:
		return take_chosen(r, action);
	}
}

int actions_resolve(struct ocp_ctx *ctx, const struct live *live, const struct image_list *images,
		    const struct ocp_actions *actions, struct action_target **targets, size_t *n)
{
	struct resolver r = { .ctx = ctx, .live = live, .images = images };
	int err = 0;

	r.marks = calloc(live->n_probes + 1, sizeof(*r.marks));
	r.targets = calloc(live->n_probes + 1, sizeof(*r.targets));
	if (!r.marks || !r.targets)
		err = ctx_no_memory(ctx);
	for (size_t i = 0; !err && actions->all && i < live->n_probes; i++)
		err = take(&r, i, actions->all_verb, true);
	for (size_t i = 0; !err && i < actions->n; i++)
		err = take_action(&r, &actions->list[i]);
	free(r.marks);
	if (err) {
		free(r.targets);
		r = (struct resolver){ 0 };
	}
	*targets = r.targets;
	*n = r.n;
	return err;
}
