/* SPDX-License-Identifier: MIT */
/*
 * Repeating a system call after EINTR, but not forever. Normally a signal interrupts a waiting call
 * only now and then. But a seccomp filter, a tracer or a broken file system can make a call fail
 * with EINTR each time; the tool must not repeat this call forever. Tests: tests/e2e/eintr.sh.
 */
#ifndef BASE_INTERRUPTED_H
#define BASE_INTERRUPTED_H

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"

/* The attempts of one system call so far; initialize with { 0 }. */
struct interruptions {
	unsigned int n; /* interruptions in a row, less than 1 ms apart */
	int64_t last_ns;
};

enum { MAX_INTERRUPTIONS = 1000 };

/*
 * Return true if the call that has just failed was interrupted by a signal and should be repeated.
 * After MAX_INTERRUPTIONS interruptions in a row that are less than a millisecond apart, return
 * false, with errno EINTR.
 */
static inline bool is_interrupted(struct interruptions *so_far)
{
	int64_t now_ns;

	if (errno != EINTR)
		return false;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (now_ns - so_far->last_ns > 1000000)
		so_far->n = 0;
	so_far->last_ns = now_ns;
	return ++so_far->n < MAX_INTERRUPTIONS;
}

#endif
