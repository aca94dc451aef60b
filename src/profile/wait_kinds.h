/* SPDX-License-Identifier: MIT */
/* What a thread waits for, by the functions in the stack of its wait. */
#ifndef PROFILE_WAIT_KINDS_H
#define PROFILE_WAIT_KINDS_H

#include <stdint.h>
#include "profile/profile.h"

enum wait_kind {
	WAIT_RUNTIME_LOCK, /* the lock of OCaml's runtime, which the other threads hold in turn */
	WAIT_MUTEX,
	WAIT_CONDITION,
	WAIT_END,	     /* the end of a thread, a domain or a process */
	WAIT_INPUT,	     /* input, output, and events of files and sockets */
	WAIT_SLEEP,	     /* a time or a signal */
	WAIT_DOMAINS,	     /* other domains, which collect garbage together */
	WAIT_MEMORY,	     /* a page of memory */
	WAIT_RUNTIME_THREAD, /* a thread of the runtime, which waits for work */
	WAIT_OTHER,	     /* the functions do not tell */
	N_WAIT_KINDS
};

/* The stacks of one kind: the number of waits, and their time in nanoseconds. */
struct wait_sum {
	uint64_t samples, ns;
};

enum wait_kind wait_kind_of(const struct named_stack *stack);

/* Set SUMS[kind] to the sum of the stacks of PROFILE, a profile of waits. */
void wait_kinds_sum(const struct profile *profile, struct wait_sum sums[N_WAIT_KINDS]);

/* Return the kind with the longest time; if all times are 0, any kind. */
enum wait_kind wait_kinds_longest(const struct wait_sum sums[N_WAIT_KINDS]);

/* Return the name of KIND for people ("I/O"), and its name in JSON ("io"). */
const char *wait_kind_text(enum wait_kind kind);
const char *wait_kind_name(enum wait_kind kind);

#endif
