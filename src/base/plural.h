/* SPDX-License-Identifier: MIT */
/* The plural ending of a noun after a number: "%zu probe%s", n, plural(n). */
#ifndef BASE_PLURAL_H
#define BASE_PLURAL_H

#include <stddef.h>

static inline const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* The same for nouns whose plural ends in "es": "process%s" */
static inline const char *plural_es(size_t n)
{
	return n == 1 ? "" : "es";
}

#endif
