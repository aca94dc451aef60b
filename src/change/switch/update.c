// SPDX-License-Identifier: MIT
/*
 * Switching the probes of a live process.
 *
 *	1. snapshot, plan	while the process runs: nearly all errors show here
 *	2. read the code again	just before the stop
 *	3. stop			all threads
 *	4. read the semaphores	if another tool has changed them meanwhile: plan again
 *	5. apply		the planned bytes
 *	6. release
 *
 * Steps 2 to 6 are done for one slice of the plan at a time, so that each stop is short. A slice
 * has as many probes as fit into some milliseconds, and at least one. Between two slices
 * the process runs for at least a third of the time that it was stopped. With OCP_ATOMICALLY, and
 * for a process that is held already, the whole plan is one slice.
 *
 * The process itself stores the bytes of large slices: all bytes of a slice or none. If
 * that turns out to be impossible, nothing has been written, and smaller slices are written byte by
 * byte.
 *
 * A journal (journal.c) records the actions and the progress, so that doctor can undo them if the
 * tool is killed. The whole journal is written before the first stop, and before each later stop
 * only its progress. If another tool has changed the slice's semaphores in between, the process is
 * released, the journal is written again, and the slice is tried again.
 *
 * If a slice fails, the slices before it are undone, each with a separate stop. If the bytes of a
 * slice are still as they were written, the old bytes are written back. Otherwise another tool has
 * switched probes of the slice, and the opposite actions are done, which keeps the other tool's
 * changes. If the process cannot be stopped any more (a debugger has taken it), the bytes are
 * written while the process runs. Single bytes are safe to write at any time, but another tool may
 * switch probes at the same moment.
 *
 * The functions below name the tests that cover them: of tests/unit/test_update.c unless another
 * file is named.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/plural.h"
#include "change/inside/own_stores.h"
#include "change/switch/journal.h"
#include "change/switch/plan.h"
#include "process/process.h"
#include "process/site_form.h"
#include "look/memory.h"
#include "change/stop/patch.h"
#include "change/stop/tracee.h"

/* ---- carrying out writes --------------------------------------------------------------------- */

/*
 * Carry out the writes of plans. If there are many writes, and the process can be made to store the
 * bytes itself, the process stores them. Otherwise the tool makes the writes one by one
 * (change/stop/patch.h).
 */

/*
 * A result of writer_apply(): the process cannot store the bytes, and there are too many writes to
 * make them one by one. Nothing was written.
 */
enum { WRITER_TOO_MANY = 1 };

enum {
	OWN_MIN = 2048,		 /* if there are fewer writes, making them one by one is faster */
	FIRST_OWN_SLICE = 16384, /* about every sixth store makes the kernel copy a page */
	FIRST_SLICE = 2048,
	MIN_SLICE = 1024,
	SLICE_NS = 3300 * 1000,
};

struct plan_writer {
	struct ocp_ctx *ctx;
	struct memory *memory;
	struct tracee *tracee;
	struct patcher *patcher;
	struct own_stores *own; /* NULL: the process cannot store the bytes itself */
	bool is_unsure;
};

static void give_up_stores(struct plan_writer *writer)
{
	ctx_log(writer->ctx, OCP_LOG_INFO, "%s; writing byte by byte", ocp_error(writer->ctx));
	own_stores_close(writer->own);
	writer->own = NULL;
}

/* Close WRITER, which may be NULL. */
static void writer_close(struct plan_writer *writer)
{
	if (!writer)
		return;
	own_stores_close(writer->own);
	patcher_close(writer->patcher);
	free(writer);
}

/*
 * Open a writer for the process of MEMORY and for at most N_WRITES writes at a time. TRACEE is NULL
 * if the process is held already, or is the calling process: all writes are then made one by one.
 * Writes nothing yet. CTX, MEMORY and TRACEE must outlive the writer.
 */
