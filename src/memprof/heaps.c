// SPDX-License-Identifier: MIT
#include "memprof/heaps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/plural.h"

enum {
	/*
	 * The first and the longest delay between two attempts to open a session. A later attempt
	 * can succeed, because the process may then run a program that is linked with the library,
	 * or another profile of the process may have ended.
	 */
	FIRST_RETRY_MS = 250,
	LAST_RETRY_MS = 60000,
};

struct followed_heap {
	struct watched_heap is;
	char *exe;
	uint64_t number; /* number of the session */
	struct memprof_session *session;
	struct heap_names *names;
	struct heap *heap;
	struct memprof_answers answers;
	int64_t retry_ms, delay_ms;
	bool is_wanted;
	bool is_left_alone; /* the program profiles itself, so do not try again */
};

struct heaps {
	struct ocp_ctx *ctx;
	double rate;
	uint64_t last_number;
	struct followed_heap followed[HEAPS_MAX];
	size_t n;
	size_t n_above; /* how many processes are not profiled because of HEAPS_MAX */
	/* sums over the sessions that have ended; each element owns its `exe` */
	struct heap_program *programs;
	struct heap_program *shown; /* sums over the ended and the running sessions */
	size_t n_programs;
};

int heaps_new(struct ocp_ctx *ctx, double rate, struct heaps **out)
{
	struct heaps *h = calloc(1, sizeof(*h));

	*out = h;
	if (!h)
		return ctx_no_memory(ctx);
	h->ctx = ctx;
	h->rate = rate;
	return 0;
}

double heaps_rate(const struct heaps *h)
{
	return h->rate;
}

/* ---- programs -------------------------------------------------------------------------------- */

static struct heap_program *find_program(struct heaps *h, const char *exe)
{
	for (size_t i = 0; i < h->n_programs; i++)
		if (strcmp(h->programs[i].exe, exe) == 0)
			return &h->programs[i];
	return NULL;
}

static int add_heap_program(struct heaps *h, const char *exe)
{
	struct heap_program *programs, *shown;
	char *copy;

	if (find_program(h, exe))
		return 0;
	programs = array_grow(h->programs, h->n_programs, sizeof(*programs));
	if (programs)
		h->programs = programs;
	shown = array_grow(h->shown, h->n_programs, sizeof(*shown));
	if (shown)
		h->shown = shown;
	copy = programs && shown ? strdup(exe) : NULL;
	if (!copy)
		return ctx_no_memory(h->ctx);
	programs[h->n_programs++] = (struct heap_program){ .exe = copy };
	return 0;
}

/* Add the totals and losses of F's session to SUM. */
static void add_session_sums(struct heap_program *sum, const struct followed_heap *f)
{
	const struct heap_totals totals = heap_totals(f->heap);
	const struct memprof_losses losses = memprof_losses(f->session, false);

	sum->samples += totals.samples;
	sum->blocks += totals.blocks;
	sum->left_out += totals.left_out;
	sum->lost_allocations +=
		losses.events[MEMPROF_ALLOC_MINOR] + losses.events[MEMPROF_ALLOC_MAJOR];
	sum->lost_samples += losses.samples;
	sum->lost_frees +=
		losses.events[MEMPROF_DEALLOC_MINOR] + losses.events[MEMPROF_DEALLOC_MAJOR];
}

const struct heap_program *heaps_programs(struct heaps *h, size_t *n)
{
	for (size_t i = 0; i < h->n_programs; i++)
		h->shown[i] = h->programs[i];
	for (size_t i = 0; i < h->n; i++) {
		const struct followed_heap *f = &h->followed[i];
		struct heap_program *program;

		if (!f->session)
			continue;
		program = &h->shown[find_program(h, f->exe) - h->programs];
		add_session_sums(program, f);
		program->n_processes += f->is.state == HEAP_RUNS;
		program->live += heap_totals(f->heap).live_samples;
		program->live_blocks += heap_totals(f->heap).live_blocks;
	}
	*n = h->n_programs;
	return h->shown;
}

