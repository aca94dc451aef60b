// SPDX-License-Identifier: MIT
#include "program/selection.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/suggest.h"

struct selected {
	struct item item;
	struct str_regexp *re; /* NULL unless the kind of `item` is one with _REGEXP */
	bool was_used;
};

static int compare_texts(const void *a, const void *b)
{
	const struct selected *x = a, *y = b;

	return strcmp(x->item.text, y->item.text);
}

static void free_selected(struct selected *selected)
{
	item_free(&selected->item);
	str_regexp_free(selected->re);
	free(selected);
}

void selection_free(struct selection *selection)
{
	for (size_t i = 0; i < selection->n; i++) {
		if (!selection->items[i]->re)
			tdelete(selection->items[i], &selection->names, compare_texts);
		free_selected(selection->items[i]);
	}
	free(selection->items);
	*selection = (struct selection){ 0 };
}

/* ---- adding --------------------------------------------------------------------------------- */

static int new_selected(struct ocp_ctx *ctx, const struct item *item, struct selected **out)
{
	struct selected *selected = calloc(1, sizeof(*selected));
	int err = 0;

	if (!selected)
		return ctx_no_memory(ctx);
	if (item->kind == ITEM_PROBE_REGEXP || item->kind == ITEM_FUNCTION_REGEXP)
		err = str_regexp_new(ctx, item_body(item->text), &selected->re);
	if (!err && item_set(&selected->item, item->kind, item->text))
		err = ctx_no_memory(ctx);
	if (err)
		free_selected(selected);
	else
		*out = selected;
	return err;
}

static int remember_name(struct ocp_ctx *ctx, struct selection *selection,
			 struct selected *selected)
{
	struct selected **known = tsearch(selected, &selection->names, compare_texts);

	if (!known)
		return ctx_no_memory(ctx);
	return *known == selected ? 0
				  : ctx_error(ctx, -EINVAL, "%s'%s': named twice",
					      item_is_code(selected->item.text) ? "" : "probe ",
					      selected->item.text);
}

int selection_add(struct ocp_ctx *ctx, struct selection *selection, const struct item *item)
{
	struct selected *selected, **new = NULL;
	int err;

	if (item->kind == ITEM_ALL_PROBES) {
		selection->all = true;
		return 0;
	}
	err = new_selected(ctx, item, &selected);
	if (err)
		return err;
	if (!selected->re)
		err = remember_name(ctx, selection, selected);
	if (!err) {
		new = array_add(selection->items, selection->n);
		err = new ? 0 : ctx_no_memory(ctx);
	}
	if (err) {
		free_selected(selected);
		return err;
	}
	*new = selected;
	selection->n_regexps += selected->re != NULL;
	return 0;
}

/* ---- asking --------------------------------------------------------------------------------- */

bool selection_is_empty(const struct selection *selection)
{
	return !selection->n && !selection->all;
}

bool selection_has_kind(const struct selection *selection, enum item_kind kind)
{
	for (size_t i = 0; i < selection->n; i++)
		if (selection->items[i]->item.kind == kind)
			return true;
	return kind == ITEM_ALL_PROBES && selection->all;
}

const struct item *selection_item(const struct selection *selection, size_t i)
{
	return i < selection->n ? &selection->items[i]->item : NULL;
}

static bool matches(const struct selected *selected, enum item_kind kind, const char *name)
{
	return selected->re && selected->item.kind == kind &&
	       str_regexp_match(selected->re, item_body(name));
}

bool selection_was_used(const struct selection *selection, size_t i)
{
	return selection->items[i]->was_used;
}

static struct selected *find_named(const struct selection *selection, const char *name)
{
	const struct selected named = { .item.text = name };
	struct selected **found = tfind(&named, &selection->names, compare_texts);

	return found ? *found : NULL;
}

/*
 * If NAME is a line of a source file, return the item that describes all lines of this file. If
 * there is no such item, or NAME is not a line, return NULL.
 */
static struct selected *find_file_lines(const struct selection *selection, const char *name)
{
	struct selected *found;
	char *file;
	int line;

	/* The names of other kinds need not be parsed: there are many. */
	if (strncmp(name, ITEM_LINE_PREFIX, strlen(ITEM_LINE_PREFIX)) != 0 ||
	    item_kind_of_name(name) != ITEM_LINE)
		return NULL;
	file = strndup(name, item_line_file(name, &line));
	found = file ? find_named(selection, file) : NULL;
	free(file);
	return found;
}

