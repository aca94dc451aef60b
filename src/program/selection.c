// SPDX-License-Identifier: MIT
#include "program/selection.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include "base/str_regexp.h"
#include "base/suggest.h"

struct selection_item {
	char *text;
	struct str_regexp *re; /* NULL: the text is a name */
	bool was_used;
};

static int compare_items(const void *a, const void *b)
{
	const struct selection_item *x = a, *y = b;

	return strcmp(x->text, y->text);
}

static void free_item(struct selection_item *item)
{
	free(item->text);
	str_regexp_free(item->re);
	free(item);
}

void selection_free(struct selection *selection)
{
	for (size_t i = 0; i < selection->n; i++) {
		if (!selection->items[i]->re)
			tdelete(selection->items[i], &selection->names, compare_items);
		free_item(selection->items[i]);
	}
	free(selection->items);
	*selection = (struct selection){ 0 };
}

/* TEXT is copied, RE taken. NULL: no memory. */
static struct selection_item *new_item(const char *text, struct str_regexp *re)
{
	struct selection_item *item = calloc(1, sizeof(*item));

	if (!item) {
		str_regexp_free(re);
		return NULL;
	}
	item->re = re;
	item->text = strdup(text);
	if (item->text)
		return item;
	free_item(item);
	return NULL;
}

static int add(struct ocp_ctx *ctx, struct selection *selection, const char *text,
	       struct str_regexp *re)
{
	struct selection_item *item = new_item(text, re), **items, **known = &item;

	items = item ? realloc(selection->items, (selection->n + 1) * sizeof(void *)) : NULL;
	if (items)
		selection->items = items;
	if (items && !re)
		known = tsearch(item, &selection->names, compare_items);
	if (items && known && *known == item) {
		items[selection->n++] = item;
		selection->n_regexps += re != NULL;
		return 0;
	}
	if (item)
		free_item(item);
	return items && known ? ctx_error(ctx, -EINVAL, "probe '%s': named twice", text)
			      : ctx_no_memory(ctx);
}

int selection_add_name(struct ocp_ctx *ctx, struct selection *selection, const char *name)
{
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

const char *selection_text(const struct selection *selection, size_t i, bool *is_name)
{
	if (i >= selection->n)
		return NULL;
	*is_name = !selection->items[i]->re;
	return selection->items[i]->text;
}

bool selection_takes(struct selection *selection, const char *name)
{
	const struct selection_item named = { .text = (char *)name };
	struct selection_item **found = tfind(&named, &selection->names, compare_items);
	bool takes = selection->all || found;

	if (found)
		(*found)->was_used = true;
	for (size_t i = 0; selection->n_regexps && i < selection->n; i++) {
		struct selection_item *item = selection->items[i];

		if (item->re && str_regexp_match(item->re, name)) {
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
		const struct selection_item *item = selection->items[i];

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
