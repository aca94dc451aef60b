/* SPDX-License-Identifier: MIT */
/*
 * An item: one thing that is asked for, or several of a kind. Today these are probes. Other things
 * that a program has, such as functions or lines, get kinds of their own.
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

/* In the order in which they were asked for. It owns the texts. */
struct items {
	struct item *list;
	size_t n;
};

/* TEXT is copied. Returns 0 or -ENOMEM, as all that return an int here. */
int items_add(struct items *items, enum item_kind kind, const char *text);

/*
 * Add what TEXT stands for where names and a regular expression are written in one way: names
 * between commas if it has no other characters than names of probes and commas; else an expression.
 */
int items_add_text(struct items *items, const char *text);

/* TO is empty, and is items_free's after an error, too. */
int items_copy(struct items *to, const struct items *from);
bool items_equal(const struct items *a, const struct items *b);
void items_free(struct items *items);

/* For a single one, likewise. */
int item_set(struct item *item, enum item_kind kind, const char *text);
bool item_equal(const struct item *a, const struct item *b);
void item_free(struct item *item);

#endif
