/* SPDX-License-Identifier: MIT */
/*
 * Repeating a system call after EINTR, but not forever. Signals interrupt a waiting call from time
 * to time. A seccomp filter, a tracer or a broken file system can make the same call fail with
 * EINTR each time; that must not hang the tool. Tests: tests/e2e/eintr.sh.
 */
#ifndef BASE_INTERRUPTED_H
#define BASE_INTERRUPTED_H

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"

/* The state of the attempts of one call; initialize with { 0 }. */
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
