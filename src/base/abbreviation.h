/* SPDX-License-Identifier: MIT */
/*
 * Abbreviated names of commands and options, by the rules of OCaml's Core.Command: an exact name
 * wins; otherwise the word must be the start of exactly one name.
 */
#ifndef BASE_ABBREVIATION_H
#define BASE_ABBREVIATION_H

#include <stdbool.h>
#include <stddef.h>

struct abbreviation {
	const char *word; /* not terminated: `bytes` long */
	size_t bytes;
	const char *name; /* the exact name, or else the first name that begins with the word */
	bool is_exact;
	size_t n; /* the number of names that begin with the word */
	/* these names, separated by ", "; a list that is too long ends with "..." */
	char list[1024];
};

/* Start a search for the name that the first BYTES of WORD stand for. WORD is not copied. */
struct abbreviation abbreviation_of(const char *word, size_t bytes);

/*
 * Compare NAME, which is not copied, with the word. DASHES is text that the list shows before NAME.
 * An empty word stands for no name.
 */
void abbreviation_offer(struct abbreviation *abbreviation, const char *dashes, const char *name);

/* Return the name that the word stands for, or NULL if it stands for no name or for several. */
const char *abbreviation_name(const struct abbreviation *abbreviation);

/* Return true if several names begin with the word, and no name is equal to the word. */
bool abbreviation_is_ambiguous(const struct abbreviation *abbreviation);

#endif
