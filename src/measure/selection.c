// SPDX-License-Identifier: MIT
#include "measure/selection.h"

#include <stdlib.h>
#include <string.h>
#include "base/str_regexp.h"
#include "base/suggest.h"

struct selection_item {
	char *text;
	struct str_regexp *re; /* NULL: the text is a name */
	bool was_used;
};

void selection_free(struct selection *selection)
{
	for (size_t i = 0; i < selection->n; i++) {
		free(selection->items[i].text);
		str_regexp_free(selection->items[i].re);
	}
	free(selection->items);
	*selection = (struct selection){ 0 };
}

static int add(struct ocp_ctx *ctx, struct selection *selection, const char *text,
	       struct str_regexp *re)
{
	struct selection_item *items =
		realloc(selection->items, (selection->n + 1) * sizeof(*items));
	char *copy = strdup(text);

	if (items)
		selection->items = items;
	if (!items || !copy) {
		free(copy);
		str_regexp_free(re);
		return ctx_no_memory(ctx);
	}
	selection->items[selection->n++] = (struct selection_item){ .text = copy, .re = re };
	return 0;
}

int selection_add_name(struct ocp_ctx *ctx, struct selection *selection, const char *name)
{
	for (size_t i = 0; i < selection->n; i++)
		if (!selection->items[i].re && strcmp(selection->items[i].text, name) == 0)
			return ctx_error(ctx, -EINVAL, "probe '%s': named twice", name);
	return add(ctx, selection, name, NULL);
}

int selection_add_regexp(struct ocp_ctx *ctx, struct selection *selection, const char *re)
{
	struct str_regexp *compiled;
	int err = str_regexp_new(ctx, re, &compiled);

	return err ? err : add(ctx, selection, re, compiled);
}

bool selection_is_empty(const struct selection *selection)
{
	return !selection->n && !selection->all;
}

bool selection_takes(struct selection *selection, const char *name)
{
	bool takes = selection->all;

	for (size_t i = 0; i < selection->n; i++) {
		struct selection_item *item = &selection->items[i];

		if (item->re ? str_regexp_match(item->re, name) : strcmp(item->text, name) == 0) {
			item->was_used = true;
			takes = true;
		}
	}
	return takes;
}

int selection_unknown(struct ocp_ctx *ctx, const char *name, const char *const *names, size_t n,
		      const char *where)
{
	struct suggestion suggestion = suggestion_for(name);

	if (n == 0)
		return ctx_error(ctx, -ENOENT, "probe '%s': %s has no OCaml probes", name, where);
	for (size_t i = 0; i < n; i++)
		suggestion_offer(&suggestion, names[i]);
	ctx_set_error(ctx, "probe '%s': no such probe in %s", name, where);
	if (suggestion.best)
		ctx_hint(ctx, "did you mean '%s'?", suggestion.best);
	return -ENOENT;
}

int selection_check_used(struct ocp_ctx *ctx, const struct selection *selection,
			 const char *const *names, size_t n, const char *where)
{
	for (size_t i = 0; i < selection->n; i++) {
		const struct selection_item *item = &selection->items[i];

		if (item->was_used)
			continue;
		if (item->re)
			return ctx_error(ctx, -ENOENT,
					 "regular expression '%s': matches no probe of %s",
					 item->text, where);
		return selection_unknown(ctx, item->text, names, n, where);
	}
	return 0;
}
