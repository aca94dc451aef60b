/* SPDX-License-Identifier: MIT */
/*
 * An item: one thing that the user requests, or several of one kind. An item is a probe, or a place
 * in the code of a program without probes. The text of an item is what the user writes. A prefix
 * gives the kind:
 *
 *	NAME, RE	probes
 *	fn:NAME, fn:RE	functions of OCaml, under their OCaml names
 *	c:NAME		a function of C: of the program, or c:LIBRARY:NAME
 *	gc:PHASE	a phase of the collector: see code/gc_phases.h
 *	line:FILE:LINE	the places where a line of the source begins: see code/line_places.h
 *	line:FILE	each line of the source, by itself
 *	note:NAME	a probe of <sys/sdt.h> of provider `ocaml` or, as note:PROVIDER:NAME, of
 *			another one
 */
#ifndef PROGRAM_ITEM_H
#define PROGRAM_ITEM_H

#include <stdbool.h>
#include <stddef.h>

enum item_kind {
	ITEM_PROBE,	      /* the probe of this name */
	ITEM_PROBE_REGEXP,    /* every probe whose name matches, see base/str_regexp.h */
	ITEM_ALL_PROBES,      /* every probe; it has no text */
	ITEM_FUNCTION,	      /* the OCaml functions of this name */
	ITEM_FUNCTION_REGEXP, /* every OCaml function whose name matches */
	ITEM_C_FUNCTION,
	ITEM_GC_PHASE,
	ITEM_LINE,
	ITEM_FILE_LINES,
	ITEM_NOTE,
};

#define ITEM_FUNCTION_PREFIX   "fn:"
#define ITEM_C_FUNCTION_PREFIX "c:"
#define ITEM_GC_PHASE_PREFIX   "gc:"
#define ITEM_LINE_PREFIX       "line:"
#define ITEM_NOTE_PREFIX       "note:"

struct item {
	enum item_kind kind;
	const char *text; /* with the prefix of the kind; NULL: the kind has no text */
};

/* A list of items in the order of the user. It owns the texts. */
struct items {
	struct item *list;
	size_t n;
};

/* TEXT is copied. Like all functions here that return an int: 0 or -ENOMEM. */
int items_add(struct items *items, enum item_kind kind, const char *text);

/*
 * Add TEXT. If an item in TEXT has a prefix, TEXT is a list of items, separated by commas.
 * Otherwise, TEXT is a list of names if it has only commas and characters of probe names, and else
 * a regular expression.
 */
int items_add_text(struct items *items, const char *text);

/* The kind of the single item TEXT. */
enum item_kind item_kind_of(const char *text);
/* Like item_kind_of, but a TEXT without a prefix is always a name, whatever its characters are. */
enum item_kind item_kind_of_name(const char *text);
/* Does TEXT, an item or the name of what an item describes, name a place in code, not a probe? */
bool item_is_code(const char *text);
/* TEXT without its prefix. */
const char *item_body(const char *text);

/*
 * Return the length of "line:FILE" in TEXT, an item of ITEM_LINE or ITEM_FILE_LINES. Set *LINE to
 * the number that follows it, INT_MAX if the number is larger, or 0 if there is none.
 */
size_t item_line_file(const char *text, int *line);

/* Copy FROM to the empty list TO. The caller frees TO with items_free, also after an error. */
int items_copy(struct items *to, const struct items *from);
bool items_equal(const struct items *a, const struct items *b);
void items_free(struct items *items);

/* Set, compare and free a single item. TEXT is copied. */
int item_set(struct item *item, enum item_kind kind, const char *text);
bool item_equal(const struct item *a, const struct item *b);
void item_free(struct item *item);

#endif
