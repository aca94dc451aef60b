// SPDX-License-Identifier: MIT
/*
 * The process that runs Gc.Memprof in the measured programs. It reads the events of Gc.Memprof all
 * the time, and answers requests with the profile so far. Each second it sends the message of
 * heap_figures_write().
 */
#include "serve/profile_worker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/api.h"
#include "serve/json.h"
#include "serve/request.h"

enum {
	SHOWN_SITES = 25,
	READ_MS = 20, /* how often events are read while a program is profiled */
};

struct heap_worker {
	struct heaps *heaps;
	bool has_more; /* more events may be waiting */
};

static struct heaps *heaps_of(const struct profile_worker *w)
{
	return ((const struct heap_worker *)w->own)->heaps;
}

/* ---- the allocation sites as JSON, for the page ------------------------------------------- */

static uint64_t words(const struct heaps *heaps, uint64_t samples)
{
	return (uint64_t)((double)samples / heaps_rate(heaps));
}

static void add_heap_process(struct json *j, const struct watched_heap *is)
{
	static const char *const states[] = {
		[HEAP_NONE] = "none", [HEAP_ASKED] = "waiting", [HEAP_RUNS] = "running"
	};

	json_open(j, "{");
	json_u64(j, "pid", (uint64_t)is->pid);
	json_text(j, "exe", is->exe);
	json_text(j, "state", states[is->state]);
	if (is->state == HEAP_RUNS)
		json_scaled(j, "since", is->since_ns / 1000000, 3);
	else
		json_null(j, "since");
	json_text(j, "problem", is->problem[0] ? is->problem : NULL);
	json_text(j, "hint", is->hint[0] ? is->hint : NULL);
	json_close(j, "}");
}

struct sums {
	uint64_t samples, live, blocks, live_blocks;
	uint64_t lost_allocations, lost_samples, lost_frees, left_out;
};

static void add_to_heap_sums(struct sums *sums, const struct watched_heap *is)
{
	const struct heap_totals totals = heap_totals(is->heap);
	const uint64_t *events = is->losses.events;

	sums->samples += totals.samples;
	sums->live += totals.live_samples;
	sums->blocks += totals.blocks;
	sums->live_blocks += totals.live_blocks;
	sums->left_out += totals.left_out;
	sums->lost_samples += is->losses.samples;
	sums->lost_allocations += events[MEMPROF_ALLOC_MINOR] + events[MEMPROF_ALLOC_MAJOR];
	sums->lost_frees += events[MEMPROF_DEALLOC_MINOR] + events[MEMPROF_DEALLOC_MAJOR];
}

static struct sums add_heap_processes(struct json *j, struct heaps *heaps,
				      const struct record_filter *filter)
{
	struct sums sums = { 0 };

	json_open_member(j, "processes", "[");
	for (size_t i = 0; i < heaps_count(heaps); i++) {
		const struct watched_heap *is = heaps_at(heaps, i);

		if (!record_filter_has(filter, is->exe, is->pid))
			continue;
		add_heap_process(j, is);
		if (is->heap)
			add_to_heap_sums(&sums, is);
	}
	json_close(j, "]");
	return sums;
}

static void add_sums(struct json *j, const struct heaps *heaps, const struct sums *sums)
{
	json_u64(j, "live_words", words(heaps, sums->live));
	json_u64(j, "allocated_words", words(heaps, sums->samples));
	json_u64(j, "live_samples", sums->live_blocks);
	json_u64(j, "allocated_samples", sums->blocks);
	json_open_member(j, "losses", "{");
	json_u64(j, "allocations", sums->lost_allocations);
	json_u64(j, "words", words(heaps, sums->lost_samples));
	json_u64(j, "frees", sums->lost_frees);
	json_u64(j, "not_followed", sums->left_out);
	json_close(j, "}");
}

static void add_heap_site(struct json *j, const struct heaps *heaps, const struct heap_site *site)
{
	const struct named_frame *frame = site->frame;

	json_line(j);
	json_open(j, "{");
	json_text(j, "function", frame->function);
	json_text(j, "file", frame->line ? frame->file : NULL);
	if (frame->file && frame->line)
		json_u64(j, "line", frame->line);
	else
		json_null(j, "line");
	json_text(j, "via", site->via ? site->via->function : NULL);
	json_u64(j, "live_words", words(heaps, site->sum.live_samples));
	json_u64(j, "allocated_words", words(heaps, site->sum.samples));
	json_close(j, "}");
}

/*
 * Write a JSON object with the processes that match FILTER, the sums of their figures, and the
 * first SHOWN_SITES of their allocation sites. If BY_LEAF, the sites are the innermost frames.
 * Return 0 or -ENOMEM.
 */
