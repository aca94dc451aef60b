// SPDX-License-Identifier: MIT
#include <time.h>
#include <x86intrin.h>

double bench_now_ns(void);
double bench_cpu_ns(void);
long bench_read_clock_twice(long unit);

double bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/*
 * The time that the thread has run, in the program and in the kernel. Other load does not matter.
 */
double bench_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/*
 * Read the time stamp counter as the engine `inside` does at the start and at the stop of a pair:
 * the instructions before and after a read wait for it.
 */
long bench_read_clock_twice(long unit)
{
	_mm_lfence();
	__rdtsc();
	_mm_lfence();
	_mm_lfence();
	__rdtsc();
	return unit;
}
