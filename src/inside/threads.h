/* SPDX-License-Identifier: MIT */
/* What the threads of a stopped process say. For the work of tracee_run_stopped(). */
#ifndef INSIDE_THREADS_H
#define INSIDE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "inside/templates.h"
#include "tracee/maps.h"
#include "tracee/memory.h"
#include "tracee/tracee.h"

/* Where glibc 2.4 to 2.41 keeps the id of the thread, from the FS base. */
enum { THREADS_TID_OFF = 0x2d0 };

/*
 * Find where the C library keeps the thread id and struct rseq, and verify that in all threads.
 * What is not certain is 0.
 */
void threads_examine(struct ocp_ctx *ctx, const struct tracee *tracee, const struct memory *memory,
		     struct templates_process *process);

/* Is a thread inside of an instruction of one of the N sites at ADDRS, which ascend? */
bool threads_are_inside(const struct tracee *tracee, const uint64_t *addrs, size_t n);

/*
 * May a thread come back to the code in [START, END)? True if a register, a word of a stack or its
 * restartable sequence points there, and if this cannot be found out.
 */
bool threads_may_use(const struct tracee *tracee, const struct memory *memory,
		     const struct maps *maps, uint64_t start, uint64_t end);

#endif
