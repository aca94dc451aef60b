// SPDX-License-Identifier: MIT
#include "profile/profile.h"
#include "base/array.h"
#include "base/search.h"
#include "profile/lock_releases.h"
#include "profile/stack_namer.h"
#include "profile/wait_kinds.h"
#include "unwind/own_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- stacks --------------------------------------------------------------------------------- */

/*
 * Return the class of functions of KIND: profile_compare_frames() treats two functions with the
 * same name as equal only if their classes are equal.
 */
static int class_of(enum frame_kind kind)
{
	switch (kind) {
	case FRAME_KERNEL:
		return 1;
	case FRAME_TRUNCATED:
		return 2;
	case FRAME_THREAD:
		return 3;
	default:
		return 0;
	}
}

int profile_compare_frames(const struct named_frame *a, const struct named_frame *b)
{
	int order = a == b ? 0 : strcmp(a->function, b->function);

	if (!order)
		order = class_of(a->kind) - class_of(b->kind);
	/* The texts of two threads are equal if their names differ only in unsafe characters. */
	return order || a->kind != FRAME_THREAD ? order : COMPARE((uintptr_t)a, (uintptr_t)b);
}

int profile_compare_stacks(const struct named_stack *a, const struct named_stack *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		const int order = profile_compare_frames(a->frames[i], b->frames[i]);

		if (order)
			return order;
	}
	return COMPARE(a->n, b->n);
}

/* Compare two stacks by their functions, and if all functions are equal, by their lines. */
static int compare_stack_places(const struct named_stack *a, const struct named_stack *b)
{
	int order = profile_compare_stacks(a, b);

	for (size_t i = 0; i < a->n && !order; i++) {
		const struct named_frame *x = a->frames[i], *y = b->frames[i];

		if (x == y)
			continue;
		order = COMPARE(x->line, y->line);
		if (!order)
			order = COMPARE(x->is_inlined, y->is_inlined);
		if (!order)
			order = strcmp(x->file ? x->file : "", y->file ? y->file : "");
	}
	return order;
}

static int by_functions(const void *a, const void *b)
{
	return profile_compare_stacks(a, b);
}

static int by_places(const void *a, const void *b)
{
	return compare_stack_places(a, b);
}

static int by_value(const void *a, const void *b)
{
	const struct named_stack *x = a, *y = b;

	if (x->value != y->value)
		return COMPARE(y->value, x->value);
	return compare_stack_places(x, y);
}

static bool same_function(const struct named_frame *a, const struct named_frame *b)
{
	return profile_compare_frames(a, b) == 0;
}

/* Merge stacks for which COMPARE returns 0, and sort the stacks by value. */
static void merge_equal_stacks(struct profile *profile, int (*compare)(const void *, const void *))
{
	size_t n = 0;

	if (profile->n)
		qsort(profile->stacks, profile->n, sizeof(*profile->stacks), compare);
	for (size_t i = 0; i < profile->n; i++) {
		struct named_stack *last = n ? &profile->stacks[n - 1] : NULL;

		if (last && compare(last, &profile->stacks[i]) == 0) {
			last->samples += profile->stacks[i].samples;
			last->value += profile->stacks[i].value;
			last->objects += profile->stacks[i].objects;
			last->live += profile->stacks[i].live;
			last->live_objects += profile->stacks[i].live_objects;
			free(profile->stacks[i].frames);
		} else {
			profile->stacks[n++] = profile->stacks[i];
		}
	}
	profile->n = n;
	if (n)
		qsort(profile->stacks, n, sizeof(*profile->stacks), by_value);
}

void profile_merge(struct profile *profile)
{
	merge_equal_stacks(profile, by_places);
}

void profile_merge_lines(struct profile *profile)
{
	merge_equal_stacks(profile, by_functions);
}

/*
 * Return true if FUNCTION is an entry point of the garbage collector. All work of the collector is
 * done inside one of these functions, in OCaml 4 and 5.
 */
