// SPDX-License-Identifier: MIT
#include "base/suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Longer words are not compared: they are pasted, not typed. */
enum { LONGEST_WORD = 128, MOST_MISTAKES = 3 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

struct suggestion suggestion_for(const char *word)
{
	/*
	 * Allow one mistake per three letters, but no more than MOST_MISTAKES: long words often
	 * have a common prefix without being mistyped.
	 */
	const size_t mistakes = least((strlen(word) + 2) / 3, MOST_MISTAKES);

	return (struct suggestion){ .word = word, .distance = mistakes + 1 };
}

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/*
 * Return the number of letters to insert, remove, replace, or swap with their neighbour to turn A
 * into B (the optimal string alignment distance). Only three rows of the matrix are kept in memory.
 */
static size_t distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	size_t rows[3][LONGEST_WORD + 1];
	size_t *above2 = rows[0], *above = rows[1], *row = rows[2], *next;

	for (size_t j = 0; j <= b_bytes; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_bytes; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = least(above[j], row[j - 1]) + 1;
			row[j] = least(row[j], above[j - 1] + !same_letter(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]))
				row[j] = least(row[j], above2[j - 2] + 1);
		}
		next = above2;
		above2 = above;
		above = row;
		row = next;
	}
	return above[b_bytes];
}

/*
 * Return the distance of CANDIDATE from WORD, or LIMIT if the distance is LIMIT or more. Also
 * return LIMIT if one of the words is too long, or if every letter would have to be changed.
 */
static size_t distance_below(const char *word, const char *candidate, size_t limit)
{
	size_t word_bytes = strlen(word), bytes = strlen(candidate), d;

	if (word_bytes > LONGEST_WORD || bytes > LONGEST_WORD)
		return limit;
	/* The difference of the lengths is a cheap lower bound of the distance. */
	if ((word_bytes > bytes ? word_bytes - bytes : bytes - word_bytes) >= limit)
		return limit;
	d = distance(word, word_bytes, candidate, bytes);
	/* If every letter has to be changed, the words are not close, even if they are short. */
	return d < limit && d < (word_bytes > bytes ? word_bytes : bytes) ? d : limit;
}

void suggestion_offer(struct suggestion *suggestion, const char *candidate)
{
	const size_t d = distance_below(suggestion->word, candidate, suggestion->distance);

	if (d < suggestion->distance) {
		suggestion->distance = d;
		suggestion->best = candidate;
	}
}

struct suggestions suggestions_for(const char *word)
{
	return (struct suggestions){ .word = word, .limit = suggestion_for(word).distance };
}

void suggestions_offer(struct suggestions *s, const char *candidate)
{
	const size_t d = distance_below(s->word, candidate, s->limit);
	size_t at = s->n;

	if (d >= s->limit)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->near[i], candidate) == 0)
			return;
	while (at > 0 && s->distances[at - 1] > d)
		at--;
	if (at == SUGGESTIONS)
		return;
	s->n += s->n < SUGGESTIONS;
	for (size_t i = s->n - 1; i > at; i--) {
		s->near[i] = s->near[i - 1];
		s->distances[i] = s->distances[i - 1];
	}
	s->near[at] = candidate;
	s->distances[at] = d;
	if (s->n == SUGGESTIONS)
		s->limit = s->distances[SUGGESTIONS - 1];
}
