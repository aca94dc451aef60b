// SPDX-License-Identifier: MIT
/*
 * Sum up the work of the garbage collector in the processes of a target. Each process is opened
 * once, which includes reading its executable; later ticks read only some kilobytes of its memory,
 * in microseconds. A new process is not opened at its first tick but at the next one, since many
 * processes exit soon after their start.
 */
#include "watch/collector.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "process/gc_gauges.h"

enum {
	MAX_COLLECTED = 256,
	MAX_OPENS = 8,	 /* maximum number of processes to open in one tick */
	REST_TICKS = 30, /* ticks before an unreadable process is tried again */
	FOR_EVER = INT_MAX,
};

/* One process of the target. */
struct collected {
	pid_t pid;
	struct gc_reader *reader; /* NULL: not readable, or not opened yet */
	int rest;		  /* ticks until the next attempt to open the process */
	bool is_listed;		  /* the process belongs to the target now */
	bool has_figures, had_tick;
	bool has_compactions, has_words;
	struct collector_sums now, at_tick;
	uint64_t heap_words, top_heap_words;
};

/* ---- one process ---------------------------------------------------------------------------- */

static void raise_sum(uint64_t *sum, double value)
{
	if (value > (double)*sum)
		*sum = (uint64_t)value;
}

/*
 * Update the figures of PROCESS. Its sums never decrease, even if a read missed the latest changes.
 */
static void update_collected(struct collected *process, const struct gc_gauges *gauges)
{
	const struct gc_words *words = &gauges->words;
	struct collector_sums *now = &process->now;

	process->has_words = !gauges->lacks_ended_domains;
	if (process->has_words) {
		raise_sum(&now->minor_words, words->minor);
		raise_sum(&now->promoted_words, words->promoted);
		raise_sum(&now->major_words, words->major);
		raise_sum(&now->allocated_words, words->minor + words->major - words->promoted);
	}
	raise_sum(&now->minor_collections, (double)gauges->minor_collections);
	raise_sum(&now->major_collections, (double)gauges->major_collections);
	raise_sum(&now->compactions, (double)gauges->compactions);
	process->has_compactions = gauges->has_compactions;
	process->heap_words = words->heap;
	process->top_heap_words = words->top_heap;
	process->has_figures = true;
}

static void add_collector_sums(struct collector_sums *to, const struct collector_sums *from)
{
	to->minor_words += from->minor_words;
	to->promoted_words += from->promoted_words;
	to->major_words += from->major_words;
	to->allocated_words += from->allocated_words;
	to->minor_collections += from->minor_collections;
	to->major_collections += from->major_collections;
	to->compactions += from->compactions;
}

/*
 * Call this when PROCESS has ended or has executed another program: add its sums to the sums of
 * ended processes.
 */
static void end_process(struct collector *collector, struct collected *process)
{
	gc_reader_free(process->reader);
	if (process->has_figures)
		add_collector_sums(&collector->ended, &process->now);
	*process = (struct collected){ .pid = process->pid,
				       .rest = 1,
				       .is_listed = process->is_listed };
}

static void read_process(struct collector *collector, struct collected *process)
{
	struct gc_gauges gauges;
	int err;

	if (!process->reader)
		return;
	err = gc_reader_read(process->reader, &gauges);
	if (!err)
		update_collected(process, &gauges);
	else if (err == -ESRCH)
		end_process(collector, process);
}

/* ---- all of them ---------------------------------------------------------------------------- */

void collector_free(struct collector *collector)
{
	for (size_t i = 0; i < collector->n; i++)
		gc_reader_free(collector->processes[i].reader);
	free(collector->processes);
	*collector = (struct collector){ 0 };
}

/*
 * Mark PROCESS as no longer listed, but keep it as long as it runs. Otherwise, if it were listed
 * again later, its work would be counted twice. Return whether PROCESS is kept.
 */
static bool park(struct collector *collector, struct collected *process)
{
	process->is_listed = false;
	read_process(collector, process);
	return process->reader != NULL;
}

/*
 * Replace the list by PIDS and the processes that are no longer in PIDS but still run. Keep the
 * data of old processes.
 */
static int take_over(struct ocp_ctx *ctx, struct collector *collector, const pid_t *pids, size_t n)
{
	struct collected *now = calloc(n + collector->n + 1, sizeof(*now));
	size_t old = 0, n_now = 0;

	if (!now)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i <= n; i++) {
		for (; old < collector->n && (i == n || collector->processes[old].pid < pids[i]);
		     old++)
			if (park(collector, &collector->processes[old]))
				now[n_now++] = collector->processes[old];
		if (i == n)
			break;
		if (old < collector->n && collector->processes[old].pid == pids[i])
			now[n_now] = collector->processes[old++];
		else
			now[n_now] = (struct collected){ .pid = pids[i], .rest = 1 };
		now[n_now++].is_listed = true;
	}
	free(collector->processes);
	collector->processes = now;
	collector->n = n_now;
	return 0;
}

/*
 * Return the number of ticks to wait before a process is opened again, if opening it failed with
 * ERR.
 */
static int rest_after(int err)
{
	if (err == -ENODATA || err == -EPROTONOSUPPORT || err == -ENOEXEC)
		return FOR_EVER; /* opening fails as long as the process runs this program */
	return err == -EAGAIN ? 1 : REST_TICKS;
}