static bool is_collector(const char *function)
{
	static const char *const names[] = {
		"caml_alloc_small_dispatch",   "caml_check_urgent_gc",
		"caml_compact_heap",	       "caml_compact_heap_maybe",
		"caml_empty_minor_heap",       "caml_empty_minor_heap_promote",
		"caml_empty_minor_heaps_once", "caml_finish_major_cycle",
		"caml_gc_compaction",	       "caml_gc_dispatch",
		"caml_gc_full_major",	       "caml_gc_major",
		"caml_gc_major_slice",	       "caml_gc_minor",
		"caml_garbage_collection",     "caml_handle_incoming_interrupts",
		"caml_major_collection_slice", "caml_minor_collection",
		"caml_poll_gc_work",	       "caml_stw_empty_minor_heap",
		"major_collection_slice",      "stw_handler",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(names[i], function) == 0)
			return true;
	return false;
}

static bool is_in_collector(const struct stack_namer *stack)
{
	for (size_t i = 0; i < stack->n; i++)
		if (stack->frames[i]->kind == FRAME_C && is_collector(stack->frames[i]->function))
			return true;
	return false;
}

static bool is_one_of(const char *function, const char *const *names)
{
	for (; *names; names++)
		if (strcmp(*names, function) == 0)
			return true;
	return false;
}

/*
 * Return true if FUNCTION does a minor collection. In OCaml 5, this includes the time in which
 * domains wait for each other.
 */
static bool is_minor(const char *function)
{
	static const char *const names[] = { "caml_empty_minor_heap",
					     "caml_empty_minor_heap_promote",
					     "caml_empty_minor_heaps_once",
					     "caml_stw_empty_minor_heap",
					     "caml_minor_collection",
					     "caml_gc_minor",
					     NULL };

	return is_one_of(function, names);
}

static bool is_major(const char *function)
{
	static const char *const names[] = {
		"caml_compact_heap",	       "caml_compact_heap_maybe",
		"caml_finish_major_cycle",     "caml_gc_compaction",
		"caml_gc_full_major",	       "caml_gc_major",
		"caml_gc_major_slice",	       "major_collection_slice",
		"caml_major_collection_slice", NULL
	};

	return is_one_of(function, names);
}

/*
 * Add SAMPLE to TIME. If several of its functions are minor or major, the innermost one counts,
 * since a major slice may begin with a minor collection.
 */
static void add_collector_time(const struct stack_namer *stack, const struct profile_sample *sample,
			       struct collector_time *time)
{
	time->all += sample->value;
	time->samples += sample->n;
	if (!is_in_collector(stack)) {
		time->doubtful += sample->stack->end != WALK_COMPLETE ? sample->n : 0;
		return;
	}
	time->collector += sample->value;
	for (size_t i = stack->n; i-- > 0;) {
		const char *function = stack->frames[i]->function;

		if (stack->frames[i]->kind != FRAME_C)
			continue;
		if (is_minor(function) || is_major(function)) {
			*(is_minor(function) ? &time->minor : &time->major) += sample->value;
			return;
		}
	}
}

/* ---- threads -------------------------------------------------------------------------------- */

static int compare_to_sample(const struct profile_thread *thread,
			     const struct profile_sample *sample)
{
	int order = COMPARE(thread->pid, (pid_t)sample->tgid);

	if (!order)
		order = COMPARE(thread->tid, (pid_t)sample->tid);
	return order ? order : strcmp(thread->name, sample->comm);
}

/* Return the thread of SAMPLE in PROFILE, which is added if necessary; NULL if out of memory. */
static struct profile_thread *find_thread(struct profile *profile,
					  const struct profile_sample *sample)
{
	const size_t at =
		SEARCH(i, profile->n_threads, compare_to_sample(profile->threads[i], sample) < 0);
	struct profile_thread *thread;

	if (at < profile->n_threads && compare_to_sample(profile->threads[at], sample) == 0)
		return profile->threads[at];
	thread = calloc(1, sizeof(*thread));
	if (!thread || !array_add(profile->threads, profile->n_threads)) {
		free(thread);
		return NULL;
	}
	thread->pid = (pid_t)sample->tgid;
	thread->tid = (pid_t)sample->tid;
	memcpy(thread->name, sample->comm, sizeof(thread->name));
	thread->frame = (struct named_frame){
		.function = thread_frame_text(thread->text, thread->tid, thread->name),
		.kind = FRAME_THREAD,
	};
	memmove(profile->threads + at + 1, profile->threads + at,
		(profile->n_threads - 1 - at) * sizeof(struct profile_thread *));
	profile->threads[at] = thread;
	return thread;
}

