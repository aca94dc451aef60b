/* SPDX-License-Identifier: MIT */
/*
 * An item: one thing that the user asks for, or several of one kind. Today these are probes. Other
 * things, such as functions or lines, will have kinds of their own.
 */
#ifndef PROGRAM_ITEM_H
#define PROGRAM_ITEM_H

#include <stdbool.h>
#include <stddef.h>

enum item_kind {
	ITEM_PROBE,	   /* the probe of this name */
	ITEM_PROBE_REGEXP, /* every probe whose name matches, see base/str_regexp.h */
	ITEM_ALL_PROBES,   /* every probe; it has no text */
};

struct item {
	enum item_kind kind;
	const char *text; /* NULL: the kind has none */
};

/* A list of items in the order of the user. It owns the texts. */
struct items {
	struct item *list;
	size_t n;
};

/* TEXT is copied. Like all functions here that return an int: 0 or -ENOMEM. */
int items_add(struct items *items, enum item_kind kind, const char *text);

/*
 * Add TEXT, which may be names or a regular expression: if it has only commas and characters of
 * probe names, it is a list of names, else it is a regular expression.
 */
int items_add_text(struct items *items, const char *text);

/* TO is empty before. The caller frees it with items_free, also after an error. */
int items_copy(struct items *to, const struct items *from);
bool items_equal(const struct items *a, const struct items *b);
void items_free(struct items *items);

/* The same for a single item. */
int item_set(struct item *item, enum item_kind kind, const char *text);
bool item_equal(const struct item *a, const struct item *b);
void item_free(struct item *item);

#endif