static int writer_open(struct ocp_ctx *ctx, struct memory *memory, struct tracee *tracee,
		       size_t n_writes, struct plan_writer **out)
{
	struct plan_writer *writer = calloc(1, sizeof(*writer));
	int err;

	*out = writer;
	if (!writer)
		return ctx_no_memory(ctx);
	writer->ctx = ctx;
	writer->memory = memory;
	writer->tracee = tracee;
	err = patcher_open(ctx, memory_pid(memory), &writer->patcher);
	if (err) {
		writer_close(writer);
		*out = NULL;
		return err;
	}
	if (tracee && n_writes >= OWN_MIN &&
	    own_stores_open(ctx, memory, tracee, writer->patcher, &writer->own) != 0)
		give_up_stores(writer);
	return 0;
}

/*
 * Return the number of writes for the first slice, when no stop has been measured yet: about as
 * many as fit into the longest stop that is allowed.
 */
static size_t writer_first_slice(const struct plan_writer *writer)
{
	return writer->own ? FIRST_OWN_SLICE : FIRST_SLICE;
}

/*
 * Return the number of writes for the next slice, after a slice of N_WRITES has taken a stop of
 * STOPPED_NS. If the process stores the bytes, a store takes about 10 ns, so most of the stop is
 * spent on the calls around the stores. If such a stop is long, the machine is busy, and smaller
 * slices would not make the stops shorter.
 */
static size_t writer_next_slice(const struct plan_writer *writer, size_t n_writes,
				int64_t stopped_ns)
{
	size_t n;

	if (writer->own || !n_writes || stopped_ns <= 0)
		return writer_first_slice(writer);
	n = (size_t)((double)n_writes * SLICE_NS / (double)stopped_ns);
	return n < MIN_SLICE ? MIN_SLICE : n;
}

/*
 * Prepare to carry out the N WRITES. Call this before the stop. WRITES must stay valid until the
 * next call of this function.
 */
static int writer_prepare(struct plan_writer *writer, const struct patch_write *writes, size_t n)
{
	if (!writer->own)
		return 0;
	return own_stores_prepare(writer->own, writes, n < OWN_MIN ? 0 : n);
}

/*
 * Carry out all or none of WRITES, in the order of their phases. If the writer has a tracee, call
 * this in the work of tracee_run_stopped(). Returns WRITER_TOO_MANY if MAY_REFUSE is set, the
 * process cannot make the stores itself, and there are too many writes to make them one by one;
 * writer_first_slice() then returns a smaller number than before. After an error, call
 * writer_is_unsure().
 */
static int writer_apply(struct plan_writer *writer, const struct patch_write *writes, size_t n,
			bool may_refuse)
{
	writer->is_unsure = false;
	if (writer->own && n >= OWN_MIN) {
		int err = own_stores_apply(writer->own, writes, n, &writer->is_unsure);

		if (err != -ENOTSUP && err != -EAGAIN)
			return err;
		give_up_stores(writer);
		if (may_refuse && n > FIRST_SLICE)
			return WRITER_TOO_MANY;
	}
	return patcher_apply(writer->patcher, writes, n);
}

/* Return true if the process still has the new bytes of all N WRITES. */
static bool writer_is_untouched(const struct plan_writer *writer, const struct patch_write *writes,
				size_t n)
{
	struct memory_piece *pieces = calloc(n + 1, sizeof(*pieces));
	uint8_t *bytes = malloc(2 * n + 1), *at = bytes; /* at most 2 bytes for each write */
	bool same = pieces && bytes;

	for (size_t i = 0; same && i < n; i++)
		pieces[i] =
			(struct memory_piece){ .addr = writes[i].addr, .bytes = writes[i].bytes };
	same = same && memory_read(writer->memory, pieces, n, bytes) == 0;
	for (size_t i = 0; same && i < n; at += writes[i++].bytes)
		same = memcmp(at, &writes[i].new, writes[i].bytes) == 0;
	free(pieces);
	free(bytes);
	return same;
}

/*
 * Write the old bytes of WRITES back, in the reverse order of the phases. Test:
 * slices_are_undone_last_first.
 */
