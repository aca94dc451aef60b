/* SPDX-License-Identifier: MIT */
/*
 * Repeating a system call after EINTR. A signal interrupts a waiting call now and then. A seccomp
 * filter, a tracer or a broken file system can interrupt the same call for ever; that must not hang
 * the tool. Tests: tests/e2e/eintr.sh.
 */
#ifndef BASE_INTERRUPTED_H
#define BASE_INTERRUPTED_H

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"

/* For one call; initialize with { 0 }. */
struct interruptions {
	unsigned int n; /* of calls in a row that did not wait */
	int64_t last_ns;
};

enum { MAX_INTERRUPTIONS = 1000 };

/*
 * Should a failed call be repeated, because a signal interrupted it? Returns false, with errno
 * EINTR, after MAX_INTERRUPTIONS interruptions in a row of calls that waited less than a
 * millisecond.
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
