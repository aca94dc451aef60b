// SPDX-License-Identifier: MIT
/* Times of day as text. */
#include <stdio.h>
#include <time.h>

#include "tool/writer.h"

enum { NS_PER_S = 1000000000, NS_PER_US = 1000, NS_PER_MS = 1000000 };

const char *time_of_day_text(char text[WALL_BYTES], int64_t wall_ns, int digits)
{
	const time_t seconds = (time_t)(wall_ns / NS_PER_S);
	const int64_t rest = wall_ns % NS_PER_S;
	struct tm tm = { 0 };
	size_t n;

	localtime_r(&seconds, &tm);
	n = strftime(text, WALL_BYTES, "%H:%M:%S", &tm);
	snprintf(text + n, WALL_BYTES - n, ".%0*d", digits,
		 (int)(rest / (digits == 3 ? NS_PER_MS : NS_PER_US)));
	return text;
}

const char *utc_text(char text[WALL_BYTES], int64_t wall_ns)
{
	const time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm tm = { 0 };
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(text, WALL_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, WALL_BYTES - n, ".%06dZ", (int)(wall_ns % NS_PER_S / NS_PER_US));
	return text;
}
