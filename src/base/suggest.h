/* SPDX-License-Identifier: MIT */
/* "Did you mean": of several candidates, the one that a mistyped word most likely stands for. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *word;
	const char *best; /* NULL: nothing that was offered is close */
	size_t distance;  /* of the best one; if there is none, what would be too far */
};

/* Start looking for what WORD may stand for. */
struct suggestion suggestion_for(const char *word);

/* Hold one candidate against it; it is kept by pointer. Of equally close ones the first stays. */
void suggestion_offer(struct suggestion *suggestion, const char *candidate);

#endif
