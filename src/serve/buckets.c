// SPDX-License-Identifier: MIT
#include "serve/buckets.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ocaml_probes.h"

/*
 * Write NS to LABEL in seconds, as the shortest decimal number. Both text formats of the metrics
 * get the same label, since a different label would make a different series. OpenMetrics requires
 * 1.0 rather than 1, and forms like 1e-05 below 0.0001.
 */
static void write_label(char *label, size_t bytes, uint64_t ns)
{
	size_t n;

	if (ns >= 100000) {
		snprintf(label, bytes, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
		for (n = strlen(label); label[n - 1] == '0' && label[n - 2] != '.'; n--)
			label[n - 1] = '\0';
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(label, bytes, "%.*g", digits, (double)ns / 1e9);
		if (strtod(label, NULL) == (double)ns / 1e9)
			break;
	}
}

static void append_bound(struct buckets *buckets, uint64_t ns)
{
	write_label(buckets->labels[buckets->n], sizeof(buckets->labels[0]), ns);
	buckets->bounds_ns[buckets->n++] = ns;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Return the edge of a kernel bucket that is closest to NS. */
static uint64_t closest_edge(uint64_t ns)
{
	uint64_t best = 0;

	for (size_t i = 0; i < OCP_BUCKETS; i++)
		if (distance(ocp_bucket_start(i), ns) < distance(best, ns))
			best = ocp_bucket_start(i);
	return best;
}

void buckets_set_default(struct buckets *buckets)
{
	static const uint64_t steps[] = { 10, 25, 50 };

	buckets->n = 0;
	for (uint64_t decade_ns = 100; decade_ns < 1000000000; decade_ns *= 10)
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
			append_bound(buckets, closest_edge(decade_ns * steps[i]));
	append_bound(buckets, closest_edge(UINT64_C(10000000000)));
}

const char *buckets_add(struct buckets *buckets, double seconds)
{
	uint64_t ns;

	/* Written so that NaN, which compares false, is rejected. */
	if (!(seconds >= 1e-9 && seconds <= 1e9))
		return "bounds must be from 1e-9 to 1e9 seconds";
	if (buckets->n == MAX_BUCKETS)
		return "more than 200 bounds";
	ns = (uint64_t)llround(seconds * 1e9);
	if (buckets->n && ns <= buckets->bounds_ns[buckets->n - 1])
		return "bounds must ascend by at least a nanosecond";
	append_bound(buckets, ns);
	return NULL;
}

const char *buckets_parse(struct buckets *buckets, const char *text)
{
	struct buckets parsed = { 0 };
	const char *why = NULL;
	char *end;

	do {
		const double seconds = strtod(text, &end);

		if (end == text || (*end && *end != ','))
			return "not a list of seconds separated by commas";
		why = buckets_add(&parsed, seconds);
		text = end + 1;
	} while (!why && *end);
	if (!why)
		*buckets = parsed;
	return why;
}

void buckets_cumulate(const struct buckets *buckets, const uint64_t *kernel, uint64_t *counts)
{
	uint64_t below = 0; /* sum of kernel[0] to kernel[at - 1] */
	size_t at = 0;

	for (size_t i = 0; i < buckets->n; i++) {
		const uint64_t bound = buckets->bounds_ns[i];
		uint64_t start, width;

		while (at < OCP_BUCKETS && ocp_bucket_start(at + 1) <= bound)
			below += kernel[at++];
		counts[i] = below;
		if (at == OCP_BUCKETS)
			continue;
		start = ocp_bucket_start(at);
		width = ocp_bucket_start(at + 1) - start;
		counts[i] += (uint64_t)((unsigned __int128)kernel[at] * (bound - start) / width);
	}
}
