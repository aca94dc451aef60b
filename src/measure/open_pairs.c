// SPDX-License-Identifier: MIT
#include "measure/open_pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"
#include "look/maps.h"
#include "look/memory.h"
#include "look/proc_file.h"
#include "measure/meter.h"
#include "measure_slower.h"
#include "unwind/stack_reader.h"
#include "unwind/stack_walker.h"

/* A call, as the engine distinguishes calls. */
struct ended_call {
	uint32_t owner, pair;
	uint64_t value, ns;
};

struct ended_calls {
	struct ended_call *list; /* sorted */
	size_t n;
	/* what walks the stacks of threads that wait; NULL until it is needed */
	struct stack_walker *walker;
	struct stack_reader *reader;
	bool is_refreshed; /* the walker knows the present mappings */
};

/* A thread of a process while its calls are examined. */
struct examined {
	struct ocp_ctx *ctx;
	struct ended_calls *ended;
	pid_t pid, tid;
	struct memory *memory; /* NULL: the process has ended */
	struct maps maps;
	bool is_walked; /* the thread waits, and its stack is known: */
	uint64_t rsp;
	const struct walk_walked *stack;
	const uint64_t *pointers;
};

void ended_calls_free(struct ended_calls *ended)
{
	if (!ended)
		return;
	stack_reader_close(ended->reader);
	stack_walker_close(ended->walker);
	free(ended->list);
	free(ended);
}

static struct ended_call call_key(const struct engine_open *open)
{
	return (struct ended_call){ open->owner, open->pair, open->value, open->ns };
}

static int compare_ended(const void *a, const void *b)
{
	const struct ended_call *x = a, *y = b;
	int order = COMPARE(x->owner, y->owner);

	if (!order)
		order = COMPARE(x->pair, y->pair);
	if (!order)
		order = COMPARE(x->value, y->value);
	return order ? order : COMPARE(x->ns, y->ns);
}

static bool is_known_ended(const struct ended_calls *ended, const struct engine_open *open)
{
	const struct ended_call key = call_key(open);

	return ended && ended->n && open->is_call &&
	       bsearch(&key, ended->list, ended->n, sizeof(key), compare_ended);
}

/* ---- memory --------------------------------------------------------------------------------- */

static bool read_address(const struct examined *process, uint64_t at, uint64_t *word)
{
	return memory_try_read(process->memory, at, word, sizeof(*word));
}

/* Read the file NAME of the thread, which is small. Return false if the thread has ended. */
static bool read_of_thread(const struct examined *thread, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)thread->pid, (int)thread->tid,
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, room - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* ---- the stacks of threads that wait -------------------------------------------------------- */

/* Get ready to walk stacks of the process. Return false if they cannot be walked. */
static bool prepare_walk(const struct examined *thread)
{
	struct ended_calls *ended = thread->ended;

	if (!ended->walker && stack_walker_open(thread->ctx, NULL, &ended->walker))
		return false;
	if (!ended->reader && stack_reader_open(thread->ctx, ended->walker, &ended->reader))
		return false;
	if (!ended->is_refreshed && stack_walker_refresh(ended->walker))
		return false;
	ended->is_refreshed = true;
	return stack_walker_image(ended->walker, (uint32_t)thread->pid) ||
	       stack_walker_add_process(ended->walker, thread->pid, (uint32_t)thread->pid) == 0;
}

/* Walk the stack of the thread if it waits in the kernel for the whole time of the walk. */
static void walk_thread(struct examined *thread)
{
	char place_text[256], before[128], after[128];
	struct proc_wait_place place;

	thread->is_walked = false;
	if (!prepare_walk(thread) || !read_of_thread(thread, "schedstat", before, sizeof(before)) ||
	    !read_of_thread(thread, "syscall", place_text, sizeof(place_text)) ||
	    !proc_wait_place_parse(place_text, &place))
		return;
	thread->rsp = place.rsp;
	thread->stack = stack_reader_walk_waiting(thread->ended->reader, thread->memory,
						  (uint32_t)thread->pid, place.rsp, place.rip);
	thread->pointers = stack_reader_pointers(thread->ended->reader);
	thread->is_walked = read_of_thread(thread, "schedstat", after, sizeof(after)) &&
			    strcmp(before, after) == 0;
}

/* Return true if the stack that was walked has a return address, of any call, at AT. */
static bool has_call_at(const struct examined *thread, uint64_t at)
{
	for (uint32_t i = 0; i < thread->stack->n; i++)
		if (thread->pointers[i] == at + sizeof(at))
			return true;
	return false;
}

/*
 * Return true if the stack that was walked shows whether CALL is in it. A fibre that waits for its
 * turn is in no thread's stack. The rest of a stack that could not be walked to its end is unknown.
 */
