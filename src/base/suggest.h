/* SPDX-License-Identifier: MIT */
/* "Did you mean": finding the candidate that is closest to a mistyped word. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *word;
	const char *best; /* NULL: no candidate is close */
	/* the distance of `best`; if `best` is NULL: a candidate must be closer than this */
	size_t distance;
};

/* Start a search for the candidate closest to WORD. */
struct suggestion suggestion_for(const char *word);

/* The number of candidates that a `struct suggestions` keeps. */
enum { SUGGESTIONS = 3 };

struct suggestions {
	const char *word;
	const char *near[SUGGESTIONS];
	size_t distances[SUGGESTIONS], n, limit;
};

struct suggestions suggestions_for(const char *word);

/*
 * Compare CANDIDATE, which is not copied, with the word. Keep it if it is among the SUGGESTIONS
 * closest candidates so far; these are sorted, the closest first. A candidate that is offered twice
 * is kept once.
 */
void suggestions_offer(struct suggestions *suggestions, const char *candidate);

/*
 * Compare CANDIDATE, which is not copied, with the word. Keep it if it is closer than all
 * candidates before it. So of equally close candidates, the first one is kept.
 */
void suggestion_offer(struct suggestion *suggestion, const char *candidate);

#endif
