/* SPDX-License-Identifier: MIT */
/*
 * System calls that are made again after EINTR. A signal interrupts a call that waits, now and
 * then; a seccomp filter, a tracer or a broken file system can interrupt the same call for ever,
 * which must not hang us.
 */
#ifndef BASE_INTERRUPTED_H
#define BASE_INTERRUPTED_H

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"

/* Of one call: begins as { 0 }. */
struct interruptions {
	unsigned int n; /* one right after the other */
	int64_t last_ns;
};

enum { MAX_INTERRUPTIONS = 1000 };

/*
 * The call has failed: because of a signal, so that it is to be made again? False too, with errno
 * still EINTR, when it was interrupted MAX_INTERRUPTIONS times without having waited a millisecond.
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
