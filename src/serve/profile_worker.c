// SPDX-License-Identifier: MIT
#include "serve/profile_worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "profile/formats/flame_json.h"
#include "profile/formats/pprof_writer.h"
#include "serve/request.h"

/* ---- the figures of Gc.Memprof -------------------------------------------------------------- */

void heap_figures_write(struct strbuf *out, struct heaps *heaps)
{
	const double rate = heaps_rate(heaps);
	size_t n;
	const struct heap_program *programs = heaps_programs(heaps, &n);

	for (size_t i = 0; i < n; i++) {
		const struct heap_program *p = &programs[i];
		const struct heap_figures figures = {
			.processes = p->n_processes,
			.live_words = (uint64_t)((double)p->live / rate),
			.allocated_words = (uint64_t)((double)p->samples / rate),
			.lost_events = p->lost_allocations + p->lost_frees + p->left_out,
		};

		strbuf_add(out, (const char *)&figures, sizeof(figures));
		strbuf_add(out, p->exe, strlen(p->exe) + 1);
	}
}

bool heap_figures_next(const char **at, const char *end, struct heap_figures *figures,
		       const char **exe)
{
	const char *name = *at + sizeof(*figures), *zero;

	if (end - *at <= (ptrdiff_t)sizeof(*figures))
		return false;
	zero = memchr(name, 0, (size_t)(end - name));
	if (!zero)
		return false;
	memcpy(figures, *at, sizeof(*figures));
	*exe = name;
	*at = zero + 1;
	return true;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Answer the order with this ID. If the channel has failed, exit. */
static void send_answer(struct profile_worker *w, uint64_t id, unsigned int status,
			const struct strbuf *body)
{
	if (channel_answer(w->fd, id, status, body) != 0)
		exit(EXIT_FAILURE);
}

/* Answer the order ID with ERR, the error recorded in the context. */
static void send_error(struct profile_worker *w, uint64_t id, int err)
{
	struct http_reply reply = { 0 };

	http_error(&reply, w->kind->status_of(err), ocp_error(w->ctx), ocp_hint(w->ctx));
	send_answer(w, id, reply.status, &reply.body);
	strbuf_free(&reply.body);
}

static struct profiling_numbers numbers_of(const struct process_profile *list, size_t n)
{
	struct profiling_numbers numbers = { 0 };

	for (size_t i = 0; i < n; i++) {
		numbers.samples += list[i].profile.samples;
		numbers.truncated += list[i].profile.truncated;
		numbers.lost += list[i].profile.lost;
	}
	return numbers;
}

int profile_worker_add(struct profile_worker *w, struct process_profile *list, size_t n,
		       const char *title, struct strbuf *body)
{
	const struct profiling_numbers numbers = numbers_of(list, n);
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	int err = to ? 0 : ctx_no_memory(w->ctx);

	if (!err)
		err = title ? flame_json_write(w->ctx, &list->profile,
					       &(struct flame_form){ .title = title }, to)
			    : pprof_write_all(w->ctx, list, n, to);
	process_profiles_free(list, n);
	if (to && fclose(to) != 0 && !err)
		err = ctx_no_memory(w->ctx);
	strbuf_add(body, (const char *)&numbers, sizeof(numbers));
	if (!err)
		strbuf_add(body, text, bytes);
	free(text);
	return err;
}

/* Answer the order of JOB with the profile so far. */
static void answer_job(struct profile_worker *w, const struct profile_job *job)
{
	struct strbuf body = { 0 };
	int err = w->kind->answer(w, job, &body);

	if (!err && body.is_short)
		err = ctx_no_memory(w->ctx);
	if (err)
		send_error(w, job->id, err);
	else
		send_answer(w, job->id, 0, &body);
	strbuf_free(&body);
}

/* ---- orders --------------------------------------------------------------------------------- */

static struct profile_job *job_with_id(struct profile_worker *w, uint64_t id)
{
	for (size_t i = 0; i < PROFILE_WORKER_JOBS; i++)
		if (w->jobs[i].id == id)
			return &w->jobs[i];
	return NULL;
}

static void end_job(struct profile_worker *w, struct profile_job *job)
{
	w->kind->end(w, job);
	free(job->exe);
	*job = (struct profile_job){ 0 };
}

static int begin_job(struct profile_worker *w, struct profile_job *job)
{
	const char *exe = w->asked.bytes + sizeof(job->take);
	int err;

	job->id = w->asked.id;
	memcpy(&job->take, w->asked.bytes, sizeof(job->take));
	if (*exe && !(job->exe = strdup(exe)))
		return ctx_no_memory(w->ctx);
	job->filter = (struct record_filter){ .exe = job->exe, .pid = job->take.pid };
	err = w->kind->begin(w, job);
	job->end_ms = clock_ms() + (int64_t)job->take.seconds * 1000;
	return err;
}

static void on_take(struct profile_worker *w)
{
	struct profile_job *job = job_with_id(w, 0);
	int err = job ? begin_job(w, job) : ctx_error(w->ctx, -EBUSY, "too many profiles");

	if (err)
		send_error(w, w->asked.id, err);
	else if (job->take.seconds)
		return;
	else
		answer_job(w, job);
	if (job)
		end_job(w, job);
}

static void on_cancel(struct profile_worker *w)
{
	struct profile_job *job = job_with_id(w, w->asked.id);

	if (!job)
		return;
	send_answer(w, job->id, HTTP_CANCELLED, &(struct strbuf){ 0 });
	end_job(w, job);
}

/*
 * Replace the list of processes by the one in the message: a pid_t and a path for each process. If
 * out of memory, keep the old list.
 */
static void on_follow(struct profile_worker *w)
{
	const size_t n = w->asked.n;
	char *names = malloc(n + 1);
	size_t at = 0;

	if (!names)
		return;
	memcpy(names, w->asked.bytes, n);
	names[n] = '\0';
	free(w->names);
	w->names = names;
	for (w->n_processes = 0; w->n_processes < RECORDER_MAX_PROCESSES; w->n_processes++) {
		struct recorded_process *process = &w->processes[w->n_processes];

		if (at + sizeof(process->pid) >= n)
			break;
		memcpy(&process->pid, names + at, sizeof(process->pid));
		process->exe = names + at + sizeof(process->pid);
		at += sizeof(process->pid) + strlen(process->exe) + 1;
	}
	w->kind->follow(w);
}

/* Execute the orders that have arrived. Return false if the channel has ended or failed. */
static bool take_orders(struct profile_worker *w)
{
	int err;

	while ((err = channel_take(w->fd, &w->asked)) == 0) {
		if ((int)w->asked.ask == PROFILING_TAKE)
			on_take(w);
		else if ((int)w->asked.ask == PROFILING_FOLLOW)
			on_follow(w);
		else
			on_cancel(w);
	}
	return err == -EAGAIN;
}

/* ---- the process ---------------------------------------------------------------------------- */

/* Answer the jobs whose time is over. Return the time until the next job ends, at most WAIT_MS. */
static int end_jobs(struct profile_worker *w, int wait_ms)
{
	int64_t next_ms = clock_ms() + wait_ms, now_ms;

	for (size_t i = 0; i < PROFILE_WORKER_JOBS; i++) {
		struct profile_job *job = &w->jobs[i];

		if (!job->id)
			continue;
		if (job->end_ms <= clock_ms()) {
			answer_job(w, job);
			end_job(w, job);
		} else if (job->end_ms < next_ms) {
			next_ms = job->end_ms;
		}
	}
	now_ms = clock_ms();
	return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

static void take_profiles(struct profile_worker *w)
{
	int64_t refresh_ms = clock_ms() + PROFILE_WORKER_MS;

	for (;;) {
		const int wait_ms = w->kind->wait_ms ? w->kind->wait_ms(w) : PROFILE_WORKER_MS;

		poll(&(struct pollfd){ .fd = w->fd, .events = POLLIN }, 1, end_jobs(w, wait_ms));
		if (w->kind->read)
			w->kind->read(w);
		if (!take_orders(w))
			return;
		if (clock_ms() < refresh_ms)
			continue;
		w->kind->refresh(w);
		refresh_ms = clock_ms() + PROFILE_WORKER_MS;
	}
}

/*
 * Close all descriptors except FD and stderr (0 and 1 become /dev/null), and let the kernel kill
 * this process when PARENT ends. -ESRCH if PARENT has ended already.
 */
static int begin_child(struct ocp_ctx *ctx, pid_t parent, int fd, const char *name)
{
	const int err = confine_close_files(ctx, &fd, 1);

	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return getppid() != parent ? -ESRCH : err;
}

int profile_worker_run(const struct profile_worker_kind *kind, struct ocp_ctx *ctx, pid_t parent,
		       int fd, double rate)
{
	struct profile_worker *w = calloc(1, sizeof(*w));
	int err = begin_child(ctx, parent, fd, kind->name);

	if (!err && !w)
		err = ctx_no_memory(ctx);
	if (!err) {
		w->ctx = ctx;
		w->fd = fd;
		w->kind = kind;
		w->rate = rate;
		err = kind->open(w);
	}
	server_child_report(ctx, fd, err);
	if (!err) {
		take_profiles(w);
		for (size_t i = 0; i < PROFILE_WORKER_JOBS; i++)
			end_job(w, &w->jobs[i]);
		kind->close(w);
		free(w->names);
	}
	free(w);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
