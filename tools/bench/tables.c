// SPDX-License-Identifier: MIT
/*
 * tables PID: make the unwind tables of PID's files and load them into the kernel. Prints the time
 * in ms, the CPU time in ms, the memory in MB (at its peak here, and that of the rows in the
 * kernel), and the number of rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "ocaml_probes.h"
#include "profile/profiler.h"

static double peak_mb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

static int measure(struct ocp_ctx *ctx, pid_t pid)
{
	const struct profiler_spec spec = { .hz = 99, .max_processes = 1, .pid = pid };
	const double peak_before = peak_mb();
	struct profiler *profiler;
	int64_t start_ns, start_cpu_ns, ns, cpu_ns;
	size_t rows;
	int err = profiler_open(ctx, &spec, &profiler);

	if (err)
		return err;
	start_ns = clock_ns(CLOCK_MONOTONIC);
	start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	err = profiler_add_process(profiler, pid);
	ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
	rows = stack_walker_rows(profiler_walker(profiler));
	if (!err)
		printf("%.2f %.2f %.2f %zu\n", (double)ns / 1e6, (double)cpu_ns / 1e6,
		       peak_mb() - peak_before +
			       (double)(rows * sizeof(struct walk_row)) / (1 << 20),
		       rows);
	profiler_close(profiler);
	return err;
}

int main(int argc, char **argv)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	int err = -1;

	if (ctx && argc == 2)
		err = measure(ctx, (pid_t)strtol(argv[1], NULL, 10));
	if (err)
		fprintf(stderr, "tables: %s\n", ctx ? ocp_error(ctx) : "out of memory");
	ocp_ctx_free(ctx);
	return err != 0;
}
