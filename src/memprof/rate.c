// SPDX-License-Identifier: MIT
#include "memprof/rate.h"

#include <errno.h>
#include <stdlib.h>

bool memprof_rate_read(const char *text, double *rate)
{
	char *end;

	errno = 0;
	*rate = strtod(text, &end);
	/* Written so that NaN, which compares false, is rejected. */
	return !errno && end != text && !*end && *rate >= MEMPROF_MIN_RATE && *rate <= 1;
}
