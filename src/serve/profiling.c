// SPDX-License-Identifier: MIT
#include "serve/profiling.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "cli/cli.h"
#include "serve/control_message.h"
#include "serve/profile_request.h"
#include "serve/profile_taker.h"
#include "serve/switch_request.h"

enum {
	BAD_REQUEST = 400,
	FORBIDDEN = 403,
	NOT_FOUND = 404,
	TOO_MANY = 429,
	FAILED = 500,
	UNAVAILABLE = 503
};

struct ordered_job {
	uint64_t id;		      /* 0: unused */
	enum profile_count_kind kind; /* COUNT_KINDS: this request is not counted */
};

struct profiling {
	struct ocp_ctx *ctx;
	struct profiling_settings is;
	pid_t pid; /* 0: the child does not run */
	int fd;
	char *why, *hint; /* why the child cannot take profiles; NULL: it can */
	struct ordered_job jobs[PROFILING_MAX];
	struct strbuf followed; /* the process list that was last sent to the child */
	struct strbuf news;	/* the newest message of serve/heap_figures.h */
	bool has_news;
};

/* ---- the child ------------------------------------------------------------------------------ */

static void reap(struct profiling *p)
{
	struct interruptions interruptions = { 0 };

	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	if (p->pid) {
		kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && is_interrupted(&interruptions))
			;
	}
	p->pid = 0;
	strbuf_free(&p->followed);
	if (p->has_news)
		p->is.counts->heaps = NULL;
	p->has_news = false;
	strbuf_free(&p->news);
}

static void set_why(struct profiling *p, const char *why, const char *hint)
{
	free(p->why);
	free(p->hint);
	p->why = strdup(why);
	p->hint = *hint ? strdup(hint) : NULL;
}

/* Wait for the child's report. If the child cannot take profiles, keep the reason in `why`. */
static int await_report(struct profiling *p)
{
	struct interruptions interruptions = { 0 };
	struct profiling_report report;
	ssize_t n;

	do
		n = recv(p->fd, &report, sizeof(report), 0);
	while (n < 0 && is_interrupted(&interruptions));
	if (n != sizeof(report)) {
		reap(p);
		return ctx_error(p->ctx, -EIO, "the profiling process ended");
	}
	if (!report.err)
		return 0;
	reap(p);
	set_why(p, report.error, report.hint);
	return 0;
}

static int start_process(struct profiling *p)
{
	struct epoll_event event = { .events = EPOLLIN };
	const pid_t parent = getpid();
	int fds[2], err = channel_new(fds);

	if (err)
		return ctx_error(p->ctx, err, "socketpair: %s", strerror(-err));
	fflush(NULL);
	p->pid = fork();
	if (p->pid == 0)
		_exit(p->is.child(p->ctx, parent, fds[1], p->is.rate));
	close(fds[1]);
	p->fd = fds[0];
	if (p->pid < 0) {
		err = ctx_error(p->ctx, -errno, "fork: %s", strerror(errno));
		p->pid = 0;
		reap(p);
		return err;
	}
	err = await_report(p);
	if (!err && p->fd >= 0 && epoll_ctl(p->is.epoll_fd, EPOLL_CTL_ADD, p->fd, &event) != 0)
		err = ctx_error(p->ctx, -errno, "epoll: %s", strerror(errno));
	return err;
}

int profiling_start(struct ocp_ctx *ctx, const struct profiling_settings *settings,
		    struct profiling **out)
{
	struct profiling *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return ctx_no_memory(ctx);
	*p = (struct profiling){ .ctx = ctx, .is = *settings, .fd = -1 };
	err = settings->starts_later ? 0 : start_process(p);
	if (err) {
		profiling_free(p);
		return err;
	}
	if (p->why)
		say("profiles cannot be taken: %s%s%s", p->why, p->hint ? "; " : "",
		    p->hint ? p->hint : "");
	*out = p;
	return 0;
}

bool profiling_runs(const struct profiling *p)
{
	return p->pid;
}

void profiling_free(struct profiling *p)
{
	if (!p)
		return;
	reap(p);
	free(p->why);
	free(p->hint);
	free(p);
}

/* ---- processes that may be profiled --------------------------------------------------------- */

static void list_processes(const struct watch *watch, struct strbuf *list)
{
	size_t n = 0;

	for (size_t i = 0; i < watch_target_count(watch); i++) {
		const struct watch_target *target = watch_target(watch, i);
		const size_t bytes = strlen(target->exe) + 1;

		for (size_t j = 0; j < target->n_pids && n < RECORDER_MAX_PROCESSES; j++) {
			if (list->n + sizeof(pid_t) + bytes > ASK_BYTES)
				return;
			strbuf_add(list, (const char *)&target->pids[j], sizeof(pid_t));
			strbuf_add(list, target->exe, bytes);
			n++;
		}
	}
}

