// SPDX-License-Identifier: MIT
#include "serve/heap_child.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "memprof/heaps.h"
#include "profile/formats/pprof_writer.h"
#include "serve/channel.h"
#include "serve/heap_figures.h"
#include "serve/heap_json.h"
#include "serve/process_list.h"
#include "serve/profile_taker.h"

enum {
	MAX_JOBS = 32,
	READ_MS = 20, /* how often events are read while a program is profiled */
	SECOND_MS = 1000,
	FAILED = 500,
	NOT_IMPLEMENTED = 501,
	UNAVAILABLE = 503,
};

/* A request for a profile over some seconds. It is answered at end_ms. */
struct heap_job {
	uint64_t id; /* 0: unused */
	struct record_filter filter;
	char *exe; /* owned; filter.exe points to it */
	int64_t end_ms;
	struct heaps_mark mark;
};

struct heap_worker {
	struct ocp_ctx *ctx;
	int fd;
	struct heaps *heaps;
	struct heap_job jobs[MAX_JOBS];
	struct process_list processes;
	struct asked asked;
};

/* ---- answers -------------------------------------------------------------------------------- */

static void send_error(struct heap_worker *c, uint64_t id, int err)
{
	const bool is_bare = err == -ENODATA;
	const unsigned int status = is_bare || err == -EOPNOTSUPP      ? NOT_IMPLEMENTED
				    : err == -ENOMEM || err == -EPROTO ? FAILED
								       : UNAVAILABLE;
	const char *hint =
		is_bare ? "/debug/pprof/allocs and `ocaml-probes profile --alloc` need no library"
			: ocp_hint(c->ctx);

	taker_answer_error(c->ctx, c->fd, id, status, hint);
}

static struct profiling_numbers numbers_of(const struct process_profile *list, size_t n)
{
	struct profiling_numbers numbers = { 0 };

	for (size_t i = 0; i < n; i++)
		numbers.samples += list[i].profile.samples;
	return numbers;
}

/* The profiles of some processes. */
struct profiles {
	struct process_profile *list;
	size_t n;
};

static int write_heap_pprof(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct profiles *profiles = data;

	return pprof_write_all(ctx, profiles->list, profiles->n, to);
}

static void answer_pprof(struct heap_worker *c, uint64_t id, const struct record_filter *filter,
			 const struct heaps_mark *mark)
{
	struct profiles profiles;
	struct strbuf body = { 0 };
	int err = heaps_take(c->heaps, filter, mark, &profiles.list, &profiles.n);

	if (!err) {
		const struct profiling_numbers numbers = numbers_of(profiles.list, profiles.n);

		err = taker_add_body(c->ctx, &numbers, write_heap_pprof, &profiles, &body);
		process_profiles_free(profiles.list, profiles.n);
	}
	if (err)
		send_error(c, id, err);
	else
		taker_answer(c->fd, id, 0, &body);
	strbuf_free(&body);
}

static void answer_json(struct heap_worker *c, uint64_t id, const struct record_filter *filter)
{
	const struct profiling_numbers none = { 0 };
	struct strbuf body = { 0 };
	int err;

	strbuf_add(&body, (const char *)&none, sizeof(none));
	err = heap_json_write(&body, c->heaps, filter);
	if (!err && body.is_short)
		err = ctx_no_memory(c->ctx);
	if (err)
		send_error(c, id, err);
	else
		taker_answer(c->fd, id, 0, &body);
	strbuf_free(&body);
}

/* ---- orders --------------------------------------------------------------------------------- */

static void end_job(struct heap_job *job)
{
	heaps_mark_free(&job->mark);
	free(job->exe);
	*job = (struct heap_job){ 0 };
}

static struct heap_job *find_job(struct heap_worker *c, uint64_t id)
{
	for (size_t i = 0; i < MAX_JOBS; i++)
		if (c->jobs[i].id == id)
			return &c->jobs[i];
	return NULL;
}

/* Start a job for the order TAKE, which will be answered after take->seconds. */
static int start_heap_job(struct heap_worker *c, const struct profiling_take *take, const char *exe)
{
	struct heap_job *job = find_job(c, 0);

	if (!job)
		return ctx_error(c->ctx, -EBUSY, "too many profiles");
	job->exe = *exe ? strdup(exe) : NULL;
	if (*exe && !job->exe)
		return ctx_no_memory(c->ctx);
	job->id = c->asked.id;
	job->filter = (struct record_filter){ .exe = job->exe, .pid = take->pid };
	job->end_ms = clock_ms() + (int64_t)take->seconds * 1000;
	return heaps_mark(c->heaps, &job->mark);
}