/* Return the kind of items with a regular expression that can match NAME. */
static enum item_kind regexp_kind_for(const char *name)
{
	switch (item_kind_of_name(name)) {
	case ITEM_FUNCTION:
	case ITEM_FUNCTION_REGEXP:
		return ITEM_FUNCTION_REGEXP;
	case ITEM_PROBE:
		return ITEM_PROBE_REGEXP;
	default:
		/* no item with a regular expression has this kind */
		return item_kind_of_name(name);
	}
}

bool selection_takes(struct selection *selection, const char *name)
{
	struct selected *found = find_named(selection, name),
			*lines = find_file_lines(selection, name);
	bool takes = (selection->all && !item_is_code(name)) || found || lines;
	enum item_kind kind = ITEM_PROBE_REGEXP;

	if (selection->n_regexps)
		kind = regexp_kind_for(name);
	if (found)
		found->was_used = true;
	if (lines)
		lines->was_used = true;
	for (size_t i = 0; selection->n_regexps && i < selection->n; i++) {
		struct selected *selected = selection->items[i];

		if (matches(selected, kind, name)) {
			selected->was_used = true;
			takes = true;
		}
	}
	return takes;
}

int selection_unknown(struct ocp_ctx *ctx, const char *name, const char *const *names, size_t n,
		      const char *where)
{
	struct suggestion suggestion = suggestion_for(name);

	if (item_is_code(name))
		return ctx_error(ctx, -ENOENT, "'%s': no such function in %s", name, where);
	if (n == 0)
		return ctx_error(ctx, -ENOENT, "probe '%s': %s has no OCaml probes", name, where);
	for (size_t i = 0; i < n; i++)
		suggestion_offer(&suggestion, names[i]);
	ctx_set_error(ctx, "probe '%s': no such probe in %s", name, where);
	if (suggestion.best)
		ctx_hint(ctx, "did you mean '%s'?", suggestion.best);
	return -ENOENT;
}

int selection_matches_none(struct ocp_ctx *ctx, const char *text, const char *what,
			   const char *where)
{
	ctx_set_error(ctx, "regular expression '%s': matches no %s of %s", text, what, where);
	for (const char *at = text; (at = strchr(at, '|')); at++)
		if (at == text || at[-1] != '\\') {
			ctx_hint(ctx, "alternation in Str's syntax is `\\|`");
			break;
		}
	return -ENOENT;
}

static int matches_none(struct ocp_ctx *ctx, const char *text, const char *where)
{
	return selection_matches_none(ctx, text, item_is_code(text) ? "function" : "probe", where);
}

int selection_check_used(struct ocp_ctx *ctx, const struct selection *selection,
			 const char *const *names, size_t n, const char *where)
{
	for (size_t i = 0; i < selection->n; i++) {
		const struct selected *selected = selection->items[i];
		const char *text = selected->item.text;

		if (!selected->was_used)
			return selected->re ? matches_none(ctx, text, where)
					    : selection_unknown(ctx, text, names, n, where);
	}
	return 0;
}

/* ---- choosing from all ---------------------------------------------------------------------- */

static int compare_probe_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int choose_name(struct ocp_ctx *ctx, const struct probe_names *among, const char *name,
		take_probe_fn take, void *data)
{
	const char *const *found =
		among->n ? bsearch(&name, among->names, among->n, sizeof(name), compare_probe_names)
			 : NULL;

	return found ? take(data, (size_t)(found - among->names))
		     : selection_unknown(ctx, name, among->names, among->n, among->where);
}

int choose_matching(struct ocp_ctx *ctx, const struct probe_names *among, const char *text,
		    const struct str_regexp *re, take_probe_fn take, void *data)
{
	bool has_matched = false;
	int err = 0;

	for (size_t i = 0; !err && i < among->n; i++) {
		if (!str_regexp_match(re, among->names[i]))
			continue;
		has_matched = true;
		err = take(data, i);
	}
	return !err && !has_matched ? matches_none(ctx, text, among->where) : err;
}

int selection_choose(struct ocp_ctx *ctx, const struct selection *selection,
		     const struct probe_names *among, take_probe_fn take, void *data)
{
	int err = 0;

	for (size_t i = 0; !err && selection->all && i < among->n; i++)
		err = take(data, i);
	for (size_t i = 0; !err && i < selection->n; i++) {
		const struct selected *selected = selection->items[i];
		const char *text = selected->item.text;

		err = selected->re ? choose_matching(ctx, among, text, selected->re, take, data)
				   : choose_name(ctx, among, text, take, data);
	}
	return err;
}