static int write_heap_json(struct strbuf *out, struct heaps *heaps,
			   const struct record_filter *filter, bool by_leaf)
{
	struct json j = { .out = out };
	struct heap_site *sites;
	struct sums sums;
	size_t n;
	int err = heaps_sites(heaps, filter, by_leaf, &sites, &n);

	if (err)
		return err;
	json_open(&j, "{");
	json_u64(&j, "version", API_VERSION);
	json_scaled(&j, "time", (uint64_t)clock_ns(CLOCK_REALTIME) / 1000000, 3);
	json_real(&j, "rate", heaps_rate(heaps), 9);
	sums = add_heap_processes(&j, heaps, filter);
	json_u64(&j, "above_limit", heaps_above(heaps));
	add_sums(&j, heaps, &sums);
	json_u64(&j, "n_sites", n);
	json_open_member(&j, "sites", "[");
	for (size_t i = 0; i < n && i < SHOWN_SITES; i++)
		add_heap_site(&j, heaps, &sites[i]);
	strbuf_lit(out, "]}\n");
	free(sites);
	return 0;
}

/* ---- the work ------------------------------------------------------------------------------- */

static int begin_heap_profile(struct profile_worker *w, struct profile_job *job)
{
	return job->take.seconds ? heaps_mark(heaps_of(w), &job->heaps_mark) : 0;
}

static void end_heap_profile(struct profile_worker *w, struct profile_job *job)
{
	(void)w;
	heaps_mark_free(&job->heaps_mark);
}

static int answer_heap_profile(struct profile_worker *w, const struct profile_job *job,
			       struct strbuf *body)
{
	struct process_profile *list;
	size_t n;
	int err;

	if (job->take.is_flame) {
		const struct profiling_numbers none = { 0 };

		strbuf_add(body, (const char *)&none, sizeof(none));
		return write_heap_json(body, heaps_of(w), &job->filter, job->take.by_leaf);
	}
	err = heaps_take(heaps_of(w), &job->filter, &job->heaps_mark, &list, &n);
	if (!err)
		return profile_worker_add(w, list, n, NULL, body);
	if (err == -ENODATA)
		ctx_hint(w->ctx, "/debug/pprof/allocs and `ocaml-probes profile --alloc` need no "
				 "library");
	return err;
}

static void follow_heap_processes(struct profile_worker *w)
{
	if (heaps_follow(heaps_of(w), w->processes, w->n_processes) != 0)
		exit(EXIT_FAILURE);
}

static unsigned int heap_profile_status(int err)
{
	if (err == -ENODATA || err == -EOPNOTSUPP)
		return HTTP_NOT_IMPLEMENTED;
	return err == -ENOMEM || err == -EPROTO ? HTTP_SERVER_ERROR : HTTP_UNAVAILABLE;
}

static void read_heaps(struct profile_worker *w)
{
	struct heap_worker *own = w->own;

	if (heaps_read(own->heaps, &own->has_more) != 0)
		exit(EXIT_FAILURE);
}

/* Return how long to wait: only a short time if any process has a profiling session. */
static int heap_wait_ms(const struct profile_worker *w)
{
	const struct heap_worker *own = w->own;

	if (own->has_more)
		return 0;
	for (size_t i = 0; i < heaps_count(own->heaps); i++)
		if (heaps_at(own->heaps, i)->heap)
			return READ_MS;
	return PROFILE_WORKER_MS;
}

/*
 * Send the current figures. Ignore errors: if the measuring process is busy now, it gets the next
 * figures.
 */
static void send_news(struct profile_worker *w)
{
	struct strbuf news = { 0 };

	follow_heap_processes(w);
	heap_figures_write(&news, heaps_of(w));
	if (!news.is_short)
		channel_answer(w->fd, 0, 0, &news);
	strbuf_free(&news);
}

static int open_heaps(struct profile_worker *w)
{
	struct heap_worker *own = calloc(1, sizeof(*own));
	int err = own ? heaps_new(w->ctx, w->rate, &own->heaps) : ctx_no_memory(w->ctx);

	if (err)
		free(own);
	else
		w->own = own;
	return err;
}

static void close_heaps(struct profile_worker *w)
{
	heaps_free(heaps_of(w));
	free(w->own);
}

int heap_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate)
{
	static const struct profile_worker_kind kind = {
		.name = "probes-memprof",
		.open = open_heaps,
		.close = close_heaps,
		.follow = follow_heap_processes,
		.begin = begin_heap_profile,
		.end = end_heap_profile,
		.answer = answer_heap_profile,
		.status_of = heap_profile_status,
		.read = read_heaps,
		.wait_ms = heap_wait_ms,
		.refresh = send_news,
	};

	return profile_worker_run(&kind, ctx, parent, fd, rate);
}
