/* SPDX-License-Identifier: MIT */
/* "Did you mean": finding the candidate that is closest to a mistyped word. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *word;
	const char *best; /* NULL: no candidate is close */
	size_t distance;  /* of `best`; if `best` is NULL: a candidate must be closer than this */
};

/* Start a search for WORD. */
struct suggestion suggestion_for(const char *word);

/* The number of candidates to keep. */
enum { SUGGESTIONS = 3 };

struct suggestions {
	const char *word;
	const char *near[SUGGESTIONS];
	size_t distances[SUGGESTIONS], n, limit;
};

struct suggestions suggestions_for(const char *word);

/*
 * Compare CANDIDATE, which is not copied, and keep it if it is one of the closest so far, the
 * closest one first. A candidate that is offered twice is kept once.
 */
void suggestions_offer(struct suggestions *suggestions, const char *candidate);

/*
 * Compare CANDIDATE, which is not copied, and keep it if it is closer than all candidates so far.
 * Of equally close candidates the first one is kept.
 */
void suggestion_offer(struct suggestion *suggestion, const char *candidate);

#endif