/* ---- sessions -------------------------------------------------------------------------------- */

static void close_session(struct heaps *h, struct followed_heap *f)
{
	if (f->session && f->heap)
		add_session_sums(find_program(h, f->exe), f);
	memprof_close(f->session);
	heap_names_close(f->names);
	heap_free(f->heap);
	f->session = NULL;
	f->names = NULL;
	f->heap = NULL;
	f->is.heap = NULL;
	f->is.state = HEAP_NONE;
}

static void set_problem(struct followed_heap *f, int err, const char *problem, const char *hint)
{
	f->is.err = err;
	snprintf(f->is.problem, sizeof(f->is.problem), "%s", problem);
	snprintf(f->is.hint, sizeof(f->is.hint), "%s", hint ? hint : "");
}

/*
 * The session of F has failed with ERR. Close it, store ERR and the ctx's message and hint in F,
 * and schedule another attempt.
 */
static void retry_later(struct heaps *h, struct followed_heap *f, int err)
{
	close_session(h, f);
	set_problem(f, err, ocp_error(h->ctx), ocp_hint(h->ctx));
	f->retry_ms = clock_ms() + f->delay_ms;
	f->delay_ms = f->delay_ms < LAST_RETRY_MS / 2 ? 2 * f->delay_ms : LAST_RETRY_MS;
}

static int open_session(struct heaps *h, struct followed_heap *f)
{
	const struct memprof_spec spec = { .rate = h->rate,
					   .depth = HEAPS_DEPTH,
					   .data = HEAPS_RING };
	int err = memprof_open(h->ctx, f->is.pid, &spec, &f->session);

	if (!err)
		err = heap_new(h->ctx, &f->heap);
	if (!err)
		err = add_heap_program(h, f->exe);
	if (!err)
		err = heap_names_open(h->ctx, f->is.pid, &f->names);
	if (err) {
		retry_later(h, f, err);
		return err == -ENOMEM ? err : 0;
	}
	f->number = ++h->last_number;
	f->answers = (struct memprof_answers){ 0 };
	f->is.state = HEAP_ASKED;
	f->is.heap = f->heap;
	f->is.since_ns = (uint64_t)clock_ns(CLOCK_REALTIME);
	set_problem(f, 0, "", "");
	return 0;
}

/*
 * Close the session of F, whose process has ended, has executed another program, or has closed the
 * session.
 */
static void end(struct heaps *h, struct followed_heap *f)
{
	close_session(h, f);
	f->is_left_alone = false;
	set_problem(f, 0, "it has ended, or executed another program", NULL);
	f->retry_ms = clock_ms() + FIRST_RETRY_MS;
}

/* Take the replies of the program. This may close the session. */
static void take_answers(struct heaps *h, struct followed_heap *f)
{
	int err = memprof_answers_take(h->ctx, f->is.pid, f->session, &f->answers);

	if (!err && memprof_answers_refuse(&f->answers, clock_ns(CLOCK_MONOTONIC))) {
		err = memprof_answers_refusal(h->ctx, f->is.pid, &f->answers);
		f->is_left_alone = strstr(f->answers.refusal, "already started");
	}
	if (err) {
		retry_later(h, f, err);
	} else if (f->answers.started_ns && f->is.state == HEAP_ASKED) {
		f->is.state = HEAP_RUNS;
		f->is.since_ns = (uint64_t)clock_ns(CLOCK_REALTIME);
		f->delay_ms = FIRST_RETRY_MS;
	}
}

static int read_one(struct heaps *h, struct followed_heap *f, bool *more)
{
	struct memprof_event event;
	size_t left = HEAPS_EVENTS, stack;
	int err = 0;

	take_answers(h, f);
	while (f->session && !err && left && memprof_next(f->session, &event)) {
		memprof_answers_see(&f->answers, event.domain);
		/* The program is not trusted: its event may have more frames than requested. */
		if (event.depth > HEAPS_DEPTH)
			event.depth = HEAPS_DEPTH;
		err = heap_enter(f->heap, &event, &stack);
		left--;
	}
	if (err)
		retry_later(h, f, err);
	else if (!left && f->session)
		*more = true;
	else if (f->session && f->answers.is_closed)
		end(h, f);
	return err;
}

