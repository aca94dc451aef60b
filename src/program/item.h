/* SPDX-License-Identifier: MIT */
/*
 * An item is what the user requests: one probe, a place in the code of a program without probes, or
 * several of either kind. The text of an item is what the user writes. A prefix gives the kind:
 *
 *	NAME, RE	probes
 *	fn:NAME, fn:RE	functions of OCaml, under their OCaml names
 *	fn:FILE:LINE	the function of OCaml whose code has a source line
 *	c:NAME		a C function of the program; c:LIBRARY:NAME: of a library
 *	gc:PHASE	a phase of the collector: see code/gc_phases.h
 *	line:FILE:LINE	the places where a source line begins: see code/line_places.h
 *	line:FILE	every line of the source file, each as a separate probe
 *	note:NAME	a probe of <sys/sdt.h> with provider `ocaml`; note:PROVIDER:NAME:
 *			with another provider
 */
#ifndef PROGRAM_ITEM_H
#define PROGRAM_ITEM_H

#include <stdbool.h>
#include <stddef.h>

enum item_kind {
	ITEM_PROBE,	      /* the probe of this name */
	ITEM_PROBE_REGEXP,    /* every probe whose name matches the text, see base/str_regexp.h */
	ITEM_ALL_PROBES,      /* every probe; the item has no text */
	ITEM_FUNCTION,	      /* the OCaml functions of this name, or of this source line */
	ITEM_FUNCTION_REGEXP, /* every OCaml function whose name matches the text */
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
	/* The text with the prefix of the kind; NULL for ITEM_ALL_PROBES, which has no text. */
	const char *text;
};

/* A list of items, in the order in which the user wrote them. The list owns the texts. */
struct items {
	struct item *list;
	size_t n;
};

/*
 * Append an item with a copy of TEXT. Like all functions in this file that return an int, return 0
 * or -ENOMEM.
 */
int items_add(struct items *items, enum item_kind kind, const char *text);

/*
 * Append the items that TEXT describes. There are three cases. If any part of TEXT has a prefix,
 * TEXT is a list of items, separated by commas. If no part has a prefix, and TEXT consists only of
 * commas and characters of probe names, TEXT is a list of probe names. Any other TEXT is one
 * regular expression.
 */
int items_add_text(struct items *items, const char *text);

/* Return the kind of the item with the text TEXT. TEXT must not be a list of items. */
enum item_kind item_kind_of(const char *text);
/*
 * Like item_kind_of(), but a TEXT without a prefix is always taken for the name of a probe, never
 * for a regular expression.
 */
enum item_kind item_kind_of_name(const char *text);
/*
 * Return true if TEXT describes places in the code and not probes. TEXT is the text of an item, or
 * the name of one place or probe that an item describes.
 */
bool item_is_code(const char *text);
/* Return the part of TEXT after the prefix. */
const char *item_body(const char *text);

/*
 * Return the length of "line:FILE" in TEXT, an item of kind ITEM_LINE or ITEM_FILE_LINES, or of
 * "fn:FILE". Set *LINE to the number after FILE, to INT_MAX if that number is larger, or to 0 if
 * TEXT ends with FILE.
 */
size_t item_line_file(const char *text, int *line);

/* Return true if TEXT is "fn:FILE:LINE". */
bool item_is_function_line(const char *text);

/*
 * Copy FROM to TO, which must be empty. The caller frees TO with items_free(), also after an error.
 */
int items_copy(struct items *to, const struct items *from);
bool items_equal(const struct items *a, const struct items *b);
void items_free(struct items *items);

/* Set, compare and free a single item. item_set() copies TEXT. */
int item_set(struct item *item, enum item_kind kind, const char *text);
bool item_equal(const struct item *a, const struct item *b);
void item_free(struct item *item);

#endif
