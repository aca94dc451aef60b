// SPDX-License-Identifier: MIT
#include "code/patterns.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static bool word_begins_at(const char *at, const char *end, const char *word)
{
	const size_t bytes = strlen(word);

	return (size_t)(end - at) >= bytes && memcmp(at, word, bytes) == 0;
}

static bool whole_word_at(const char *text, const char *at, const char *end, const char *word)
{
	const size_t bytes = strlen(word);

	return word_begins_at(at, end, word) && (at == text || isspace((unsigned char)at[-1])) &&
	       (at + bytes == end || isspace((unsigned char)at[bytes]));
}

/*
 * Return the end of what begins at AT: a string literal, a character literal, or any other
 * character.
 */
static const char *skip_one(const char *at, const char *end)
{
	const char quote = *at++;

	if (quote == '\'') /* 'a' or '\n', but not the quote in the name a' */
		return end - at >= 2 && at[0] != '\\' && at[1] == '\''	 ? at + 2
		       : end - at >= 3 && at[0] == '\\' && at[2] == '\'' ? at + 3
									 : at;
	if (quote != '"')
		return at;
	for (; at < end && *at != '"'; at++)
		if (*at == '\\' && at + 1 < end)
			at++;
	return at < end ? at + 1 : end;
}

/*
 * Return true if the character at AT is a "|" that separates cases, and not a part of "||", "|>",
 * "[|" or "|]".
 */
static bool is_bar(const char *text, const char *at, const char *end)
{
	return *at == '|' && (at + 1 == end || !strchr("|>]", at[1])) &&
	       (at == text || isspace((unsigned char)at[-1]));
}

/*
 * Return the start of the pattern at the beginning of the line; NULL if there is none. Set
 * *NEEDS_ARROW to true if the text is a pattern only if "->" follows it, else to false.
 */
static const char *first_pattern(const char *text, const char *end, bool *needs_arrow)
{
	const char *at = text;

	while (at < end && isspace((unsigned char)*at))
		at++;
	*needs_arrow =
		/* without "->", the text may be from `{ record with ... }` */
		whole_word_at(text, at, end, "with");
	if (*needs_arrow) {
		for (at += strlen("with"); at < end && isspace((unsigned char)*at);)
			at++;
		return at < end && is_bar(text, at, end) ? at + 1 : at;
	}
	return at < end && is_bar(text, at, end) ? at + 1 : NULL;
}

/* Return the start of the pattern after the next bar; NULL if there is no bar. */
static const char *later_pattern(const struct pattern_reader *reader)
{
	for (const char *at = reader->at; at < reader->end; at = skip_one(at, reader->end))
		if (is_bar(reader->text, at, reader->end))
			return at + 1;
	return NULL;
}

bool pattern_next(struct pattern_reader *reader, int *from, int *to)
{
	const char *const end = reader->end;
	bool needs_arrow = true;
	const char *start = reader->is_first ? first_pattern(reader->text, end, &needs_arrow)
			    : reader->at     ? later_pattern(reader)
					     : NULL;
	const char *at = start;

	reader->is_first = false;
	reader->at = NULL;
	if (!start)
		return false;
	while (at < end && !word_begins_at(at, end, "->") &&
	       !whole_word_at(reader->text, at, end, "when"))
		at = skip_one(at, end);
	if (at == end && needs_arrow)
		return false;
	*from = (int)(start - reader->text);
	*to = (int)(at - reader->text);
	reader->at = at;
	return true;
}
