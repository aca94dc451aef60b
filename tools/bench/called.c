// SPDX-License-Identifier: MIT
/*
 * called N: calls a function N times, and prints the nanoseconds of CPU time per call. Compiled
 * with -pg, for uftrace.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

__attribute__((noinline)) static void called(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	const unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t start;

	if (!n)
		return 2;
	start = cpu_ns();
	for (unsigned long i = 0; i < n; i++)
		called();
	printf("%.3f\n", (double)(cpu_ns() - start) / (double)n);
	return 0;
}
