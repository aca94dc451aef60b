/* SPDX-License-Identifier: MIT */
/*
 * Carry out the writes of plans. If there are many writes, and the process can be made to store the
 * bytes itself, the process stores them. Otherwise the tool makes the writes one by one
 * (tracee/patch.h).
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

struct plan_writer;

/*
 * Open a writer for the process of MEMORY and for at most N_WRITES writes at a time. TRACEE is
 * NULL if the process is held already, or is not stopped: then all writes are made one by one.
 * Writes nothing yet. CTX, MEMORY and TRACEE must outlive the writer.
 */
int writer_open(struct ocp_ctx *ctx, struct memory *memory, struct tracee *tracee, size_t n_writes,
		struct plan_writer **out);
void writer_close(struct plan_writer *writer); /* WRITER may be NULL */

/*
 * Return the number of writes for the first slice, before any stop was measured: about as many as
 * fit into the longest stop that is allowed.
 */
size_t writer_first_slice(const struct plan_writer *writer);

/* Return the number of writes for the next slice, after N_WRITES took a stop of STOPPED_NS. */
size_t writer_next_slice(const struct plan_writer *writer, size_t n_writes, int64_t stopped_ns);

/*
 * Prepare to carry out WRITES: call this before the stop. WRITES must stay valid until the next
 * call of this function.
 */
int writer_prepare(struct plan_writer *writer, const struct patch_write *writes, size_t n);

/*
 * Result of writer_apply(): there are too many writes to make them one by one. Nothing was written.
 */
enum { WRITER_TOO_MANY = 1 };

/*
 * Carry out all or none of WRITES, in the order of their phases. If the writer has a tracee, call
 * this in the work of tracee_run_stopped(). Returns WRITER_TOO_MANY if MAY_REFUSE is set, the
 * process cannot make the stores itself, and there are too many writes to make them one by one;
 * writer_first_slice() then returns a smaller number than before. After another error see
 * writer_is_unsure().
 */
int writer_apply(struct plan_writer *writer, const struct patch_write *writes, size_t n,
		 bool may_refuse);

/* Return true if the process still has the new bytes of all WRITES. */
bool writer_is_untouched(const struct plan_writer *writer, const struct patch_write *writes,
			 size_t n);

/*
 * Write the old bytes of WRITES, in the reverse order of the phases. Test:
 * slices_are_undone_last_first.
 */
int writer_put_back(struct plan_writer *writer, const struct patch_write *writes, size_t n);

/*
 * After an error of writer_apply(): return true if the process may still carry out its stores, or
 * may have carried them out.
 */
bool writer_is_unsure(const struct plan_writer *writer);

/*
 * Use this if the process could not be stopped: do the same as patcher_set_running(), and let the
 * process make no stores itself.
 */
void writer_set_running(struct plan_writer *writer);

#endif
