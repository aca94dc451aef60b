/* SPDX-License-Identifier: MIT */
/*
 * Examine the threads of a stopped process. Call these functions in the work of
 * tracee_run_stopped().
 */
#ifndef CHANGE_INSIDE_THREADS_H
#define CHANGE_INSIDE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "change/inside/templates.h"
#include "look/maps.h"
#include "look/memory.h"
#include "change/stop/tracee.h"

/* The offset, from the FS base, at which glibc 2.4 to 2.41 keeps the thread id. */
enum { THREADS_TID_OFF = 0x2d0 };

/*
 * Find the offsets at which the C library keeps the thread id and struct rseq, and verify them in
 * all threads. An offset that is not certain is set to 0.
 */
void threads_examine(struct ocp_ctx *ctx, const struct tracee *tracee, const struct memory *memory,
		     struct templates_process *process);

/*
 * Return true if a thread is in the middle of one of the N sites at ADDRS. ADDRS must be ascending.
 */
bool threads_are_inside(const struct tracee *tracee, const uint64_t *addrs, size_t n);

/*
 * Return true if a thread is or returns behind the first byte of one of the N sites at ADDRS, of
 * which some are windows (code/window.h): its ip, or that of a signal frame on a stack, is there.
 * ADDRS must be ascending. A signal frame is found if its handler uses at most 1 MiB of the stack.
 */
bool threads_are_in_windows(const struct tracee *tracee, const struct memory *memory,
			    const struct maps *maps, const uint64_t *addrs, size_t n);

/*
 * Return true if a thread may return to the code in [START, END): if a register, a word of a stack
 * or the thread's restartable sequence points there, or if this cannot be determined.
 */
bool threads_may_use(const struct tracee *tracee, const struct memory *memory,
		     const struct maps *maps, uint64_t start, uint64_t end);

#endif
