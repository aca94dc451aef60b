// SPDX-License-Identifier: MIT
/* The process that takes profiles of CPU time and allocation. */
#include "serve/profile_worker.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "serve/request.h"

enum { MAX_RECORDERS = 6 };

/* How long an unused recorder is kept, since opening another recorder takes time. */
enum {
	KEEP_CPU_MS = 300000, /* an unused recorder of CPU time samples nothing */
	/* An unused recorder of allocations still slows the programs down by its traps. */
	KEEP_WORDS_MS = 5000,
	/* For a recorder whose totals a client has read, since clients read totals repeatedly. */
	KEEP_TOTALS_MS = 300000,
};

struct room {
	struct recorder *recorder; /* NULL: the room is unused */
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

struct rooms {
	struct room list[MAX_RECORDERS];
	bool by_ptrace; /* BPF is not permitted: CPU time is sampled by ptrace(2) */
};

static struct room *rooms_of(const struct profile_worker *w)
{
	struct rooms *rooms = w->own;

	return rooms->list;
}

static int open_recorder(const struct profile_worker *w, enum profile_kind kind, unsigned int hz,
			 struct recorder **out)
{
	const struct rooms *rooms = w->own;

	return recorder_open(w->ctx, kind, hz, rooms->by_ptrace && kind == PROFILE_CPU, out);
}

/* ---- recorders ------------------------------------------------------------------------------ */

/* Return true if the recorder of ROOM must sample PROCESS, for a job or for the totals. */
static bool must_sample(const struct profile_worker *w, const struct room *room,
			const struct recorded_process *process)
{
	for (size_t i = 0; i < PROFILE_WORKER_JOBS; i++)
		if (w->jobs[i].room == room &&
		    record_filter_has(&w->jobs[i].filter, process->exe, process->pid))
			return true;
	return room->has_totals;
}

static int follow_room_processes(struct profile_worker *w, struct room *room)
{
	struct recorded_process wanted[RECORDER_MAX_PROCESSES];
	size_t n = 0;

	for (size_t i = 0; i < w->n_processes; i++)
		if (must_sample(w, room, &w->processes[i]))
			wanted[n++] = w->processes[i];
	return recorder_follow(room->recorder, wanted, n);
}

static void close_room(struct room *room)
{
	recorder_close(room->recorder);
	*room = (struct room){ 0 };
}

static int open_room(struct profile_worker *w, const struct profiling_take *take, struct room **out)
{
	struct room *room = rooms_of(w);
	int err;

	while (room < rooms_of(w) + MAX_RECORDERS && room->recorder)
		room++;
	if (room == rooms_of(w) + MAX_RECORDERS)
		return ctx_error(w->ctx, -EBUSY, "too many profiles of different kinds");
	err = open_recorder(w, take->kind, take->hz, &room->recorder);
	if (err)
		return err;
	room->kind = take->kind;
	room->hz = take->hz;
	*out = room;
	return 0;
}

/*
 * Find a room whose recorder has the kind and frequency of TAKE; if there is none, open a room with
 * a new recorder. If the recorder of a room is stale (recorder_is_worn), the room takes no more
 * jobs, and is closed after its last job.
 */
static int find_room(struct profile_worker *w, const struct profiling_take *take, struct room **out)
{
	for (size_t i = 0; i < MAX_RECORDERS; i++) {
		struct room *room = &rooms_of(w)[i];

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
	return open_room(w, take, out);
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
static void refresh_rooms(struct profile_worker *w)
{
	for (size_t i = 0; i < MAX_RECORDERS; i++) {
		struct room *room = &rooms_of(w)[i];

		if (!room->recorder)
			continue;
		if (room->n_jobs || room->kind == PROFILE_WORDS)
			recorder_refresh(room->recorder);
		if (!room->n_jobs && clock_ms() - room->used_ms >= keep_ms(room))
			close_room(room);
	}
}

/* ---- the work ------------------------------------------------------------------------------- */

static int begin_recording(struct profile_worker *w, struct profile_job *job)
{
	const struct profiling_take *take = &job->take;
	struct room *room;
	int err = find_room(w, take, &room);

	if (err)
		return err;
	job->room = room;
	room->n_jobs++;
	room->used_ms = clock_ms();
	room->has_totals |= !take->seconds;
	err = follow_room_processes(w, room);
	if (!err && room->kind == PROFILE_CPU)
		err = recorder_start(room->recorder);
	if (!err && take->seconds)
		err = recorder_mark(room->recorder, &job->record_mark);
	return err;
}

static void end_recording(struct profile_worker *w, struct profile_job *job)
{
	(void)w;
	record_mark_free(&job->record_mark);
	if (job->room)
		leave_room(job->room);
}

static int answer_recording(struct profile_worker *w, const struct profile_job *job,
			    struct strbuf *body)
{
	const char *title = job->exe ? job->exe : "all programs";
	struct process_profile *list;
	size_t n;
	int err = recorder_take(job->room->recorder, &job->record_mark, &job->filter,
				job->take.is_flame, &list, &n);

	return err ? err : profile_worker_add(w, list, n, job->take.is_flame ? title : NULL, body);
}

static void follow_recorded(struct profile_worker *w)
{
	struct room *rooms = rooms_of(w);

	for (size_t i = 0; i < MAX_RECORDERS; i++)
		if (rooms[i].recorder && (rooms[i].n_jobs || rooms[i].has_totals))
			follow_room_processes(w, &rooms[i]);
}

static unsigned int recording_status(int err)
{
	return err == -EPERM || err == -EACCES || err == -EBUSY ? HTTP_UNAVAILABLE
								: HTTP_SERVER_ERROR;
}

/* Check that profiles of CPU time can be taken. Return 0 or -errno. */
static int try_recorder(const struct profile_worker *w)
{
	struct recorder *recorder;
	int err = open_recorder(w, PROFILE_CPU, PROFILE_HZ, &recorder);

	if (!err)
		err = recorder_start(recorder);
	recorder_close(recorder);
	return err;
}

static int open_recorders(struct profile_worker *w)
{
	struct rooms *rooms = calloc(1, sizeof(*rooms));
	int err;

	w->own = rooms;
	if (!rooms)
		return ctx_no_memory(w->ctx);
	err = try_recorder(w);
	if (err == -EPERM || err == -EACCES) {
		say("profiles of CPU time: by ptrace, since BPF is not available: %s",
		    ocp_error(w->ctx));
		rooms->by_ptrace = true;
		err = try_recorder(w);
	}
	if (err)
		free(rooms);
	return err;
}

static void close_recorders(struct profile_worker *w)
{
	for (size_t i = 0; i < MAX_RECORDERS; i++)
		close_room(&rooms_of(w)[i]);
	free(w->own);
}

int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate)
{
	static const struct profile_worker_kind kind = {
		.name = "probes-profiler",
		.open = open_recorders,
		.close = close_recorders,
		.follow = follow_recorded,
		.begin = begin_recording,
		.end = end_recording,
		.answer = answer_recording,
		.status_of = recording_status,
		.refresh = refresh_rooms,
	};

	return profile_worker_run(&kind, ctx, parent, fd, rate);
}