static int by_thread_value(const void *a, const void *b)
{
	const struct profile_thread *const *x = a, *const *y = b;
	int order = COMPARE((*y)->value, (*x)->value);

	if (!order)
		order = COMPARE((*x)->tid, (*y)->tid);
	return order ? order : strcmp((*x)->name, (*y)->name);
}

/* ---- profiles ------------------------------------------------------------------------------- */

int profile_add_sample(struct stack_namer *namer, const struct profile_sample *sample,
		       bool by_thread, struct profile *profile)
{
	struct named_stack stack = { .samples = sample->n, .value = sample->value };
	struct profile_thread *thread = NULL;
	int err = stack_namer_name(namer, sample->stack);

	if (!err && profile_is_sampled(profile->kind))
		add_collector_time(namer, sample, &profile->collector);
	if (err || !namer->n || (profile->kind == PROFILE_GC && !is_in_collector(namer)))
		return err;
	stack.frames = calloc(namer->n + 1, sizeof(struct named_frame *));
	if (!stack.frames)
		return ctx_no_memory(namer->ctx);
	if (by_thread) {
		thread = find_thread(profile, sample);
		if (!thread) {
			free(stack.frames);
			return ctx_no_memory(namer->ctx);
		}
		thread->samples += sample->n;
		thread->value += sample->value;
		stack.frames[stack.n++] = &thread->frame;
	}
	memcpy(stack.frames + stack.n, namer->frames, namer->n * sizeof(struct named_frame *));
	stack.n += namer->n;
	profile->stacks[profile->n++] = stack;
	profile->samples += stack.samples;
	profile->value += stack.value;
	if (sample->stack->end != WALK_COMPLETE)
		profile->truncated += stack.samples;
	return 0;
}

/*
 * Set *HAS to whether a thread of the program has waited, but not for the whole time. The runtime's
 * own threads do not count.
 */
static int has_busy_threads(struct stack_namer *namer, const struct profile_reading *reading,
			    bool *has)
{
	int err = 0;

	*has = false;
	for (size_t i = 0; i < reading->n && !err && !*has; i++) {
		if (reading->samples[i].is_idle)
			continue;
		err = stack_namer_name(namer, reading->samples[i].stack);
		*has = !err &&
		       wait_kind_of(&(struct named_stack){ .frames = namer->frames,
							   .n = namer->n }) != WAIT_RUNTIME_THREAD;
	}
	return err;
}

/* Add the samples of READING to PROFILE, and who ended the waits for locks. */
static int add_reading(struct ocp_ctx *ctx, const struct profile_reading *reading,
		       struct frame_names *names, const struct profiler_spec *spec,
		       struct profile *profile)
{
	struct stack_namer namer = { .ctx = ctx, .names = names };
	int err = 0;

	if (reading->n_always_waiting && !spec->keeps_idle)
		err = has_busy_threads(&namer, reading, &profile->lacks_idle);
	for (size_t i = 0; i < reading->n && !err; i++)
		if (!profile->lacks_idle || !reading->samples[i].is_idle)
			err = profile_add_sample(&namer, &reading->samples[i], spec->by_thread,
						 profile);
	if (!err && reading->releases)
		err = lock_releases_make(&namer, reading, profile);
	free(namer.frames);
	return err;
}

int profile_make(struct ocp_ctx *ctx, const struct profile_reading *reading,
		 struct frame_names *names, const struct profiler_spec *spec,
		 struct profile *profile)
{
	const struct profile_losses *losses = &reading->losses;
	const struct stack_losses *of_stacks = &reading->stack_losses;
	int err = 0;

	*profile = (struct profile){
		.kind = spec->kind,
		.hz = profile_is_sampled(spec->kind) ? spec->hz : 0,
		.by_ptrace = spec->by_ptrace,
		.processes = reading->n_processes,
		.always_waiting = reading->n_always_waiting,
		.ready_ns = reading->ready_ns,
		.knows_ready = reading->knows_ready,
		.in_calls = reading->n_in_calls,
		.stacks = calloc(reading->n + 1, sizeof(*profile->stacks)),
		.stack_losses = *of_stacks,
		.losses = *losses,
		.lost_otherwise =
			reading->n_without_stack + reading->n_without_words + reading->n_missed,
		.lost = of_stacks->full + of_stacks->collisions + of_stacks->ended[WALK_BUSY] +
			losses->counts_full + losses->waits_full,
	};
	profile->lost += profile->lost_otherwise;
	if (!profile->stacks)
		err = ctx_no_memory(ctx);
	else
		err = add_reading(ctx, reading, names, spec, profile);
	if (profile->n_threads)
		qsort(profile->threads, profile->n_threads, sizeof(struct profile_thread *),
		      by_thread_value);
	if (reading->unsure_words > (double)profile->value / 100)
		profile->unsure_words = (uint64_t)reading->unsure_words;
	if (reading->missing_words > (double)profile->value / 100)
		profile->missing_words = (uint64_t)reading->missing_words;
	if (err)
		profile_free(profile);
	else
		merge_equal_stacks(profile, by_places);
	return err;
}