static int writer_put_back(struct plan_writer *writer, const struct patch_write *writes, size_t n)
{
	struct patch_write *back = calloc(n + 1, sizeof(*back));
	int err;

	if (!back)
		return ctx_no_memory(writer->ctx);
	for (size_t i = 0; i < n; i++) {
		back[i] = writes[n - 1 - i];
		back[i].old = writes[n - 1 - i].new;
		back[i].new = writes[n - 1 - i].old;
		back[i].phase = N_PATCH_PHASES - 1 - writes[n - 1 - i].phase;
	}
	err = writer_apply(writer, back, n, false);
	free(back);
	return err;
}

/*
 * Call this after an error of writer_apply(). Return true if the process may still carry out its
 * stores, or may have carried them out.
 */
static bool writer_is_unsure(const struct plan_writer *writer)
{
	return writer->is_unsure;
}

/*
 * Call this if the process could not be stopped. Does the same as patcher_set_running(), and makes
 * sure that the bytes are not stored by the process itself.
 */
static void writer_set_running(struct plan_writer *writer)
{
	own_stores_close(writer->own);
	writer->own = NULL;
	patcher_set_running(writer->patcher);
}

/* ---- updates --------------------------------------------------------------------------------- */

enum { MAX_JOURNAL_TRIES = 10 }; /* for a slice whose probes other tools switch all the time */

/* The steps of a plan that are carried out in one stop. */
struct slice {
	size_t first, n; /* the steps are number first to first + n - 1 of the plan */
	bool changed;	 /* the probes have changed since the plan was made */
	bool read_again; /* read the code during the stop, too: see check_code() */
	/* the semaphores have changed since the journal was written: write it again */
	bool needs_record;
	bool is_too_large; /* too many writes to make them one by one */
	int tries;
	struct plan renewed; /* if it has steps: its writes are used instead of the plan's */
};

struct update {
	struct ocp_process *proc;
	struct tracee *tracee; /* NULL: the process is held already */
	struct plan_writer *writer;
	bool one_slice;
	struct snapshot snapshot;
	struct plan plan;
	size_t *probes; /* for each step of the plan, its probe */
	struct slice *slices;
	size_t n_slices;
	enum journal_kind kind;
	struct journal *journal; /* NULL: no journal */
	bool has_record;	 /* the journal is on disk */
	size_t n_left; /* number of probes that are still switched after an undo that failed */
};

