/* SPDX-License-Identifier: MIT */
/* The plural ending of a noun after a number: "%zu probe%s", n, plural(n). */
#ifndef BASE_PLURAL_H
#define BASE_PLURAL_H

#include <stddef.h>

static inline const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* The plural ending of a noun whose plural ends in "es": "%zu process%s", n, plural_es(n). */
static inline const char *plural_es(size_t n)
{
	return n == 1 ? "" : "es";
}

#endif
