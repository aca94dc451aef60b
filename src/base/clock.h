/* SPDX-License-Identifier: MIT */
/* Times in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Return the time of the clock ID (CLOCK_MONOTONIC, CLOCK_REALTIME ...). */
static inline int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Return the time of CLOCK_MONOTONIC in milliseconds. */
static inline int64_t clock_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/*
 * Return the CPU time that the threads of PID have used so far, as the kernel counts it, or -1 if
 * PID has ended.
 */
static inline int64_t clock_process_cpu_ns(pid_t pid)
{
	struct timespec ts;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) != 0)
		return -1;
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
