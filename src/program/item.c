// SPDX-License-Identifier: MIT
#include "program/item.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* ---- one ------------------------------------------------------------------------------------ */

int item_set(struct item *item, enum item_kind kind, const char *text)
{
	*item = (struct item){ kind, text ? strdup(text) : NULL };
	return text && !item->text ? -ENOMEM : 0;
}

bool item_equal(const struct item *a, const struct item *b)
{
	if (a->kind != b->kind || !a->text != !b->text)
		return false;
	return !a->text || strcmp(a->text, b->text) == 0;
}

void item_free(struct item *item)
{
	free((char *)item->text);
	*item = (struct item){ 0 };
}

/* ---- several -------------------------------------------------------------------------------- */

int items_add(struct items *items, enum item_kind kind, const char *text)
{
	struct item *list = realloc(items->list, (items->n + 1) * sizeof(*list));

	if (!list)
		return -ENOMEM;
	items->list = list;
	if (item_set(&list[items->n], kind, text))
		return -ENOMEM;
	items->n++;
	return 0;
}

int items_add_text(struct items *items, const char *text)
{
	char *copy, *rest;
	const char *name;
	int err = 0;

	if (text[strspn(text, NAME_CHARACTERS ",")])
		return items_add(items, ITEM_PROBE_REGEXP, text);
	copy = rest = strdup(text);
	if (!copy)
		return -ENOMEM;
	while (!err && (name = strsep(&rest, ",")))
		err = items_add(items, ITEM_PROBE, name);
	free(copy);
	return err;
}

int items_copy(struct items *to, const struct items *from)
{
	int err = 0;

	for (size_t i = 0; !err && i < from->n; i++)
		err = items_add(to, from->list[i].kind, from->list[i].text);
	return err;
}

bool items_equal(const struct items *a, const struct items *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (!item_equal(&a->list[i], &b->list[i]))
			return false;
	return a->n == b->n;
}

void items_free(struct items *items)
{
	for (size_t i = 0; i < items->n; i++)
		item_free(&items->list[i]);
	free(items->list);
	*items = (struct items){ 0 };
}
