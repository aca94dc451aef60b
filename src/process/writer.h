/* SPDX-License-Identifier: MIT */
/*
 * Carrying out the writes of plans: by stores of the process itself where they are many and it can do that,
 * else one by one (tracee/patch.h).
 */
#ifndef PROCESS_WRITER_H
#define PROCESS_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "tracee/memory.h"
#include "tracee/patch.h"
#include "tracee/tracee.h"

struct writer;

/*
 * A writer for the process of MEMORY and for at most N_WRITES writes at a time. TRACEE is NULL if the process
 * is held otherwise, or does not stop: then all is written one by one. Writes nothing yet. All arguments
 * must outlive the writer.
 */
int writer_open(struct ocp_ctx *ctx, struct memory *memory, struct tracee *tracee, size_t n_writes,
		struct writer **out);
void writer_close(struct writer *writer); /* WRITER may be NULL */

/* With how many writes a process is stopped for about as long as it may be, while nothing is known of it. */
size_t writer_first_slice(const struct writer *writer);

/* The same after N_WRITES, for which it was stopped for STOPPED_NS. */
size_t writer_next_slice(const struct writer *writer, size_t n_writes, int64_t stopped_ns);

/* Make ready, before the stop, what it takes to carry out WRITES, which must outlive the next call. */
int writer_prepare(struct writer *writer, const struct patch_write *writes, size_t n);

/* So many writes would take too long one by one: nothing was written. */
enum { WRITER_TOO_MANY = 1 };

/*
 * Carry out WRITES, all or none, in the order of their phases. With a tracee: in the work of
 * tracee_run_stopped(). WRITER_TOO_MANY is returned if MAY_REFUSE, and they would have to be written one by
 * one; writer_first_slice() has changed then. After another error see writer_is_unsure().
 */
int writer_apply(struct writer *writer, const struct patch_write *writes, size_t n,
		 bool may_refuse);

/* Does the process still have the new bytes of all WRITES? */
bool writer_is_untouched(const struct writer *writer, const struct patch_write *writes, size_t n);

/* Write the old bytes, in the reverse order of the phases. Test: slices_are_undone_last_first. */
int writer_put_back(struct writer *writer, const struct patch_write *writes, size_t n);

/* After an error of writer_apply(): may the process still carry out its stores, or have done so? */
bool writer_is_unsure(const struct writer *writer);

/* As patcher_set_running(): the process could not be stopped. */
void writer_set_running(struct writer *writer);

#endif