static void sleep_ns(int64_t ns)
{
	nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

/*
 * Return the writes of the steps [FIRST, FIRST + N) of PLAN, which follow each other in one array.
 * Set *N_WRITES to their number.
 */
static const struct patch_write *writes_of(const struct plan *plan, size_t first, size_t n,
					   size_t *n_writes)
{
	*n_writes = 0;
	for (size_t i = first; i < first + n; i++)
		*n_writes += plan->steps[i].n_writes;
	return plan->writes + plan->steps[first].first_write;
}

/* ---- the journal ---------------------------------------------------------------------------- */

/* Set *BEFORE and *AFTER to the values of the counter of STEP's probe before and after STEP. */
static void step_counts(const struct update *u, const struct plan_step *step, int *before,
			int *after)
{
	*before = *after = snapshot_count(&u->snapshot, step->probe);
	/* Without a semaphore, or with OCP_FORCE, the counter only says on or off. */
	if (u->plan.force || !u->proc->live.probes[step->probe].n_semaphores)
		*after = step->verb == ACTION_ENABLE;
	else if (step->verb == ACTION_ENABLE)
		++*after;
	else if (*before > 0)
		--*after;
}

/*
 * Add an entry for each step to the journal, even for a step that has nothing to do now: it may
 * have something to do later, if other tools switch its probe.
 */
static int list_steps(struct update *u)
{
	int before, after, err = 0;

	for (size_t i = 0; !err && i < u->plan.n_steps; i++) {
		const struct plan_step *step = &u->plan.steps[i];

		step_counts(u, step, &before, &after);
		err = journal_append(u->journal, step->verb, u->proc->live.probes[step->probe].name,
				     before, after);
	}
	return err;
}

/*
 * Continue without a journal. Log a warning if the journal is a promise, because a promise needs
 * its journal more than an update does. Tests: updates_go_on_without_a_journal; interrupted.sh:
 * test_no_journal.
 */
static int go_without_journal(struct update *u)
{
	const bool is_promise = u->kind == JOURNAL_PROMISE;

	ctx_log(u->proc->ctx, is_promise ? OCP_LOG_WARN : OCP_LOG_INFO,
		"no undo journal: doctor cannot undo this if the tool is killed: %s",
		ocp_error(u->proc->ctx));
	journal_remove(u->journal);
	u->journal = NULL;
	return 0;
}

static int open_journal(struct update *u)
{
	int err = journal_open(u->proc->ctx, u->proc->pid, u->kind, &u->journal);

	if (err)
		return go_without_journal(u);
	err = list_steps(u);
	return err && u->kind == JOURNAL_UPDATE ? go_without_journal(u) : err;
}

/*
 * Copy the counters of the probes of SLICE from the snapshot to the journal. Return true if the
 * journal had the same counters already.
 */
static bool journal_follows(struct update *u, const struct slice *slice)
{
	bool same = true;

	for (size_t i = slice->first; i < slice->first + slice->n; i++) {
		int before, after;

		step_counts(u, &u->plan.steps[i], &before, &after);
		same &= journal_has_counts(u->journal, i, before, after);
		journal_set_counts(u->journal, i, before, after);
	}
	return same;
}

/* Record on disk that the first DONE steps are done and the first BEGUN steps are begun. */
static int record_progress(struct update *u, size_t done, size_t begun)
{
	return u->has_record ? journal_progress(u->journal, done, begun)
			     : journal_commit(u->journal, done, begun);
}

/* Record SLICE before it is carried out. Test: undisturbed_updates_write_one_journal. */
static int record_slice(struct update *u, struct slice *slice)
{
	bool changed = false, no_stop = u->tracee == NULL;
	int err = 0;

	if (!u->journal)
		return 0;
	if (!no_stop)
		err = snapshot_refresh_semaphores(u->proc->ctx, u->proc->memory,
						  u->probes + slice->first, slice->n, &u->snapshot,
						  &changed);
	if (err)
		return err;
	slice->changed |= changed;
	slice->needs_record = false;
	if (!journal_follows(u, slice))
		u->has_record = false;
	err = record_progress(u, slice->first, slice->first + slice->n);
	u->has_record = !err;
	if (err && u->kind == JOURNAL_UPDATE)
		err = go_without_journal(u);
	return err;
}

/*
 * Record that the steps [FIRST, FIRST + N) are about to be undone. If recording fails, log a
 * warning: doctor then has only the earlier record and the counters to judge by.
 */
static void record_undoing(struct update *u, size_t first, size_t n)
{
	if (u->journal && u->has_record && record_progress(u, first, first + n) != 0)
		ctx_log(u->proc->ctx, OCP_LOG_WARN, "%s", ocp_error(u->proc->ctx));
}

/* ---- one slice, with the process stopped ---------------------------------------------------- */

/*
 * Read the code of the slice's probes again. Reading code takes the most time, so it is done before
 * the stop. During the stop only the semaphores are read, because a tool that switches code also
 * changes the semaphores. But code can change without the semaphores if a probe has no semaphore or
 * is mixed, or if any site calls code outside of the program (a tool that stops counting a site
 * changes only the code). In these cases the slice's code is read once more during the stop. Tests:
 * code_that_changes_is_left_alone, counting_ends_before_the_stop.
 */
static int check_code(struct update *u, struct slice *slice)
{
	bool changed;
	int err = snapshot_refresh_code(u->proc->ctx, u->proc->memory, u->probes + slice->first,
					slice->n, &u->snapshot, &changed);

	slice->changed |= !err && changed;
	for (size_t i = slice->first; !err && i < slice->first + slice->n; i++)
		if (u->snapshot.leads_out || !u->proc->live.probes[u->probes[i]].n_semaphores ||
		    snapshot_state(&u->snapshot, u->probes[i]) == OCP_MIXED)
			slice->read_again = true;
	return err;
}

/*
 * Look for a block in the process: a tool may have begun to count inside the process after the code
 * was read. If there is a block, the code must be read again. Test:
 * counting_begins_before_the_stop.
 */
static int look_for_block(struct update *u, struct slice *slice)
{
	bool mapped = false;
	int err = u->tracee && !slice->read_again
			  ? trampolines_are_mapped(u->proc->ctx, u->proc->pid, &mapped)
			  : 0;

	slice->read_again |= mapped;
	return err;
}

/*
 * With the process stopped: if the probes of SLICE have changed since the plan was made, plan their
 * steps again. But if the journal must be written again first, only set needs_record. Tests:
 * counters_that_change_are_counted_on, counters_that_never_rest.
 */
static int renew_slice(struct update *u, struct slice *slice)
{
	bool changed;
	int err =
		snapshot_refresh_semaphores(u->proc->ctx, u->proc->memory, u->probes + slice->first,
					    slice->n, &u->snapshot, &changed);

	if (!err && changed && u->journal && u->tracee && ++slice->tries < MAX_JOURNAL_TRIES) {
		slice->changed = slice->needs_record = true;
		return 0;
	}
	if (!err && !changed)
		err = look_for_block(u, slice);
	if (!err && (changed || slice->read_again))
		err = check_code(u, slice);
	if (!err && (changed || slice->changed))
		err = plan_renew(&u->plan, slice->first, slice->n, &slice->renewed);
	return err;
}

static const struct patch_write *slice_writes(const struct update *u, const struct slice *slice,
					      size_t *n_writes)
{
	if (slice->renewed.n_steps)
		return writes_of(&slice->renewed, 0, slice->renewed.n_steps, n_writes);
	return writes_of(&u->plan, slice->first, slice->n, n_writes);
}

static int apply_slice(struct update *u, struct slice *slice)
{
	const struct patch_write *writes;
	size_t n_writes;
	int err = renew_slice(u, slice);

	if (err || slice->needs_record)
		return err;
	writes = slice_writes(u, slice, &n_writes);
	err = writer_apply(u->writer, writes, n_writes, !u->one_slice);
	slice->is_too_large = err == WRITER_TOO_MANY;
	return slice->is_too_large ? 0 : err;
}

/* ---- undoing -------------------------------------------------------------------------------- */

/*
 * Undo only what this tool did: another tool has switched probes of the slice, and its changes
 * stay. Tests: undoing_leaves_alone_what_others_did; toggle.sh: test_undo_after_somebody_switched.
 */
static int do_the_opposite(struct update *u, struct slice *slice)
{
	const struct plan *done = slice->renewed.n_steps ? &slice->renewed : &u->plan;
	size_t first = slice->renewed.n_steps ? 0 : slice->first;
	struct plan ours = {
		.ctx = u->proc->ctx,
		.snapshot = &u->snapshot,
		.steps = calloc(slice->n, sizeof(*ours.steps)),
	};
	struct plan opposite = { 0 };
	const struct patch_write *writes;
	size_t n_writes;
	bool changed;
	int err;

	if (!ours.steps)
		return ctx_no_memory(u->proc->ctx);
	for (size_t i = first; i < first + slice->n; i++) {
		struct plan_step *step = &ours.steps[ours.n_steps];

		/*
		 * The step wrote nothing, because the probe was in the wanted state already. So
		 * there is nothing to undo.
		 */
		if (!done->steps[i].n_writes)
			continue;
		*step = done->steps[i];
		ours.n_steps++;
		step->verb = step->verb == ACTION_ENABLE ? ACTION_DISABLE : ACTION_ENABLE;
		step->leave_disabled = true;
	}
	err = check_code(u, slice);
	if (!err)
		err = snapshot_refresh_semaphores(u->proc->ctx, u->proc->memory,
						  u->probes + slice->first, slice->n, &u->snapshot,
						  &changed);
	if (!err)
		err = plan_renew(&ours, 0, ours.n_steps, &opposite);
	if (!err) {
		writes = writes_of(&opposite, 0, opposite.n_steps, &n_writes);
		err = writer_apply(u->writer, writes, n_writes, false);
	}
	plan_free(&opposite);
	plan_free(&ours);
	return err;
}

/* The argument of the work that runs while the process is stopped: a slice and its update. */
struct slice_work {
	struct update *u;
	struct slice *slice;
	bool has_begun;
};

static int undo_slice_work(void *arg)
{
	struct slice_work *work = arg;
	const struct patch_write *writes;
	size_t n_writes;

	work->has_begun = true;
	writes = slice_writes(work->u, work->slice, &n_writes);
	return writer_is_untouched(work->u->writer, writes, n_writes)
		       ? writer_put_back(work->u->writer, writes, n_writes)
		       : do_the_opposite(work->u, work->slice);
}

static int undo_slice(struct update *u, struct slice *slice)
{
	struct slice_work work = { u, slice, false };
	int err = u->tracee ? tracee_run_stopped(u->tracee, undo_slice_work, &work) : 0;

	if (u->tracee && !work.has_begun) {
		writer_set_running(u->writer);
		ctx_log(u->proc->ctx, OCP_LOG_WARN, "undoing while the process runs: %s",
			ocp_error(u->proc->ctx));
	}
	return work.has_begun ? err : undo_slice_work(&work);
}

/*
 * Undo all slices, in reverse order. Returns the number of probes that could not be undone. Test:
 * what_cannot_be_undone_stays_on_record.
 */
static size_t undo_slices(struct update *u)
{
	size_t left = 0, end = 0;

	while (u->n_slices > 0) {
		struct slice *slice = &u->slices[--u->n_slices];

		if (slice->first + slice->n > end)
			end = slice->first + slice->n;
		record_undoing(u, slice->first, slice->n);
		if (undo_slice(u, slice) != 0) {
			left += slice->n;
			ctx_log(u->proc->ctx, OCP_LOG_WARN, "cannot undo: %s",
				ocp_error(u->proc->ctx));
		}
		plan_free(&slice->renewed);
	}
	if (left)
		record_undoing(u, 0, end);
	return left;
}

/*
 * Undo the update after a failure of SLICE, and keep the message of this failure. If the process
 * may still carry out SLICE, leave SLICE in the journal as begun. Test:
 * whatever_fails_nothing_is_switched.
 */
static void undo_failed(struct update *u, const struct slice *slice)
{
	const size_t lost = u->writer && writer_is_unsure(u->writer) ? slice->n : 0;
	struct ocp_ctx *ctx = u->proc->ctx;
	char *why = strdup(ocp_error(ctx)), *hint = ocp_hint(ctx) ? strdup(ocp_hint(ctx)) : NULL;

	u->n_left = undo_slices(u) + lost;
	if (lost)
		record_undoing(u, 0, slice->first + slice->n);
	if (why && u->n_left)
		ctx_set_error(ctx, "%s; %zu probe%s switched before could not be restored", why,
			      u->n_left, plural(u->n_left));
	else if (why)
		ctx_set_error(ctx, "%s", why);
	if (hint)
		ctx_hint(ctx, "%s", hint);
	free(why);
	free(hint);
}

/* ---- slices --------------------------------------------------------------------------------- */

static int apply_slice_work(void *arg)
{
	struct slice_work *work = arg;

	return apply_slice(work->u, work->slice);
}

/*
 * Stop the process (unless it is held), carry out SLICE, and release the process. Set *STOPPED_NS
 * to the duration of the stop.
 */
static int run_slice(struct update *u, struct slice *slice, int64_t *stopped_ns)
{
	struct slice_work work = { u, slice, false };
	const struct patch_write *writes;
	size_t n_writes;
	int err;

	do {
		err = record_slice(u, slice);
		if (!err)
			err = check_code(u, slice);
		writes = slice_writes(u, slice, &n_writes);
		if (!err)
			err = writer_prepare(u->writer, writes, n_writes);
		*stopped_ns = clock_ns(CLOCK_MONOTONIC);
		if (!err)
			err = u->tracee ? tracee_run_stopped(u->tracee, apply_slice_work, &work)
					: apply_slice(u, slice);
		*stopped_ns = clock_ns(CLOCK_MONOTONIC) - *stopped_ns;
	} while (!err && slice->needs_record);
	return err;
}

/*
 * Return how many steps, from number FIRST on, have at most MAX_WRITES writes together; but at
 * least 1.
 */
static size_t steps_for(const struct plan *plan, size_t first, size_t max_writes)
{
	size_t n = 0, writes = 0;

	do
		writes += plan->steps[first + n++].n_writes;
	while (first + n < plan->n_steps && writes + plan->steps[first + n].n_writes <= max_writes);
	return n;
}

static int run_slices(struct update *u)
{
	size_t max_writes = u->one_slice ? SIZE_MAX : writer_first_slice(u->writer), done = 0;
	int64_t stopped_ns;

	while (done < u->plan.n_steps) {
		struct slice *slice = &u->slices[u->n_slices];
		size_t n_writes;
		int err;

		*slice = (struct slice){ .first = done };
		slice->n = steps_for(&u->plan, done, max_writes);
		err = run_slice(u, slice, &stopped_ns);
		if (err || slice->is_too_large)
			plan_free(&slice->renewed);
		if (err) {
			undo_failed(u, slice);
			return err;
		}
		if (slice->is_too_large) {
			max_writes = writer_first_slice(u->writer);
			continue;
		}
		u->n_slices++;
		done += slice->n;
		if (done == u->plan.n_steps)
			break;
		slice_writes(u, slice, &n_writes);
		max_writes = writer_next_slice(u->writer, n_writes, stopped_ns);
		sleep_ns(stopped_ns / 3);
	}
	return 0;
}

static void free_update(struct update *u)
{
	while (u->n_slices > 0)
		plan_free(&u->slices[--u->n_slices].renewed);
	tracee_close(u->tracee);
	writer_close(u->writer);
	free(u->slices);
	free(u->probes);
	plan_free(&u->plan);
	snapshot_free(&u->snapshot);
}

/*
 * Return true if a journal is needed. A single probe needs none: if the tool is killed between the
 * write of the site and the write of the semaphore, the semaphore says whether the probe is on. A
 * process that the tool has started ends with the tool. Test: one_probe_needs_no_journal.
 */
static bool wants_journal(const struct update *u)
{
	const struct ocp_process *proc = u->proc;

	if (u->kind == JOURNAL_PROMISE)
		return true;
	return u->plan.n_steps > 1 && !proc->is_self &&
	       !(proc->held && tracee_dies_with_us(proc->held));
}

/*
 * Delete the journal. Keep it only if doctor may still have to undo something: after a promise that
 * was carried out, or after a failed update that could not be undone completely.
 */
static void end_journal(struct update *u, int err)
{
	bool stays = err ? u->n_left > 0 : u->kind == JOURNAL_PROMISE;

	/*
	 * If the progress cannot be recorded, the last slice stays in the journal as begun, and
	 * doctor judges by the counters.
	 */
	if (!err && stays && u->journal &&
	    record_progress(u, u->plan.n_steps, u->plan.n_steps) != 0)
		ctx_log(u->proc->ctx, OCP_LOG_WARN, "%s", ocp_error(u->proc->ctx));
	if (!err && stays)
		return;
	if (stays)
		journal_close(u->journal);
	else
		journal_remove(u->journal);
	u->journal = NULL;
}

static int run_plan(struct update *u, unsigned int flags)
{
	struct ocp_process *proc = u->proc;
	bool no_stop = proc->held || proc->is_self;
	size_t n_stops;
	int err = wants_journal(u) ? open_journal(u) : 0;

	u->one_slice = no_stop || (flags & OCP_ATOMICALLY);
	if (!err && !no_stop)
		err = inside_clear(proc->ctx, proc->pid, false);
	if (!err && !no_stop)
		err = tracee_open(proc->ctx, proc->pid, &u->tracee);
	if (!err)
		err = writer_open(proc->ctx, proc->memory, u->tracee, u->plan.n_writes, &u->writer);
	if (!err)
		err = run_slices(u);
	end_journal(u, err);
	n_stops = no_stop ? 0 : u->n_slices;
	if (!err)
		ctx_log(proc->ctx, OCP_LOG_INFO,
			"pid %d: switched %zu probe%s: %zu write%s, %zu stop%s", (int)proc->pid,
			u->plan.n_steps, plural(u->plan.n_steps), u->plan.n_writes,
			plural(u->plan.n_writes), n_stops, plural(n_stops));
	return err;
}

static int run_update(struct update *u, const struct ocp_actions *actions, unsigned int flags)
{
	struct ocp_process *proc = u->proc;
	int err = snapshot_read(proc->ctx, proc->memory, &proc->live, &u->snapshot);

	if (!err && proc->is_self && (flags & OCP_ATOMICALLY))
		err = ctx_error(proc->ctx, -EINVAL, "pid %d: a process cannot stop itself",
				(int)proc->pid);
	if (!err)
		err = plan_make(proc->ctx, actions, &u->snapshot, flags & OCP_FORCE, &u->plan);
	/* Without writes, the process need not be stopped. */
	if (err || u->plan.n_writes == 0)
		return err;
	err = gigatext_check(proc->ctx, proc->pid, &u->plan);
	if (err || (flags & OCP_DRY_RUN))
		return err;
	u->slices = calloc(u->plan.n_steps, sizeof(*u->slices));
	u->probes = calloc(u->plan.n_steps, sizeof(*u->probes));
	if (!u->slices || !u->probes)
		return ctx_no_memory(proc->ctx);
	for (size_t i = 0; i < u->plan.n_steps; i++)
		u->probes[i] = u->plan.steps[i].probe;
	return run_plan(u, flags);
}

int ocp_process_update(struct ocp_process *proc, const struct ocp_actions *actions,
		       unsigned int flags)
{
	struct update u = { .proc = proc, .kind = JOURNAL_UPDATE };
	int err = run_update(&u, actions, flags);

	free_update(&u);
	return err;
}

/* ---- updates that are undone later ---------------------------------------------------------- */

struct ocp_undo {
	struct update update;
};

int ocp_process_update_undoable(struct ocp_process *proc, const struct ocp_actions *actions,
				unsigned int flags, struct ocp_undo **out)
{
	struct ocp_undo *undo = calloc(1, sizeof(*undo));
	struct update *u = &undo->update;
	int err;

	*out = NULL;
	if (!undo)
		return ctx_no_memory(proc->ctx);
	*u = (struct update){ .proc = proc, .kind = JOURNAL_PROMISE };
	err = run_update(u, actions, flags);
	if (err) {
		ocp_undo_free(undo);
		return err;
	}
	*out = undo;
	return 0;
}

/* Report that LEFT probes could not be undone. If there is a journal, it has a record of them. */
static int not_undone(const struct update *u, size_t left)
{
	const int pid = (int)u->proc->pid;
	int err = ctx_error(u->proc->ctx, -EIO, "pid %d: %zu probe%s could not be switched back",
			    pid, left, plural(left));

	if (u->journal)
		ctx_hint(u->proc->ctx,
			 "run `ocaml-probes doctor -pid %d --fix` to switch back the rest from "
			 "the undo journal",
			 pid);
	else
		ctx_hint(u->proc->ctx,
			 "there is no undo journal; `ocaml-probes info -pid %d` shows the probes "
			 "that are still on",
			 pid);
	return err;
}

int ocp_undo_run(struct ocp_undo *undo)
{
	struct update *u = &undo->update;
	size_t left;

	left = undo_slices(u);
	if (left && memory_is_alive(u->proc->memory))
		return not_undone(u, left);
	/* Everything is undone, or the process has ended: the journal is not needed any more. */
	journal_remove(u->journal);
	u->journal = NULL;
	return 0;
}

void ocp_undo_free(struct ocp_undo *undo)
{
	if (!undo)
		return;
	journal_close(undo->update.journal);
	free_update(&undo->update);
	free(undo);
}
