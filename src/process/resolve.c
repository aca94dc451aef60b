// SPDX-License-Identifier: MIT
#include "process/resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program/selection.h"

enum { HINTED_BYTES = 100 };

enum mark { NOT_TAKEN, TAKEN_ENABLE, TAKEN_DISABLE };

struct resolver {
	struct ocp_ctx *ctx;
	const char **names; /* of the probes, in the order of struct live */
	struct probe_names among;
	unsigned char *marks; /* enum mark of each probe */
	struct plan_step *chosen;
	size_t n;
};

/* How to take the probes that an action chooses. */
struct probe_taking {
	struct resolver *r;
	enum action_verb verb;
	bool leave_disabled;
};

/*
 * Add PROBE to the chosen probes. If an earlier action with the same verb has chosen PROBE, it
 * keeps its place in the order. Return -EINVAL if an earlier action has the other verb.
 */
static int take_chosen_probe(void *data, size_t probe)
{
	const struct probe_taking *taking = data;
	struct resolver *r = taking->r;
	enum mark mark = taking->verb == ACTION_ENABLE ? TAKEN_ENABLE : TAKEN_DISABLE;

	if (r->marks[probe] == NOT_TAKEN) {
		r->marks[probe] = (unsigned char)mark;
		r->chosen[r->n++] =
			(struct plan_step){ probe, taking->verb, taking->leave_disabled, 0, 0 };
	} else if (r->marks[probe] != mark) {
		return ctx_error(r->ctx, -EINVAL,
				 "probe '%s': cannot be enabled and disabled at once",
				 r->among.names[probe]);
	}
	return 0;
}

/*
 * If NAME, which no probe has, looks like a shell pattern or a regular expression, hint at the
 * action that takes a regular expression. In the hint, "job_*" becomes "job_.*".
 */
static void hint_at_regexp(struct ocp_ctx *ctx, const char *name, enum action_verb verb)
{
	char re[2 * HINTED_BYTES + 1];
	size_t n = 0;

	if (!strpbrk(name, "*?[.|") || strlen(name) > HINTED_BYTES)
		return;
	for (const char *c = name; *c; c++) {
		if (*c == '*' && (c == name || (c[-1] != '.' && c[-1] != ']')))
			re[n++] = '.';
		re[n++] = *c == '?' ? '.' : *c;
	}
	re[n] = '\0';
	ctx_hint(ctx, "-%s-regexp '%s'", verb == ACTION_ENABLE ? "enable" : "disable", re);
}

static int take_name(struct resolver *r, const char *name, enum action_verb verb)
{
	struct probe_taking taking = { r, verb, false };
	int err = choose_name(r->ctx, &r->among, name, take_chosen_probe, &taking);

	if (err == -ENOENT && r->among.n)
		hint_at_regexp(r->ctx, name, verb);
	return err;
}

static int take_pair(struct resolver *r, const struct action *pair)
{
	bool enable = pair->verb == ACTION_ENABLE;
	int err = take_name(r, enable ? pair->stop : pair->text, pair->verb);

	return err ? err : take_name(r, enable ? pair->text : pair->stop, pair->verb);
}

static int take_all(struct resolver *r, enum action_verb verb)
{
	struct probe_taking taking = { r, verb, true };
	int err = 0;

	for (size_t i = 0; !err && i < r->among.n; i++)
		err = take_chosen_probe(&taking, i);
	return err;
}

static int take_matching(struct resolver *r, const struct action *action)
{
	struct probe_taking taking = { r, action->verb, true };

	return choose_matching(r->ctx, &r->among, action->text, action->re, take_chosen_probe,
			       &taking);
}

/*
 * Take the probes that the predicate of ACTION accepts. A predicate that accepts no probe is not an
 * error.
 */
static int take_wanted(struct resolver *r, const struct action *action)
{
	struct probe_taking taking = { r, action->verb, true };
	int err = 0;

	for (size_t i = 0; !err && i < r->among.n; i++)
		if (action->predicate(action->data, r->among.names[i]))
			err = take_chosen_probe(&taking, i);
	return err;
}

static int take_action(struct resolver *r, const struct action *action)
{
	switch (action->kind) {
	case ACTION_NAME:
		return take_name(r, action->text, action->verb);
	case ACTION_PAIR:
		return take_pair(r, action);
	case ACTION_REGEXP:
		return take_matching(r, action);
	default:
		return take_wanted(r, action);
	}
}

static int init_resolver(struct resolver *r, const struct live *live, const char *where)
{
	const size_t n = live->n_probes;

	r->names = calloc(n + 1, sizeof(*r->names));
	r->marks = calloc(n + 1, sizeof(*r->marks));
	r->chosen = calloc(n + 1, sizeof(*r->chosen));
	if (!r->names || !r->marks || !r->chosen)
		return ctx_no_memory(r->ctx);
	for (size_t i = 0; i < n; i++)
		r->names[i] = live->probes[i].name;
	r->among = (struct probe_names){ r->names, n, where };
	return 0;
}

int actions_resolve(struct ocp_ctx *ctx, const struct live *live, const struct ocp_actions *actions,
		    struct plan_step **chosen, size_t *n)
{
	struct resolver r = { .ctx = ctx };
	int err = init_resolver(&r, live, image_list_name(live->images));

	if (!err && actions->all)
		err = take_all(&r, actions->all_verb);
	for (size_t i = 0; !err && i < actions->n; i++)
		err = take_action(&r, &actions->list[i]);
	free(r.names);
	free(r.marks);
	if (err) {
		free(r.chosen);
		r = (struct resolver){ 0 };
	}
	*chosen = r.chosen;
	*n = r.n;
	return err;
}