int heaps_read(struct heaps *h, bool *more)
{
	int err = 0;

	*more = false;
	for (size_t i = 0; i < h->n && !err; i++)
		if (h->followed[i].session)
			err = read_one(h, &h->followed[i], more);
	return err;
}

/* ---- processes ------------------------------------------------------------------------------- */

static void forget_followed_heap(struct heaps *h, struct followed_heap *f)
{
	bool more = true;

	/* Take the events that the process sent before it ended. */
	for (int i = 0; f->session && more && i < HEAPS_RING / HEAPS_EVENTS; i++) {
		more = false;
		read_one(h, f, &more);
	}
	close_session(h, f);
	free(f->exe);
	*f = h->followed[--h->n];
	f->is.exe = f->exe;
	h->followed[h->n] = (struct followed_heap){ 0 };
}

static struct followed_heap *find_followed_heap(struct heaps *h,
						const struct recorded_process *process)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->followed[i].is.pid == process->pid &&
		    strcmp(h->followed[i].exe, process->exe) == 0)
			return &h->followed[i];
	return NULL;
}

static int add_followed_heap(struct heaps *h, const struct recorded_process *process)
{
	struct followed_heap *f = &h->followed[h->n];

	if (h->n == HEAPS_MAX) {
		h->n_above++;
		return 0;
	}
	*f = (struct followed_heap){ .exe = strdup(process->exe),
				     .is.pid = process->pid,
				     .delay_ms = FIRST_RETRY_MS,
				     .is_wanted = true };
	if (!f->exe)
		return ctx_no_memory(h->ctx);
	f->is.exe = f->exe;
	h->n++;
	return 0;
}

int heaps_follow(struct heaps *h, const struct recorded_process *list, size_t n)
{
	int err = 0;

	h->n_above = 0;
	for (size_t i = 0; i < h->n; i++)
		h->followed[i].is_wanted = false;
	for (size_t i = 0; i < n; i++) {
		struct followed_heap *f = find_followed_heap(h, &list[i]);

		if (f)
			f->is_wanted = true;
	}
	for (size_t i = h->n; i-- > 0;)
		if (!h->followed[i].is_wanted)
			forget_followed_heap(h, &h->followed[i]);
	for (size_t i = 0; i < n && !err; i++)
		if (!find_followed_heap(h, &list[i]))
			err = add_followed_heap(h, &list[i]);
	for (size_t i = 0; i < h->n && !err; i++) {
		struct followed_heap *f = &h->followed[i];

		if (!f->session && !f->is_left_alone && clock_ms() >= f->retry_ms)
			err = open_session(h, f);
	}
	return err;
}

void heaps_free(struct heaps *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++) {
		close_session(h, &h->followed[i]);
		free(h->followed[i].exe);
	}
	for (size_t i = 0; i < h->n_programs; i++)
		free((void *)h->programs[i].exe);
	free(h->programs);
	free(h->shown);
	free(h);
}

size_t heaps_count(const struct heaps *h)
{
	return h->n;
}

size_t heaps_above(const struct heaps *h)
{
	return h->n_above;
}

const struct watched_heap *heaps_at(const struct heaps *h, size_t number)
{
	struct followed_heap *f = (struct followed_heap *)&h->followed[number];

	if (f->session)
		f->is.losses = memprof_losses(f->session, false);
	return &f->is;
}

/* ---- results --------------------------------------------------------------------------------- */

static bool is_chosen(const struct followed_heap *f, const struct record_filter *filter)
{
	return f->session && record_filter_has(filter, f->exe, f->is.pid);
}

int heaps_sites(struct heaps *h, const struct record_filter *filter, bool by_leaf,
		struct heap_site **sites, size_t *n)
{
	const struct heap_sites_order order = { .by_live = true, .by_leaf = by_leaf };
	struct heap_site *all = NULL;
	int err = 0;