static bool is_decided_by_stack(const struct examined *thread, const struct slow_call *call)
{
	if (!thread->is_walked || (call->stack && call->parent))
		return false;
	if (thread->stack->end == WALK_COMPLETE)
		return true;
	return !call->stack && thread->stack->n &&
	       call->at < thread->pointers[thread->stack->n - 1];
}

/*
 * Return true if the stack of OCaml 5 of CALL has been left at a place above the call. The stack
 * pointer of a stack is that of the moment when the stack was left, and is old while OCaml code
 * runs on the stack. So the thread must wait if it uses this stack.
 */
static bool has_left_fibre(const struct examined *thread, const struct slow_call *call)
{
	uint64_t current, sp;

	return read_address(thread, call->state + STATE_STACK, &current) &&
	       read_address(thread, call->stack + STACK_SP, &sp) && sp > call->at &&
	       (current != call->stack || thread->is_walked);
}

/* Return true if WORD is where calls with return probes return to. */
static bool is_trampoline(const struct examined *process, uint64_t word)
{
	const struct mapping *mapping = maps_find(&process->maps, word);

	return mapping && strcmp(mapping->path, "[uprobes]") == 0;
}

/*
 * Return true if the call OPEN is no longer in its stack. The stack of a fibre can be moved or
 * freed: then its old memory says nothing.
 */
static bool has_gone(const struct examined *thread, const struct engine_open *open)
{
	const struct slow_call *call = &open->record->call;
	uint64_t word, id;

	if (!call->return_address)
		return false;
	if (call->stack && (!read_address(thread, call->stack + STACK_ID, &id) ||
			    (uint32_t)id != open->value >> 32))
		return false;
	if (is_decided_by_stack(thread, call) && !has_call_at(thread, call->at))
		return true;
	if (call->stack ? has_left_fibre(thread, call)
			: thread->is_walked && thread->rsp > call->at)
		return true;
	return read_address(thread, call->at, &word) && word != call->return_address &&
	       !is_trampoline(thread, word);
}

static void leave_process(struct examined *thread)
{
	memory_close(thread->memory);
	maps_free(&thread->maps);
	thread->memory = NULL;
}

static void enter_process(struct examined *thread, pid_t pid)
{
	leave_process(thread);
	thread->pid = pid;
	if (memory_open(thread->ctx, pid, &thread->memory))
		thread->memory = NULL;
	else if (maps_read(thread->ctx, pid, &thread->maps))
		leave_process(thread);
}

/* Examine thread TID of PID next. A process that has ended has no open calls. */
static void enter_thread(struct examined *thread, pid_t pid, pid_t tid)
{
	if (thread->tid == tid && thread->pid == pid)
		return;
	if (thread->pid != pid)
		enter_process(thread, pid);
	thread->tid = tid;
	if (thread->memory)
		walk_thread(thread);
}

static int compare_by_thread(const void *a, const void *b)
{
	const struct hit_record *x = &((const struct engine_open *)a)->record->hit;
	const struct hit_record *y = &((const struct engine_open *)b)->record->hit;

	return x->pid != y->pid ? COMPARE(x->pid, y->pid) : COMPARE(x->tid, y->tid);
}

static void sort_ended(struct ended_calls *ended)
{
	if (ended->n)
		qsort(ended->list, ended->n, sizeof(*ended->list), compare_ended);
}

/*
 * Add to GONE the calls of OPENS that are no longer in their stacks, and those that ENDED has
 * already. Sorts OPENS.
 */
static int examine_calls(struct ocp_meter *meter, struct engine_opens *opens,
			 struct ended_calls *ended, struct ended_calls *gone)
{
	struct examined thread = { .ctx = meter->ctx, .ended = ended };
	int err = 0;

	ended->is_refreshed = false;
	if (opens->n)
		qsort(opens->list, opens->n, sizeof(*opens->list), compare_by_thread);
	for (size_t i = 0; !err && i < opens->n; i++) {
		const struct engine_open *open = &opens->list[i];
		struct ended_call *slot;

		if (!open->is_call)
			continue;
		enter_thread(&thread, (pid_t)open->record->hit.pid, (pid_t)open->record->hit.tid);
		if (!is_known_ended(ended, open) && !(thread.memory && has_gone(&thread, open)))
			continue;
		slot = array_add(gone->list, gone->n);
		if (slot)
			*slot = call_key(open);
		else
			err = ctx_no_memory(meter->ctx);
	}
	leave_process(&thread);
	sort_ended(gone);
	return err;
}

/* Make ENDED those calls of GONE that are still in OPENS: they have had no exit. */
static int keep_open_ones(struct ocp_meter *meter, const struct engine_opens *opens,
			  const struct ended_calls *gone, struct ended_calls *ended)
{
	ended->n = 0;
	for (size_t i = 0; i < opens->n; i++) {
		struct ended_call *slot;

		if (!is_known_ended(gone, &opens->list[i]))
			continue;
		slot = array_add(ended->list, ended->n);
		if (!slot)
			return ctx_no_memory(meter->ctx);
		*slot = call_key(&opens->list[i]);
	}
	sort_ended(ended);
	return 0;
}

