// SPDX-License-Identifier: MIT
#include "program/item.h"
#include "base/array.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/*
 * Characters in names of OCaml functions: a path of modules, functions and classes, a function or
 * method name, and perhaps a stamp. (The name of an operator is in parentheses, and may have other
 * characters.)
 */
#define FUNCTION_CHARACTERS NAME_CHARACTERS ".#'/"

/* ---- kinds ---------------------------------------------------------------------------------- */

static size_t prefix_bytes(const char *text)
{
	static const char *const prefixes[] = { ITEM_FUNCTION_PREFIX, ITEM_C_FUNCTION_PREFIX,
						ITEM_GC_PHASE_PREFIX, ITEM_LINE_PREFIX,
						ITEM_NOTE_PREFIX };

	/*
	 * Compare the first character before the whole prefix. For most names, the first character
	 * already differs.
	 */
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (*text == *prefixes[i] && strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			return strlen(prefixes[i]);
	return 0;
}

bool item_is_code(const char *text)
{
	return prefix_bytes(text) != 0;
}

const char *item_body(const char *text)
{
	return text + prefix_bytes(text);
}

size_t item_line_file(const char *text, int *line)
{
	const char *colon = strrchr(item_body(text), ':');
	unsigned long number;

	*line = 0;
	if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")])
		return strlen(text);
	number = strtoul(colon + 1, NULL, 10);
	*line = number < INT_MAX ? (int)number : INT_MAX;
	return (size_t)(colon - text);
}

bool item_is_function_line(const char *text)
{
	int line;

	return strncmp(text, ITEM_FUNCTION_PREFIX, strlen(ITEM_FUNCTION_PREFIX)) == 0 &&
	       text[item_line_file(text, &line)];
}

/* Return the end of the part in parentheses at TEXT, such as "(@)". Return NULL for other text. */
static const char *end_of_operator(const char *text)
{
	const char *end = strchr(text + 1, ')');

	while (end && end[1] && !strchr(".#/", end[1]))
		end = strchr(end + 1, ')');
	return end ? end + 1 : NULL;
}

/*
 * Return true if BODY is a name and not a regular expression. An operator, such as List.(@), and
 * (fun) are parts of names, too, although they contain special characters of regular expressions.
 */
static bool is_function_name(const char *body)
{
	const char *at = body;

	while (at) {
		at += strspn(at, FUNCTION_CHARACTERS);
		if (!*at)
			return true;
		if (*at != '(' || (at > body && at[-1] != '.' && at[-1] != '#'))
			return false;
		at = end_of_operator(at);
	}
	return false;
}

enum item_kind item_kind_of(const char *text)
{
	int line;

	if (strncmp(text, ITEM_C_FUNCTION_PREFIX, strlen(ITEM_C_FUNCTION_PREFIX)) == 0)
		return ITEM_C_FUNCTION;
	if (strncmp(text, ITEM_GC_PHASE_PREFIX, strlen(ITEM_GC_PHASE_PREFIX)) == 0)
		return ITEM_GC_PHASE;
	if (strncmp(text, ITEM_NOTE_PREFIX, strlen(ITEM_NOTE_PREFIX)) == 0)
		return ITEM_NOTE;
	if (strncmp(text, ITEM_LINE_PREFIX, strlen(ITEM_LINE_PREFIX)) == 0)
		return text[item_line_file(text, &line)] ? ITEM_LINE : ITEM_FILE_LINES;
	if (strncmp(text, ITEM_FUNCTION_PREFIX, strlen(ITEM_FUNCTION_PREFIX)) == 0)
		return item_is_function_line(text) || is_function_name(item_body(text))
			       ? ITEM_FUNCTION
			       : ITEM_FUNCTION_REGEXP;
	return text[strspn(text, NAME_CHARACTERS)] ? ITEM_PROBE_REGEXP : ITEM_PROBE;
}

enum item_kind item_kind_of_name(const char *text)
{
	return item_is_code(text) ? item_kind_of(text) : ITEM_PROBE;
}

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
	struct item *new = array_add(items->list, items->n);

	if (!new)
		return -ENOMEM;
	if (item_set(new, kind, text)) {
		items->n--;
		return -ENOMEM;
	}
	return 0;
}

/* Return true if any of the comma-separated names in TEXT has a prefix. */
static bool has_prefix(const char *text)
{
	for (; !item_is_code(text); text++) {
		text = strchr(text, ',');
		if (!text)
			return false;
	}
	return true;
}

int items_add_text(struct items *items, const char *text)
{
	char *copy, *rest;
	const char *name;
	int err = 0;

	if (!has_prefix(text) && text[strspn(text, NAME_CHARACTERS ",")])
		return items_add(items, ITEM_PROBE_REGEXP, text);
	copy = rest = strdup(text);
	if (!copy)
		return -ENOMEM;
	while (!err && (name = strsep(&rest, ",")))
		err = items_add(items, item_kind_of(name), name);
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