	*sites = NULL;
	*n = 0;
	for (size_t i = 0; i < h->n && !err; i++) {
		const struct followed_heap *f = &h->followed[i];
		struct heap_site *its = NULL, *grown;
		size_t n_its;

		if (!is_chosen(f, filter))
			continue;
		err = heap_sites(h->ctx, f->heap, f->names, order, &its, &n_its);
		if (err)
			break;
		grown = reallocarray(all, *n + n_its + 1, sizeof(*all));
		if (grown) {
			all = grown;
			memcpy(all + *n, its, n_its * sizeof(*all));
			*n += n_its;
		} else {
			err = ctx_no_memory(h->ctx);
		}
		free(its);
	}
	if (err) {
		free(all);
		*n = 0;
		return err;
	}
	heap_sites_merge(all, n, order.by_live);
	*sites = all;
	return 0;
}

int heaps_mark(const struct heaps *h, struct heaps_mark *mark)
{
	int err = 0;

	*mark = (struct heaps_mark){ .start_ns = (uint64_t)clock_ns(CLOCK_REALTIME) };
	for (size_t i = 0; i < h->n && !err; i++) {
		if (!h->followed[i].session)
			continue;
		mark->of[mark->n].number = h->followed[i].number;
		err = heap_mark(h->followed[i].heap, &mark->of[mark->n].mark);
		mark->n += !err;
	}
	if (err)
		heaps_mark_free(mark);
	return err;
}

void heaps_mark_free(struct heaps_mark *mark)
{
	for (size_t i = 0; i < mark->n; i++)
		heap_mark_free(&mark->of[i].mark);
	*mark = (struct heaps_mark){ 0 };
}

/* ---- comments -------------------------------------------------------------------------------- */

static void write_start_comment(FILE *to, const struct watched_heap *is)
{
	const time_t start = (time_t)(is->since_ns / 1000000000);
	char when[32];
	struct tm tm;

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&start, &tm));
	if (is->state == HEAP_ASKED)
		fprintf(to, "pid %d: the profile has not started: the program waits\n",
			(int)is->pid);
	else
		fprintf(to,
			"pid %d: profiled since %s; blocks that were allocated before are not "
			"included\n",
			(int)is->pid, when);
}

static void say_losses(FILE *to, const struct watched_heap *is)
{
	const struct memprof_losses *losses = &is->losses;
	const struct heap_totals totals = heap_totals(is->heap);
	const uint64_t allocations =
		losses->events[MEMPROF_ALLOC_MINOR] + losses->events[MEMPROF_ALLOC_MAJOR];
	const uint64_t frees =
		losses->events[MEMPROF_DEALLOC_MINOR] + losses->events[MEMPROF_DEALLOC_MAJOR];
	const int pid = (int)is->pid;

	if (allocations)
		fprintf(to, "pid %d: %" PRIu64 " allocations were lost, with %" PRIu64 " samples\n",
			pid, allocations, losses->samples);
	if (frees)
		fprintf(to,
			"pid %d: %" PRIu64 " frees were lost: up to that many freed blocks "
			"still count as alive\n",
			pid, frees);
	if (totals.left_out)
		fprintf(to, "pid %d: %" PRIu64 " blocks were not followed: too many are alive\n",
			pid, totals.left_out);
	if (totals.other_stacks)
		fprintf(to, "pid %d: %" PRIu64 " blocks have no call stack: there are too many\n",
			pid, totals.other_stacks);
	if (losses->forks)
		fprintf(to, "pid %d: %" PRIu64 " forks: its numbers exclude the children\n", pid,
			losses->forks);
	if (losses->is_false)
		fprintf(to, "pid %d: has damaged the counts of lost events: they are not known\n",
			pid);
	if (losses->is_damaged)
		fprintf(to, "pid %d: has damaged the ring of events: the rest is missing\n", pid);
}