void profile_free(struct profile *profile)
{
	for (size_t i = 0; profile->stacks && i < profile->n; i++)
		free(profile->stacks[i].frames);
	for (size_t i = 0; profile->threads && i < profile->n_threads; i++)
		free(profile->threads[i]);
	lock_releases_free(profile->locks);
	free(profile->threads);
	free(profile->stacks);
	free(profile->comments);
	*profile = (struct profile){ 0 };
}

double profile_share(const struct profile *profile, uint64_t value)
{
	return profile->value ? 100.0 * (double)value / (double)profile->value : 0;
}

bool profile_knows_collector(const struct profile *profile)
{
	const struct collector_time *time = &profile->collector;

	return time->collector && (time->doubtful + profile->lost) * 100 <= time->samples;
}

const char *profile_kind_name(enum profile_kind kind)
{
	static const char *const names[] = { [PROFILE_CPU] = "cpu",
					     [PROFILE_WAITS] = "wait",
					     [PROFILE_WORDS] = "alloc",
					     [PROFILE_GC] = "gc" };

	return names[kind];
}

const char *profile_empty_text(enum profile_kind kind)
{
	static const char *const texts[] = {
		[PROFILE_CPU] = "no thread ran at the time of a sample",
		[PROFILE_WAITS] = "no thread waited and ran again",
		[PROFILE_WORDS] = "no minor heap ran out, and no large blocks were allocated",
		[PROFILE_GC] = "the collector did not run",
	};

	return texts[kind];
}

/* ---- functions ------------------------------------------------------------------------------ */

/* One occurrence of a frame in a stack, for sorting by function. */
struct seen {
	const struct named_frame *frame;
	size_t stack, depth;
	bool is_site;		       /* the value of the stack belongs to this frame */
	const struct named_frame *via; /* if is_site: as in struct profile_function */
};

static int compare_seen(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	int order = profile_compare_frames(x->frame, y->frame);

	if (!order)
		order = COMPARE(x->stack, y->stack);
	return order;
}

static int by_self(const void *a, const void *b)
{
	const struct profile_function *x = a, *y = b;
	int order;

	if (x->self != y->self)
		return COMPARE(y->self, x->self);
	if (x->total != y->total)
		return COMPARE(y->total, x->total);
	if (x->depth != y->depth)
		return COMPARE(x->depth, y->depth);
	order = strcmp(x->function, y->function);
	return order ? order
		     : strcmp(x->via ? x->via->function : "", y->via ? y->via->function : "");
}

/*
 * Return true if FRAME belongs to the mechanism (the kernel that waits, the runtime that
 * allocates), and not to the code that a profile of KIND is about, or if it stands for a thread.
 */
static bool is_means(enum profile_kind kind, const struct named_frame *frame)
{
	if (frame->kind == FRAME_THREAD)
		return true;
	if (kind == PROFILE_WAITS)
		return frame->kind == FRAME_KERNEL;
	if (kind == PROFILE_WORDS || kind == PROFILE_GC)
		return frame->kind != FRAME_OCAML;
	return false;
}

/*
 * Return the index in STACK of the function that waits, that allocates, or on behalf of which the
 * collector runs. If all functions belong to the mechanism (is_means()), return the index of the
 * innermost function.
 */
static size_t innermost(const struct profile *profile, size_t stack)
{
	const struct named_stack *of = &profile->stacks[stack];
	size_t i = of->n - 1;

	while (i > 0 && is_means(profile->kind, of->frames[i]))
		i--;
	return is_means(profile->kind, of->frames[i]) ? of->n - 1 : i;
}