int meter_find_ended_calls(struct ocp_meter *meter)
{
	struct engine_opens before = { 0 }, after = { 0 };
	struct ended_calls gone = { 0 };
	int err;

	if (!meter->engine || !meter->ops->read_open)
		return 0;
	if (!meter->ended_calls)
		meter->ended_calls = calloc(1, sizeof(*meter->ended_calls));
	if (!meter->ended_calls)
		return ctx_no_memory(meter->ctx);
	err = meter->ops->read_open(meter->engine, &before);
	if (!err)
		err = examine_calls(meter, &before, meter->ended_calls, &gone);
	if (!err && gone.n)
		err = meter->ops->read_open(meter->engine, &after);
	if (!err)
		err = keep_open_ones(meter, &after, &gone, meter->ended_calls);
	engine_opens_free(&before);
	engine_opens_free(&after);
	free(gone.list);
	return err;
}

/* ---- the order of calls --------------------------------------------------------------------- */

/* By stack, then by beginning. Pairs come before calls. */
static int compare_by_stack(const void *a, const void *b)
{
	const struct engine_open *x = a, *y = b;
	int order = COMPARE(x->is_call, y->is_call);

	if (!order && x->is_call)
		order = COMPARE(x->owner, y->owner);
	if (!order && x->is_call)
		order = COMPARE(x->record->call.stack != 0, y->record->call.stack != 0);
	if (!order && x->is_call && x->record->call.stack)
		order = COMPARE(x->value >> 32, y->value >> 32);
	return order ? order : COMPARE(x->ns, y->ns);
}

static bool are_in_one_stack(const struct engine_open *x, const struct engine_open *y)
{
	const bool is_fibre = x->record->call.stack != 0;

	return x->owner == y->owner && is_fibre == (y->record->call.stack != 0) &&
	       (!is_fibre || x->value >> 32 == y->value >> 32);
}

/* Return true if the call INNER is deeper in the stack than OUTER, which began before it. */
static bool is_deeper(const struct engine_open *inner, const struct engine_open *outer)
{
	/* The frame of a fibre is the distance from the base of its stack. */
	if (outer->record->call.stack)
		return (uint32_t)inner->value > (uint32_t)outer->value;
	return inner->value < outer->value;
}

static int compare_inner_first(const void *a, const void *b)
{
	const struct engine_open *x = a, *y = b;

	return COMPARE(y->ns, x->ns);
}

/*
 * Free the records of the calls of OPENS, sorted by stack, that are known to have ended, and of
 * those that a later call in the same stack has replaced: a call that is open is less deep than all
 * later ones.
 */
static void mark_ended(const struct ended_calls *ended, struct engine_opens *opens)
{
	static const struct slow_start no_start;
	struct slow_start start = no_start; /* of `outermost` */
	struct engine_open outermost = { .record = NULL };

	for (size_t i = opens->n; i-- > 0;) {
		struct engine_open *open = &opens->list[i];
		bool has_ended = is_known_ended(ended, open);

		if (!open->is_call)
			continue;
		if (outermost.record && are_in_one_stack(&outermost, open) &&
		    !is_deeper(&outermost, open)) {
			has_ended = true;
		} else {
			/* A copy: the record may be freed. */
			start.call = open->record->call;
			outermost = *open;
			outermost.record = &start;
		}
		if (!has_ended)
			continue;
		free(open->record);
		open->record = NULL;
	}
}

/* Remove the calls that have ended, and sort the rest for meter_take_open(). */
static void remove_ended(const struct ended_calls *ended, struct engine_opens *opens)
{
	size_t n = 0;

	qsort(opens->list, opens->n, sizeof(*opens->list), compare_by_stack);
	mark_ended(ended, opens);
	for (size_t i = 0; i < opens->n; i++)
		if (opens->list[i].record)
			opens->list[n++] = opens->list[i];
	opens->n = n;
	if (n)
		qsort(opens->list, n, sizeof(*opens->list), compare_inner_first);
}

int meter_take_open(struct ocp_meter *meter, ocp_hit_fn fn, void *data, uint64_t *n_unkept)
{
	struct engine_opens opens = { 0 };
	int err = 0;

	*n_unkept = 0;
	if (meter->engine && meter->ops->read_open)
		err = meter->ops->read_open(meter->engine, &opens);
	if (!err && opens.n)
		remove_ended(meter->ended_calls, &opens);
	for (size_t i = 0; !err && i < opens.n; i++)
		meter_pass_open(meter, &opens.list[i], fn, data);
	if (!err)
		*n_unkept = opens.n_unkept;
	engine_opens_free(&opens);
	return err;
}