void profiling_follow(struct profiling *p, const struct watch *watch)
{
	struct strbuf list = { 0 };

	if (p->fd < 0)
		return;
	list_processes(watch, &list);
	/* If the child is busy, the list is sent at the next call. */
	if (!list.is_short &&
	    (list.n != p->followed.n ||
	     (list.n && memcmp(list.bytes, p->followed.bytes, list.n) != 0)) &&
	    channel_ask(p->fd, (enum ask)PROFILING_FOLLOW, 0, list.n ? list.bytes : "", list.n) ==
		    0) {
		strbuf_free(&p->followed);
		p->followed = list;
		return;
	}
	strbuf_free(&list);
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool has_pid(const struct watch_target *target, pid_t pid)
{
	for (size_t i = 0; i < target->n_pids; i++)
		if (target->pids[i] == pid)
			return true;
	return false;
}

/*
 * Return true if FILTER matches a watched program or a process of a watched program. If not, fill
 * in REPLY.
 */
static bool is_watched(const struct watch *watch, const struct record_filter *filter,
		       struct http_reply *reply)
{
	bool has_exe = !filter->exe, is_of_exe = !filter->pid;

	for (size_t i = 0; i < watch_target_count(watch); i++) {
		const struct watch_target *target = watch_target(watch, i);
		const bool is_exe = !filter->exe || strcmp(filter->exe, target->exe) == 0;

		has_exe |= is_exe;
		is_of_exe |= is_exe && filter->pid && has_pid(target, filter->pid);
	}
	if (!has_exe)
		http_error(reply, NOT_FOUND, "exe: no such program is watched",
			   "/debug/pprof/ lists the programs");
	else if (!is_of_exe)
		http_error(reply, NOT_FOUND, "pid: no such process of a watched program",
			   "/debug/pprof/ lists the processes");
	return has_exe && is_of_exe;
}

static struct ordered_job *find_job(struct profiling *p, uint64_t id)
{
	for (size_t i = 0; i < PROFILING_MAX; i++)
		if (p->jobs[i].id == id)
			return &p->jobs[i];
	return NULL;
}

static int send_take(struct profiling *p, const struct profile_request *request, bool is_flame,
		     uint64_t id)
{
	const struct profiling_take take = { .kind = request->kind,
					     .seconds = request->seconds,
					     .hz = request->kind == PROFILE_CPU ? request->hz : 0,
					     .pid = request->filter.pid,
					     .is_flame = is_flame };
	const char *exe = request->filter.exe ? request->filter.exe : "";
	struct strbuf message = { 0 };
	int err;

	strbuf_add(&message, (const char *)&take, sizeof(take));
	strbuf_add(&message, exe, strlen(exe) + 1);
	err = message.is_short
		      ? -ENOMEM
		      : channel_ask(p->fd, (enum ask)PROFILING_TAKE, id, message.bytes, message.n);
	strbuf_free(&message);
	return err;
}

/*
 * Order the child to take a profile. Return false if that is not possible; then REPLY has the
 * reason.
 */
static bool order_job(struct profiling *p, const struct watch *watch,
		      const struct profile_request *request, enum ask ask, uint64_t id,
		      struct http_reply *reply)
{
	const enum profile_count_kind kind = ask == ASK_SITES		    ? COUNT_KINDS
					     : ask == ASK_HEAP		    ? COUNT_HEAP
					     : request->kind == PROFILE_CPU ? COUNT_CPU
									    : COUNT_ALLOC;
	struct ordered_job *job = find_job(p, 0);

	if (!job) {
		http_error(reply, TOO_MANY, "16 profiles are being taken; no more at one time",
			   NULL);
		return false;
	}
	if (!p->pid && !p->why && start_process(p) != 0) {
		http_error(reply, FAILED, ocp_error(p->ctx), ocp_hint(p->ctx));
		return false;
	}
	if (p->why) {
		http_error(reply, UNAVAILABLE, p->why, p->hint);
		return false;
	}
	profiling_follow(p, watch);
	if (send_take(p, request, ask == ASK_FLAME || ask == ASK_SITES, id) != 0) {
		http_error(reply, UNAVAILABLE, "the profiling process is busy", NULL);
		return false;
	}
	*job = (struct ordered_job){ id, kind };
	return true;
}

static void write_index(const struct profiling *p, const struct watch *watch, struct strbuf *out)
{
	strbuf_str(out, p->is.index);
	strbuf_lit(out, "\n"
			"Parameters: seconds (at most 300), hz (99), exe=PATH, pid=PID.\n"
			"Each request needs the header \"Authorization: Bearer TOKEN\".\n");
	if (p->why) {
		strbuf_lit(out, "\nProfiles cannot be taken: ");
		strbuf_str(out, p->why);
		strbuf_lit(out, "\n");
	}
	strbuf_lit(out, "\nPrograms:\n");
	for (size_t i = 0; i < watch_target_count(watch); i++) {
		const struct watch_target *target = watch_target(watch, i);

		strbuf_label(out, target->exe);
		for (size_t j = 0; j < target->n_pids; j++) {
			strbuf_lit(out, " ");
			strbuf_u64(out, (uint64_t)target->pids[j]);
		}
		strbuf_lit(out, "\n");
	}
}

/*
 * Return true if the child runs, or if the request ASK of PEER may start it. ASK_SITES may not
 * start it: a page sends ASK_SITES only to show the sites of a profile that runs. If the child does
 * not run and may not be started, fill in REPLY and return false.
 */
static bool may_start(struct profiling *p, enum ask ask, const char *peer, struct http_reply *reply)
{
	if (p->pid || !p->is.starts_later)
		return true;
	if (!p->is.forbidden && ask != ASK_SITES) {
		switch_request_log(peer, "%s: started in all measured programs", p->is.what);
		return true;
	}
	http_error(reply, FORBIDDEN, p->is.forbidden ? p->is.forbidden : "no heap profile runs",
		   p->is.hint);
	return false;
}

bool profiling_answer(struct profiling *p, const struct watch *watch, const struct asked *asked,
		      struct http_reply *reply)
{
	struct control_request request;
	struct profile_request wanted;
	const char *why;

	if (asked->ask == ASK_PROFILES) {
		write_index(p, watch, &reply->body);
		return true;
	}
	if (!control_message_read(asked->bytes, asked->n, &request)) {
		http_error(reply, BAD_REQUEST, "invalid request for a profile", NULL);
		return true;
	}
	why = auth_refuse_caller(&p->is.control->auth, &request.auth, reply);
	if (why) {
		control_log_refusal(p->is.control, request.wanted.peer, p->is.what, why);
		return true;
	}
	if (!profile_request_read(request.wanted.body, request.wanted.n_body, &wanted, reply) ||
	    !is_watched(watch, &wanted.filter, reply) ||
	    !may_start(p, asked->ask, request.wanted.peer, reply))
		return true;
	return !order_job(p, watch, &wanted, asked->ask, asked->id, reply);
}

void profiling_end(struct profiling *p, uint64_t id)
{
	if (id && p->fd >= 0 && find_job(p, id))
		channel_ask(p->fd, (enum ask)PROFILING_CANCEL, id, "", 0);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void count_request(struct profiling *p, const struct ordered_job *job,
			  const struct http_reply *reply, const struct profiling_numbers *numbers)
{
	struct profile_counts *counts = p->is.counts;

	if (job->kind == COUNT_KINDS || reply->status == PROFILING_CANCELLED)
		return;
	if (reply->status) {
		counts->of[job->kind].failed++;
		return;
	}
	counts->of[job->kind].served++;
	counts->of[job->kind].samples += numbers->samples;
	counts->of[job->kind].truncated += numbers->truncated;
	counts->of[job->kind].lost += numbers->lost;
}

static void take_news(struct profiling *p, struct strbuf *news)
{
	strbuf_free(&p->news);
	p->news = *news;
	*news = (struct strbuf){ 0 };
	p->has_news = true;
	p->is.counts->heaps = p->news.bytes ? p->news.bytes : "";
	p->is.counts->n_heaps = p->news.n;
}

/*
 * Called after the child has ended: answer one of the waiting requests. Return false if no request
 * waits. The next request for a profile starts another child.
 */
static bool take_end(struct profiling *p, uint64_t *id, struct http_reply *reply)
{
	if (p->pid) {
		reap(p);
		say("the profiling process ended; the next request starts another one");
	}
	for (size_t i = 0; i < PROFILING_MAX; i++) {
		struct ordered_job *job = &p->jobs[i];

		if (!job->id)
			continue;
		*id = job->id;
		http_error(reply, UNAVAILABLE, "the profiling process ended", NULL);
		count_request(p, job, reply, NULL);
		*job = (struct ordered_job){ 0 };
		return true;
	}
	return false;
}

bool profiling_take(struct profiling *p, uint64_t *id, struct http_reply *reply)
{
	struct profiling_numbers numbers = { 0 };
	struct ordered_job *job;
	int err;

	do {
		err = p->fd < 0 ? -EPIPE : channel_receive(p->fd, id, &reply->status, &reply->body);
		if (!err && !*id)
			take_news(p, &reply->body);
	} while (!err && !*id);
	if (err == -EAGAIN)
		return false;
	if (err)
		return take_end(p, id, reply);
	job = find_job(p, *id);
	if (!reply->status && reply->body.n >= sizeof(numbers)) {
		memcpy(&numbers, reply->body.bytes, sizeof(numbers));
		reply->body.n -= sizeof(numbers);
		memmove(reply->body.bytes, reply->body.bytes + sizeof(numbers), reply->body.n);
	}
	if (job) {
		count_request(p, job, reply, &numbers);
		*job = (struct ordered_job){ 0 };
	}
	return true;
}