struct profile_site profile_site_of(const struct profile *profile, size_t stack,
				    enum profile_sites sites)
{
	const size_t leaf = innermost(profile, stack);
	size_t own = leaf + 1;

	if (sites == SITES_OWN)
		own = find_own_function(profile->stacks[stack].frames, leaf + 1);
	return (struct profile_site){ own > leaf ? leaf : own, leaf };
}

static void add_seen_stack(const struct profile *profile, size_t i, enum profile_sites sites,
			   struct seen *seen, size_t *n)
{
	const struct named_stack *stack = &profile->stacks[i];
	const struct profile_site site = profile_site_of(profile, i, sites);
	const size_t first = profile_stack_first(stack);

	for (size_t j = first; j < stack->n; j++)
		seen[(*n)++] =
			(struct seen){ stack->frames[j], i, j - first, j == site.frame,
				       site.leaf != site.frame ? stack->frames[site.leaf] : NULL };
}

static struct seen *list_seen(const struct profile *profile, const struct profile_thread *thread,
			      enum profile_sites sites, size_t *n)
{
	struct seen *seen;

	*n = 0;
	for (size_t i = 0; i < profile->n; i++)
		*n += profile->stacks[i].n;
	seen = calloc(*n + 1, sizeof(*seen));
	*n = 0;
	for (size_t i = 0; seen && i < profile->n; i++)
		if (!thread || profile_stack_thread(&profile->stacks[i]) == thread)
			add_seen_stack(profile, i, sites, seen, n);
	return seen;
}

/*
 * ROWS[0..*N) are the rows of one function. Return the row for VIA, which is added if there is
 * none.
 */
static struct profile_function *find_row(struct profile_function *rows, size_t *n,
					 const struct named_frame *via)
{
	for (size_t i = 0; i < *n; i++)
		if (rows[i].via == via || (rows[i].via && via && same_function(rows[i].via, via)))
			return &rows[i];
	rows[*n] = rows[0];
	rows[*n].via = via;
	rows[*n].self = 0;
	return &rows[(*n)++];
}

/*
 * Make ROWS, the rows of one function, from SEEN[0..N_SEEN), the frames of the function, sorted by
 * stack. Return the number of rows. The first row is the one without `via`; it is left out if it
 * has no value, and other rows have one.
 */
static size_t make_rows(const struct profile *profile, const struct seen *seen, size_t n_seen,
			struct profile_function *rows)
{
	size_t n = 1;
	uint64_t total = 0;
	size_t depth = SIZE_MAX;

	rows[0] = (struct profile_function){ .function = seen[0].frame->function,
					     .frame = seen[0].frame };
	for (size_t i = 0; i < n_seen; i++) {
		const uint64_t value = profile->stacks[seen[i].stack].value;

		/* A recursive function counts only once for each stack. */
		total += !i || seen[i - 1].stack != seen[i].stack ? value : 0;
		depth = seen[i].depth < depth ? seen[i].depth : depth;
		if (seen[i].is_site)
			find_row(rows, &n, seen[i].via)->self += value;
	}
	if (!rows[0].self && n > 1)
		rows[0] = rows[--n];
	for (size_t i = 0; i < n; i++) {
		rows[i].total = total;
		rows[i].depth = depth;
	}
	return n;
}

int profile_functions(struct ocp_ctx *ctx, const struct profile *profile,
		      const struct profile_thread *thread, enum profile_sites sites,
		      struct profile_function **functions, size_t *n)
{
	size_t n_seen, end;
	struct seen *seen = list_seen(profile, thread, sites, &n_seen);
	/* A row for each function, and one for the `via` of each stack. */
	struct profile_function *list = calloc(n_seen + profile->n + 1, sizeof(*list));

	*n = 0;
	*functions = list;
	if (!seen || !list) {
		free(seen);
		free(list);
		return ctx_no_memory(ctx);
	}
	qsort(seen, n_seen, sizeof(*seen), compare_seen);
	for (size_t i = 0; i < n_seen; i = end) {
		for (end = i + 1; end < n_seen && same_function(seen[i].frame, seen[end].frame);)
			end++;
		*n += make_rows(profile, seen + i, end - i, list + *n);
	}
	free(seen);
	qsort(list, *n, sizeof(*list), by_self);
	return 0;
}
