/* SPDX-License-Identifier: MIT */
/*
 * What a process that shares its descriptors with the one that is called into can do at the moments
 * that matter: put another file in place of the memory that was made there. The tests let
 * remote_syscall() come here (tests.mk).
 */
#ifndef TESTS_UNIT_SWAPPED_FILE_H
#define TESTS_UNIT_SWAPPED_FILE_H

#include <stdint.h>
#include "change/inside/remote.h"

enum swap_moment {
	SWAP_NEVER,
	SWAP_AFTER_CREATE, /* the tool opens the descriptor next */
	SWAP_BEFORE_MAP,   /* the tool has checked what it opened */
};

/* Make the file, which processes inherit that start from now on. */
void swapped_file_make(void);

/* Act at call number CALL of that MOMENT, from 1 on. */
void swapped_file_at(enum swap_moment moment, int call);

/* How often that was. */
int swapped_file_swaps(void);

/* Nobody has written to the file or resized it, and PID has not mapped it. */
void swapped_file_assert_untouched(pid_t pid);
void swapped_file_remove(void);

typedef int remote_syscall_fn(struct remote *remote, long number, const uint64_t args[6],
			      int64_t *result);
/* For the wrapper of remote_syscall(): REAL is that function. */
int swapped_file_call(remote_syscall_fn *real, struct remote *remote, long number,
		      const uint64_t args[6], int64_t *result);

#endif
