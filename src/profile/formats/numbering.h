/* SPDX-License-Identifier: MIT */
/* Numbers for different things, each a sequence of bytes: equal bytes have the same number. */
#ifndef PROFILE_FORMATS_NUMBERING_H
#define PROFILE_FORMATS_NUMBERING_H

#include <stdbool.h>
#include <stddef.h>

/* To be zeroed at first. */
struct numbering {
	void *tree; /* see tsearch(3) */
	size_t n;
};

/*
 * The number of KEY: the things are numbered from 0 in the order of their first call. False: no memory.
 * *IS_NEW: this is the first call of KEY.
 */
bool numbering_of(struct numbering *numbering, const void *key, size_t bytes, size_t *number,
		  bool *is_new);
void numbering_free(struct numbering *numbering);

#endif
