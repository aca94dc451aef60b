/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits for locks: which threads released the lock of the runtime, or a mutex, while
 * another thread waited, and in which stacks.
 */
#ifndef PROFILE_LOCK_RELEASES_H
#define PROFILE_LOCK_RELEASES_H

#include <stddef.h>
#include <stdint.h>
#include "profile/profile.h"
#include "profile/stack_namer.h"
#include "profile/wait_kinds.h"

enum { N_LOCK_KINDS = 2 }; /* WAIT_RUNTIME_LOCK and WAIT_MUTEX */

/*
 * The waits of one kind. The sums of `by`, `open` and `unknown` are together those of the kind
 * (wait_kinds_sum()).
 */
struct lock_releases {
	enum wait_kind kind;
	/*
	 * The stacks in which threads have ended the waits. The first frame of each stack is the
	 * thread. `samples` and `value` are those of the waits.
	 */
	struct profile by;
	struct wait_sum open;	 /* waits that have not ended */
	struct wait_sum unknown; /* waits that no thread of the process is known to have ended */
};

/*
 * Set profile->locks from READING, from which PROFILE was made. NAMER gets other frames. Returns 0
 * or a negative errno.
 */
int lock_releases_make(struct stack_namer *namer, const struct profile_reading *reading,
		       struct profile *profile);
/* LOCKS may be NULL. */
void lock_releases_free(struct lock_releases *locks);

/* What one thread has released in one function. */
struct lock_releaser {
	const struct profile_thread *thread;
	const struct named_frame *function; /* the innermost own one, if the stack has one */
	struct wait_sum sum;
};

/* List who has ended the waits of LOCK, the longest time first. The caller frees *RELEASERS. */
int lock_releases_list(struct ocp_ctx *ctx, const struct lock_releases *lock,
		       struct lock_releaser **releasers, size_t *n);

#endif
