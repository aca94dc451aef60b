// SPDX-License-Identifier: MIT
#include "serve/profiling_child.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "profile/formats/flame_json.h"
#include "profile/formats/pprof_writer.h"
#include "serve/channel.h"
#include "serve/process_list.h"
#include "serve/profile_request.h"
#include "serve/profile_taker.h"

enum { MAX_JOBS = 32, MAX_RECORDERS = 6, REFRESH_MS = 1000, UNAVAILABLE = 503, FAILED = 500 };

/* How long an unused recorder is kept, since opening another recorder takes time. */
enum {
	KEEP_CPU_MS = 300000, /* an unused recorder of CPU time samples nothing */
	/* An unused recorder of allocations still slows the programs down by its traps. */
	KEEP_WORDS_MS = 5000,
	/* From time to time, clients read the totals since the recorder was opened. */
	KEEP_TOTALS_MS = 300000,
};

struct room {
	struct recorder *recorder; /* NULL: unused */
	enum profile_kind kind;
	unsigned int hz;
	size_t n_jobs;
	int64_t used_ms;
	/*
	 * A client has requested a profile of all that was recorded since the recorder was opened.
	 */
	bool has_totals;
	/* The recorder is stale: it takes no new jobs, and is closed after its last job. */
	bool is_old;
};

struct profile_job {
	uint64_t id;
	struct room *room; /* NULL: unused */
	struct record_filter filter;
	char *exe; /* owned; filter.exe points to it */
	bool is_flame;
	int64_t end_ms;
	struct record_mark mark;
};

struct profile_worker {
	struct ocp_ctx *ctx;
	int fd;
	struct room rooms[MAX_RECORDERS];
	struct profile_job jobs[MAX_JOBS];
	struct process_list processes;
	struct asked asked;
};

/* ---- recorders ------------------------------------------------------------------------------ */

/* Return true if the recorder of ROOM has to sample PROCESS, for a job or for its totals. */
static bool must_sample(const struct profile_worker *c, const struct room *room,
			const struct recorded_process *process)
{
	for (size_t i = 0; i < MAX_JOBS; i++)
		if (c->jobs[i].room == room &&
		    record_filter_has(&c->jobs[i].filter, process->exe, process->pid))
			return true;
	return room->has_totals;
}

static int follow_room_processes(struct profile_worker *c, struct room *room)
{
	struct recorded_process wanted[RECORDER_MAX_PROCESSES];
	size_t n = 0;

	for (size_t i = 0; i < c->processes.n; i++)
		if (must_sample(c, room, &c->processes.of[i]))
			wanted[n++] = c->processes.of[i];
	return recorder_follow(room->recorder, wanted, n);
}

static void close_room(struct room *room)
{
	recorder_close(room->recorder);
	*room = (struct room){ 0 };
}

static int open_room(struct profile_worker *c, const struct profiling_take *take, struct room **out)
{
	struct room *room = c->rooms;
	int err;

	while (room < c->rooms + MAX_RECORDERS && room->recorder)
		room++;
	if (room == c->rooms + MAX_RECORDERS)
		return ctx_error(c->ctx, -EBUSY, "too many profiles of different kinds");
	err = recorder_open(c->ctx, take->kind, take->hz, &room->recorder);
	if (err)
		return err;
	room->kind = take->kind;
	room->hz = take->hz;
	*out = room;
	return 0;
}

/*
 * Find a room whose recorder has the kind and frequency of TAKE, or open one. If the recorder of a
 * room is stale (recorder_is_worn), the room takes no more jobs, and is closed after its last job.
 */
static int find_room(struct profile_worker *c, const struct profiling_take *take, struct room **out)
{
	for (size_t i = 0; i < MAX_RECORDERS; i++) {
		struct room *room = &c->rooms[i];

		if (!room->recorder || room->is_old || room->kind != take->kind ||
		    room->hz != take->hz)
			continue;
		*out = room;
		if (!recorder_is_worn(room->recorder))
			return 0;
		room->is_old = true;
		if (!room->n_jobs)
			close_room(room);
	}
	return open_room(c, take, out);
}