int collector_follow(struct ocp_ctx *ctx, struct collector *collector, const pid_t *pids, size_t n)
{
	size_t n_opened = 0, n_open = 0;
	int err = take_over(ctx, collector, pids, n);

	for (size_t i = 0; !err && i < collector->n; i++)
		n_open += collector->processes[i].reader != NULL;
	for (size_t i = 0; !err && i < collector->n; i++) {
		struct collected *process = &collector->processes[i];

		if (process->reader || !process->is_listed || n_open >= MAX_COLLECTED ||
		    n_opened == MAX_OPENS)
			continue;
		if (process->rest) {
			process->rest -= process->rest != FOR_EVER;
			continue;
		}
		n_opened++;
		err = gc_reader_open(ctx, process->pid, &process->reader);
		if (!err) {
			n_open++;
			read_process(collector, process);
		} else {
			process->rest = rest_after(err);
		}
		err = err == -ENOMEM ? err : 0;
	}
	return err;
}

void collector_read(struct collector *collector, struct watch_gc *gc)
{
	struct collector_sums sums;

	for (size_t i = 0; i < collector->n; i++)
		read_process(collector, &collector->processes[i]);
	sums = collector->ended;
	gc->n_processes = 0;
	gc->heap_words = gc->top_heap_words = 0;
	gc->has_words = gc->has_compactions = true;
	for (size_t i = 0; i < collector->n; i++) {
		const struct collected *process = &collector->processes[i];

		if (!process->has_figures)
			continue;
		add_collector_sums(&sums, &process->now);
		if (!process->is_listed)
			continue;
		gc->n_processes++;
		gc->heap_words += process->heap_words;
		gc->top_heap_words += process->top_heap_words;
		gc->has_words &= process->has_words;
		gc->has_compactions &= process->has_compactions;
	}
	gc->minor_words = sums.minor_words;
	gc->promoted_words = sums.promoted_words;
	gc->major_words = sums.major_words;
	gc->allocated_words = sums.allocated_words;
	gc->minor_collections = sums.minor_collections;
	gc->major_collections = sums.major_collections;
	gc->compactions = sums.compactions;
	gc->is_known |= gc->n_processes != 0;
	if (!collector->had_tick)
		gc->minor_rate = gc->major_rate = gc->allocated_rate = gc->promoted_rate =
			gc->pause_share = NAN;
}

/* ---- rates ---------------------------------------------------------------------------------- */

/*
 * Return true if the times of PAIR are pauses of a thread for the garbage collector: the phases
 * gc:minor and gc:major_slice. Other phases contain these two phases, or are contained in them, so
 * adding their times would count pauses twice.
 */
static bool is_pause(const struct watch_pair *pair)
{
	return !*pair->stop &&
	       (strcmp(pair->start, "gc:minor") == 0 || strcmp(pair->start, "gc:major_slice") == 0);
}

/*
 * Return the time spent in pauses in the last tick, divided by the length of the tick; NAN if
 * pauses are not timed.
 */
static double pause_share(struct collector *collector, const struct watch_pair *pairs,
			  size_t n_pairs, int64_t dt_ns)
{
	const uint64_t before = collector->pause_ns_at_tick;
	bool is_timed = false;

	collector->pause_ns_at_tick = 0;
	for (size_t i = 0; i < n_pairs; i++)
		if (is_pause(&pairs[i])) {
			collector->pause_ns_at_tick += pairs[i].sum.sum_ns;
			is_timed = true;
		}
	if (!is_timed || !collector->had_tick)
		return NAN;
	return (double)(collector->pause_ns_at_tick - before) / (double)dt_ns;
}

void collector_tick(struct collector *collector, const struct watch_pair *pairs, size_t n_pairs,
		    int64_t dt_ns, struct watch_gc *gc)
{
	const double seconds = (double)dt_ns / 1e9;
	struct collector_sums grown = { 0 };
	bool is_known = false;

	/* Rates do not include what a process did before it was found. */
	for (size_t i = 0; i < collector->n; i++) {
		struct collected *process = &collector->processes[i];
		const struct collector_sums *now = &process->now, *before = &process->at_tick;

		if (process->has_figures && process->had_tick) {
			is_known = true;
			grown.allocated_words += now->allocated_words - before->allocated_words;
			grown.promoted_words += now->promoted_words - before->promoted_words;
			grown.minor_collections +=
				now->minor_collections - before->minor_collections;
			grown.major_collections +=
				now->major_collections - before->major_collections;
		}
		process->at_tick = process->now;
		process->had_tick = process->has_figures;
	}
	gc->minor_rate = is_known ? (double)grown.minor_collections / seconds : NAN;
	gc->major_rate = is_known ? (double)grown.major_collections / seconds : NAN;
	gc->allocated_rate =
		is_known && gc->has_words ? (double)grown.allocated_words / seconds : NAN;
	gc->promoted_rate =
		is_known && gc->has_words ? (double)grown.promoted_words / seconds : NAN;
	gc->pause_share = pause_share(collector, pairs, n_pairs, dt_ns);
	collector->had_tick = true;
}