/* Write a line for each domain that has refused the profile, with the reason. */
static void say_refusals(FILE *to, const struct followed_heap *f)
{
	for (size_t i = 0; i < f->answers.n_refused; i++)
		fprintf(to, "pid %d: no events of domain %" PRIu32 ": %s\n", (int)f->is.pid,
			f->answers.refused[i], f->answers.refusal);
}

static int write_comments(struct heaps *h, const struct record_filter *filter, char **text)
{
	size_t bytes;
	FILE *to = open_memstream(text, &bytes);

	if (!to)
		return ctx_no_memory(h->ctx);
	for (size_t i = 0; i < h->n; i++) {
		const struct watched_heap *is = heaps_at(h, i);

		if (!record_filter_has(filter, is->exe, is->pid))
			continue;
		if (is->heap) {
			write_start_comment(to, is);
			say_losses(to, is);
			say_refusals(to, &h->followed[i]);
		}
		if (is->problem[0])
			fprintf(to, "not profiled: %s\n", is->problem);
	}
	if (h->n_above)
		fprintf(to, "%zu more process%s: not profiled; the limit is %d\n", h->n_above,
			plural_es(h->n_above), HEAPS_MAX);
	return fclose(to) == 0 ? 0 : ctx_no_memory(h->ctx);
}

/* ---- profiles -------------------------------------------------------------------------------- */

/*
 * Return 0 if one of the processes that match FILTER is profiled or has merely ended, or if no
 * process matches. Otherwise, record and return the error of the first matching process.
 */
static int check_any_profiled(struct heaps *h, const struct record_filter *filter)
{
	const struct watched_heap *first = NULL;

	for (size_t i = 0; i < h->n; i++) {
		const struct watched_heap *is = &h->followed[i].is;

		if (!record_filter_has(filter, is->exe, is->pid))
			continue;
		if (is->heap || !is->err || is->err == -ESRCH)
			return 0;
		first = first ? first : is;
	}
	if (!first)
		return 0;
	ctx_set_error(h->ctx, "%s", first->problem);
	if (first->hint[0])
		ctx_hint(h->ctx, "%s", first->hint);
	return first->err;
}

static int take_one(struct heaps *h, const struct followed_heap *f, const struct heaps_mark *mark,
		    struct process_profile *to)
{
	const uint64_t now_ns = (uint64_t)clock_ns(CLOCK_REALTIME);
	const struct heap_mark *then = NULL;
	int err;

	for (size_t i = 0; i < mark->n; i++)
		if (mark->of[i].number == f->number)
			then = &mark->of[i].mark;
	err = heap_profile_since(h->ctx, f->heap, f->names, h->rate, then, &to->profile);
	if (err)
		return err;
	to->exe = f->exe;
	to->pid = f->is.pid;
	to->profile.is_live = true;
	to->profile.start_ns = mark->start_ns ? mark->start_ns : f->is.since_ns;
	to->profile.duration_ns = now_ns > to->profile.start_ns ? now_ns - to->profile.start_ns : 0;
	return 0;
}

int heaps_take(struct heaps *h, const struct record_filter *filter, const struct heaps_mark *mark,
	       struct process_profile **list, size_t *n)
{
	struct process_profile *all;
	int err = check_any_profiled(h, filter);

	if (err)
		return err;
	*n = 0;
	all = calloc(HEAPS_MAX + 1, sizeof(*all));
	if (!all)
		return ctx_no_memory(h->ctx);
	for (size_t i = 0; i < h->n && !err; i++) {
		if (!is_chosen(&h->followed[i], filter))
			continue;
		err = take_one(h, &h->followed[i], mark, &all[*n]);
		*n += !err;
	}
	if (!*n)
		all[(*n)++].profile = (struct profile){ .kind = PROFILE_WORDS,
							.has_heap = true,
							.is_live = true,
							.word_period = (uint64_t)(1 / h->rate) };
	if (!err)
		err = write_comments(h, filter, &all->profile.comments);
	if (err) {
		process_profiles_free(all, *n);
		return err;
	}
	*list = all;
	return 0;
}