static void leave_room(struct room *room)
{
	room->n_jobs--;
	room->used_ms = clock_ms();
	if (room->n_jobs)
		return;
	if (room->is_old)
		close_room(room);
	else if (room->kind == PROFILE_CPU)
		recorder_pause(room->recorder);
}

static int keep_ms(const struct room *room)
{
	if (room->kind == PROFILE_CPU)
		return KEEP_CPU_MS;
	return room->has_totals ? KEEP_TOTALS_MS : KEEP_WORDS_MS;
}

/*
 * Refresh the recorders, and close those that have been unused for too long. Called once a second.
 * Errors are ignored here: they appear in the next answer.
 */
static void refresh_rooms(struct profile_worker *c)
{
	for (size_t i = 0; i < MAX_RECORDERS; i++) {
		struct room *room = &c->rooms[i];

		if (!room->recorder)
			continue;
		if (room->n_jobs || room->kind == PROFILE_WORDS)
			recorder_refresh(room->recorder);
		if (!room->n_jobs && clock_ms() - room->used_ms >= keep_ms(room))
			close_room(room);
	}
}

/* ---- answers -------------------------------------------------------------------------------- */

static void send_error(struct profile_worker *c, uint64_t id, int err)
{
	taker_answer_error(c->ctx, c->fd, id,
			   err == -EPERM || err == -EACCES || err == -EBUSY ? UNAVAILABLE : FAILED,
			   ocp_hint(c->ctx));
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

/* A job and the profiles that answer it. */
struct finding {
	const struct profile_job *job;
	struct process_profile *list;
	size_t n;
};

static int write_profile(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct finding *found = data;
	const char *exe = found->job->exe;

	if (!found->job->is_flame)
		return pprof_write_all(ctx, found->list, found->n, to);
	return flame_json_write(ctx, &found->list->profile, NULL, exe ? exe : "all programs", to);
}

/* Answer the request of JOB with the profile so far. */
static void answer_job(struct profile_worker *c, const struct profile_job *job)
{
	struct finding found = { .job = job };
	struct strbuf body = { 0 };
	int err = recorder_take(job->room->recorder, &job->mark, &job->filter, job->is_flame,
				&found.list, &found.n);

	if (!err) {
		const struct profiling_numbers numbers = numbers_of(found.list, found.n);

		err = taker_add_body(c->ctx, &numbers, write_profile, &found, &body);
		process_profiles_free(found.list, found.n);
	}
	if (err)
		send_error(c, job->id, err);
	else
		taker_answer(c->fd, job->id, 0, &body);
	strbuf_free(&body);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static void end_job(struct profile_job *job)
{
	struct room *room = job->room;

	record_mark_free(&job->mark);
	free(job->exe);
	*job = (struct profile_job){ 0 };
	if (room)
		leave_room(room);
}

static int start_profile_job(struct profile_worker *c, const struct profiling_take *take,
			     struct profile_job *job)
{
	struct room *room;
	int err = find_room(c, take, &room);

	if (err)
		return err;
	job->room = room;
	room->n_jobs++;
	room->used_ms = clock_ms();
	room->has_totals |= !take->seconds;
	err = follow_room_processes(c, room);
	if (!err && room->kind == PROFILE_CPU)
		err = recorder_start(room->recorder);
	if (!err && take->seconds)
		err = recorder_mark(room->recorder, &job->mark);
	job->end_ms = clock_ms() + (int64_t)take->seconds * 1000;
	return err;
}

static void on_take(struct profile_worker *c)
{
	const char *exe = c->asked.bytes + sizeof(struct profiling_take);
	struct profiling_take take;
	struct profile_job *job = c->jobs;
	int err = 0;

	memcpy(&take, c->asked.bytes, sizeof(take));
	while (job < c->jobs + MAX_JOBS - 1 && job->id)
		job++;
	if (job->id)
		err = ctx_error(c->ctx, -EBUSY, "too many profiles");
	else if (*exe && !(job->exe = strdup(exe)))
		err = ctx_no_memory(c->ctx);
	if (!err) {
		job->id = c->asked.id;
		job->is_flame = take.is_flame;
		job->filter = (struct record_filter){ .exe = job->exe, .pid = take.pid };
		err = start_profile_job(c, &take, job);
	}
	if (!err && take.seconds)
		return;
	if (err)
		send_error(c, c->asked.id, err);
	else
		answer_job(c, job);
	if (job->id == c->asked.id)
		end_job(job);
}

static void on_cancel(struct profile_worker *c)
{
	for (size_t i = 0; i < MAX_JOBS; i++) {
		if (c->jobs[i].id != c->asked.id)
			continue;
		taker_answer(c->fd, c->jobs[i].id, PROFILING_CANCELLED, &(struct strbuf){ 0 });
		end_job(&c->jobs[i]);
	}
}

static void on_follow(struct profile_worker *c)
{
	if (!process_list_read(&c->processes, c->asked.bytes, c->asked.n))
		return;
	for (size_t i = 0; i < MAX_RECORDERS; i++)
		if (c->rooms[i].recorder && (c->rooms[i].n_jobs || c->rooms[i].has_totals))
			follow_room_processes(c, &c->rooms[i]);
}

/* Execute the orders that have arrived. Return false if the channel has ended or failed. */
static bool take_orders(struct profile_worker *c)
{
	int err;

	while ((err = channel_take(c->fd, &c->asked)) == 0) {
		if ((int)c->asked.ask == PROFILING_TAKE)
			on_take(c);
		else if ((int)c->asked.ask == PROFILING_FOLLOW)
			on_follow(c);
		else
			on_cancel(c);
	}
	return err == -EAGAIN;
}

/*
 * Answer the jobs whose time is over. Return the time until the next job ends, in milliseconds, at
 * most REFRESH_MS.
 */
static int end_jobs(struct profile_worker *c)
{
	int64_t next_ms = clock_ms() + REFRESH_MS;

	for (size_t i = 0; i < MAX_JOBS; i++) {
		struct profile_job *job = &c->jobs[i];

		if (!job->id)
			continue;
		if (job->end_ms <= clock_ms()) {
			answer_job(c, job);
			end_job(job);
		} else if (job->end_ms < next_ms) {
			next_ms = job->end_ms;
		}
	}
	return next_ms > clock_ms() ? (int)(next_ms - clock_ms()) : 0;
}

/* ---- the process ---------------------------------------------------------------------------- */

/* Check that profiles of CPU time can be taken. Return 0 or -errno. */
static int try_profiling(struct ocp_ctx *ctx)
{
	struct recorder *recorder;
	int err = recorder_open(ctx, PROFILE_CPU, PROFILE_HZ, &recorder);

	if (!err)
		err = recorder_start(recorder);
	recorder_close(recorder);
	return err;
}

static void run_profiling_child(struct profile_worker *c)
{
	int64_t refresh_ms = clock_ms() + REFRESH_MS;

	for (;;) {
		poll(&(struct pollfd){ .fd = c->fd, .events = POLLIN }, 1, end_jobs(c));
		if (!take_orders(c))
			return;
		if (clock_ms() < refresh_ms)
			continue;
		refresh_rooms(c);
		refresh_ms = clock_ms() + REFRESH_MS;
	}
}

int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate)
{
	struct profile_worker *c = calloc(1, sizeof(*c));
	int err = taker_begin(ctx, parent, fd, "probes-profiler");

	(void)rate;
	if (!err)
		err = c ? try_profiling(ctx) : ctx_no_memory(ctx);
	taker_report(ctx, fd, err);
	if (!err) {
		c->ctx = ctx;
		c->fd = fd;
		run_profiling_child(c);
		for (size_t i = 0; i < MAX_RECORDERS; i++)
			close_room(&c->rooms[i]);
		process_list_free(&c->processes);
	}
	free(c);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