static void on_take(struct heap_worker *c)
{
	const char *exe = c->asked.bytes + sizeof(struct profiling_take);
	const struct heaps_mark all = { 0 };
	struct record_filter filter = { .exe = *exe ? exe : NULL };
	struct profiling_take take;
	struct heap_job *job;
	int err;

	memcpy(&take, c->asked.bytes, sizeof(take));
	filter.pid = take.pid;
	if (take.is_flame) {
		answer_json(c, c->asked.id, &filter);
	} else if (!take.seconds) {
		answer_pprof(c, c->asked.id, &filter, &all);
	} else if ((err = start_heap_job(c, &take, exe)) != 0) {
		send_error(c, c->asked.id, err);
		job = find_job(c, c->asked.id);
		if (job)
			end_job(job);
	}
}

static void on_cancel(struct heap_worker *c)
{
	struct heap_job *job = find_job(c, c->asked.id);

	if (!job)
		return;
	taker_answer(c->fd, job->id, PROFILING_CANCELLED, &(struct strbuf){ 0 });
	end_job(job);
}

static void follow_heap_processes(struct heap_worker *c)
{
	if (heaps_follow(c->heaps, c->processes.of, c->processes.n) != 0)
		exit(EXIT_FAILURE);
}

/* Execute the orders that have arrived. Return false if the channel has ended or failed. */
static bool take_orders(struct heap_worker *c)
{
	int err;

	while ((err = channel_take(c->fd, &c->asked)) == 0) {
		if ((int)c->asked.ask == PROFILING_TAKE)
			on_take(c);
		else if ((int)c->asked.ask == PROFILING_CANCEL)
			on_cancel(c);
		else if (process_list_read(&c->processes, c->asked.bytes, c->asked.n))
			follow_heap_processes(c);
	}
	return err == -EAGAIN;
}

/* ---- the process ---------------------------------------------------------------------------- */

static void end_jobs(struct heap_worker *c)
{
	for (size_t i = 0; i < MAX_JOBS; i++) {
		struct heap_job *job = &c->jobs[i];

		if (!job->id || clock_ms() < job->end_ms)
			continue;
		answer_pprof(c, job->id, &job->filter, &job->mark);
		end_job(job);
	}
}

/*
 * Send the current figures. Ignore errors: if the measuring process is busy now, it gets the next
 * figures.
 */
static void send_news(struct heap_worker *c)
{
	struct strbuf news = { 0 };

	heap_figures_write(&news, c->heaps);
	if (!news.is_short)
		channel_answer(c->fd, 0, 0, &news);
	strbuf_free(&news);
}

/* Return true if any process has a profiling session. */
static bool is_reading(const struct heap_worker *c)
{
	for (size_t i = 0; i < heaps_count(c->heaps); i++)
		if (heaps_at(c->heaps, i)->heap)
			return true;
	return false;
}

static void run_heap_child(struct heap_worker *c)
{
	int64_t second_ms = clock_ms() + SECOND_MS;
	bool more = false;

	for (;;) {
		poll(&(struct pollfd){ .fd = c->fd, .events = POLLIN }, 1,
		     more	     ? 0
		     : is_reading(c) ? READ_MS
				     : SECOND_MS);
		if (heaps_read(c->heaps, &more) != 0)
			exit(EXIT_FAILURE);
		if (!take_orders(c))
			return;
		end_jobs(c);
		if (clock_ms() < second_ms)
			continue;
		follow_heap_processes(c);
		send_news(c);
		second_ms = clock_ms() + SECOND_MS;
	}
}

int heap_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate)
{
	struct heap_worker *c = calloc(1, sizeof(*c));
	int err = taker_begin(ctx, parent, fd, "probes-memprof");

	if (!err)
		err = c ? heaps_new(ctx, rate, &c->heaps) : ctx_no_memory(ctx);
	taker_report(ctx, fd, err);
	if (!err) {
		c->ctx = ctx;
		c->fd = fd;
		run_heap_child(c);
	}
	for (size_t i = 0; c && i < MAX_JOBS; i++)
		end_job(&c->jobs[i]);
	if (c) {
		heaps_free(c->heaps);
		process_list_free(&c->processes);
	}
	free(c);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
