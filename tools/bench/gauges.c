// SPDX-License-Identifier: MIT
/* gauges PID READS: the time to read the collector's gauges of PID, in us: median, p99, most. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "ocaml_probes.h"
#include "process/gc_gauges.h"

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int measure(struct gc_reader *reader, int64_t *times, size_t n)
{
	struct gc_gauges gauges;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);

		err = gc_reader_read(reader, &gauges);
		times[i] = clock_ns(CLOCK_MONOTONIC) - start_ns;
	}
	return err;
}

int main(int argc, char **argv)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct gc_reader *reader = NULL;
	const size_t n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	int64_t *times = calloc(n + 1, sizeof(*times));
	int err = -1;

	if (ctx && times && n)
		err = gc_reader_open(ctx, (pid_t)strtol(argv[1], NULL, 10), &reader);
	if (!err)
		err = measure(reader, times, n);
	if (err) {
		fprintf(stderr, "gauges: %s\n", ctx ? ocp_error(ctx) : "out of memory");
	} else {
		const size_t middle = n / 2, p99 = n - 1 - n / 100;

		qsort(times, n, sizeof(*times), compare);
		printf("%.2f %.2f %.2f\n", (double)times[middle] / 1e3, (double)times[p99] / 1e3,
		       (double)times[n - 1] / 1e3);
	}
	gc_reader_free(reader);
	ocp_ctx_free(ctx);
	free(times);
	return err != 0;
}
