// SPDX-License-Identifier: MIT
#include "serve/profiling.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "base/sanitize.h"
#include "cli/cli.h"
#include "serve/profile_worker.h"

struct ordered_job {
	uint64_t id;		      /* 0: this entry is unused */
	enum profile_count_kind kind; /* which counters count this request; COUNT_KINDS: none */
};

struct profiling {
	struct ocp_ctx *ctx;
	struct profiling_settings is;
	struct server_child child;
	char *why, *hint; /* why the child cannot take profiles; NULL: it can */
	struct ordered_job jobs[PROFILING_MAX];
	struct strbuf followed; /* the process list that was last sent to the child */
	struct strbuf news;	/* the newest message of heap_figures_write() */
	bool has_news;
};

/* ---- parsing a request ---------------------------------------------------------------------- */

struct parameter_reader {
	struct profiling_take *take;
	const char **exe;
	struct http_reply *reply;
	bool has_seconds, has_hz, has_kind;
	/* the path has no parameter `seconds`, since its answer is the current state */
	bool has_no_time;
};

/* Fill in the reply with an error about the parameter NAME. Always return false. */
static bool refuse_parameter(struct parameter_reader *r, const char *name, const char *value,
			     const char *why)
{
	char text[256];

	snprintf(text, sizeof(text), "%s '%.60s': %s", name, value, why);
	make_one_line(text);
	http_error(r->reply, HTTP_BAD_REQUEST, text, NULL);
	return false;
}

/*
 * Parse VALUE, a whole number from 1 to MOST. *HAS says whether the parameter has been given
 * before; set *HAS to true. Return false if VALUE is refused.
 */
static bool parse_number_parameter(struct parameter_reader *r, const char *name, const char *value,
				   bool *has, unsigned int most, unsigned int *number)
{
	char why[64], *end;
	unsigned long parsed;

	if (*has)
		return refuse_parameter(r, name, value, "given twice");
	*has = true;
	errno = 0;
	parsed = strtoul(value, &end, 10);
	snprintf(why, sizeof(why), "not a whole number from 1 to %u", most);
	if (errno || strspn(value, "0123456789") != strlen(value) || end == value || !parsed ||
	    parsed > most)
		return refuse_parameter(r, name, value, why);
	*number = (unsigned int)parsed;
	return true;
}

static bool take_kind(struct parameter_reader *r, const char *value)
{
	if (strcmp(value, "cpu") == 0)
		r->take->kind = PROFILE_CPU;
	else if (strcmp(value, "alloc") == 0)
		r->take->kind = PROFILE_WORDS;
	else
		return refuse_parameter(r, "kind", value, "not cpu or alloc");
	return true;
}

static bool take_leaf(struct parameter_reader *r, const char *value)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return refuse_parameter(r, "leaf", value, "not 0 or 1");
	r->take->by_leaf = *value == '1';
	return true;
}

static bool take_parameter(struct parameter_reader *r, const char *name, const char *value)
{
	unsigned int pid;
	bool has_pid = r->take->pid;

	if (strcmp(name, "seconds") == 0 && !r->has_no_time)
		return parse_number_parameter(r, name, value, &r->has_seconds, PROFILE_MAX_SECONDS,
					      &r->take->seconds);
	if (strcmp(name, "hz") == 0)
		return parse_number_parameter(r, name, value, &r->has_hz, PROFILE_MAX_HZ,
					      &r->take->hz);
	if (strcmp(name, "kind") == 0 && r->has_kind)
		return take_kind(r, value);
	if (strcmp(name, "leaf") == 0 && r->has_no_time)
		return take_leaf(r, value);
	if (strcmp(name, "pid") == 0) {
		if (!parse_number_parameter(r, name, value, &has_pid, INT_MAX, &pid))
			return false;
		r->take->pid = (pid_t)pid;
		return true;
	}
	if (strcmp(name, "exe") == 0) {
		if (*r->exe)
			return refuse_parameter(r, name, value, "given twice");
		*r->exe = value;
		return true;
	}
	/*
	 * Go's servers take debug=0 for the binary format of pprof, the only format that is
	 * supported here.
	 */
	if (strcmp(name, "debug") == 0 && strcmp(value, "0") == 0)
		return true;
	return refuse_parameter(r, name, value,
				"no such parameter: there are seconds, hz, exe and pid");
}

/*
 * Return the text at *AT, and advance *AT past its zero byte. NULL: there is no zero byte before
 * END.
 */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *zero = memchr(text, 0, (size_t)(end - text));

	if (!zero)
		return NULL;
	*at = zero + 1;
	return text;
}

/*
 * Parse the N bytes of TEXT, which are untrusted, into TAKE and *EXE, which points into TEXT (NULL:
 * any program). TEXT is the path, then the name and the value of each argument, each with a zero
 * byte at its end. Return false if TEXT is invalid; then REPLY has the error.
 */
static bool read_profile_request(const char *text, size_t n, struct profiling_take *take,
				 const char **exe, struct http_reply *reply)
{
	struct parameter_reader r = { .take = take, .exe = exe, .reply = reply };
	const char *end = text + n, *at = text, *path = next_text(&at, end), *name, *value;

	*take = (struct profiling_take){ .kind = PROFILE_CPU, .hz = PROFILE_HZ };
	*exe = NULL;
	if (!path) {
		http_error(reply, HTTP_BAD_REQUEST, "invalid request for a profile", NULL);
		return false;
	}
	r.has_kind = strcmp(path, "/api/v1/profile") == 0;
	r.has_no_time = strcmp(path, "/api/v1/heap") == 0;
	if (r.has_no_time || strcmp(path, "/debug/pprof/allocs") == 0 ||
	    strcmp(path, "/debug/pprof/heap") == 0)
		take->kind = PROFILE_WORDS;
	while ((name = next_text(&at, end)) && (value = next_text(&at, end)))
		if (!take_parameter(&r, name, value))
			return false;
	if (r.has_hz && take->kind != PROFILE_CPU)
		return refuse_parameter(&r, "hz", "", "only for CPU time");
	if (!take->seconds && (take->kind == PROFILE_CPU || r.has_kind))
		take->seconds = PROFILE_SECONDS;
	if (take->kind != PROFILE_CPU)
		take->hz = 0;
	return true;
}

/* ---- the child ------------------------------------------------------------------------------ */

static void reap(struct profiling *p)
{
	struct interruptions interruptions = { 0 };

	if (p->child.fd >= 0)
		close(p->child.fd);
	p->child.fd = -1;
	if (p->child.pid) {
		kill(p->child.pid, SIGKILL);
		while (waitpid(p->child.pid, NULL, 0) < 0 && is_interrupted(&interruptions))
			;
	}
	p->child.pid = 0;
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

static int run_profiler(const void *data, pid_t parent, int fd)
{
	const struct profiling *p = data;

	return p->is.child(p->ctx, parent, fd, p->is.rate);
}

/* Start the child. If the child cannot take profiles, keep the reason in `why`. */
static int start_process(struct profiling *p)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct child_report report;
	int err = server_child_start(p->ctx, &p->child, run_profiler, p, &report);

	if (err == -EPIPE) {
		reap(p);
		return ctx_error(p->ctx, -EIO, "the profiling process ended");
	}
	if (err)
		return err;
	if (report.err) {
		reap(p);
		set_why(p, report.error, report.hint);
		return 0;
	}
	if (epoll_ctl(p->is.epoll_fd, EPOLL_CTL_ADD, p->child.fd, &event) != 0)
		return ctx_error(p->ctx, -errno, "epoll: %s", strerror(errno));
	return 0;
}

int profiling_start(struct ocp_ctx *ctx, const struct profiling_settings *settings,
		    struct profiling **out)
{
	struct profiling *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return ctx_no_memory(ctx);
	*p = (struct profiling){ .ctx = ctx, .is = *settings, .child.fd = -1 };
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
	return p->child.pid;
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

	if (p->child.fd < 0)
		return;
	list_processes(watch, &list);
	/* If the child is busy, the list cannot be sent now; the next call tries again. */
	if (!list.is_short &&
	    (list.n != p->followed.n ||
	     (list.n && memcmp(list.bytes, p->followed.bytes, list.n) != 0)) &&
	    channel_ask(p->child.fd, (enum ask)PROFILING_FOLLOW, 0, list.n ? list.bytes : "",
			list.n) == 0) {
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
 * Return true if EXE (NULL: any) is a watched program, and PID (0: any) is a process of EXE.
 * Otherwise fill in REPLY.
 */
static bool is_watched(const struct watch *watch, const char *exe, pid_t pid,
		       struct http_reply *reply)
{
	bool has_exe = !exe, is_of_exe = !pid;

	for (size_t i = 0; i < watch_target_count(watch); i++) {
		const struct watch_target *target = watch_target(watch, i);
		const bool is_exe = !exe || strcmp(exe, target->exe) == 0;

		has_exe |= is_exe;
		is_of_exe |= is_exe && pid && has_pid(target, pid);
	}
	if (!has_exe)
		http_error(reply, HTTP_NOT_FOUND, "exe: no such program is watched",
			   "/debug/pprof/ lists the programs");
	else if (!is_of_exe)
		http_error(reply, HTTP_NOT_FOUND, "pid: no such process of a watched program",
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

static int send_take(struct profiling *p, const struct profiling_take *take, const char *exe,
		     uint64_t id)
{
	struct strbuf message = { 0 };
	int err;

	strbuf_add(&message, (const char *)take, sizeof(*take));
	strbuf_str(&message, exe ? exe : "");
	strbuf_add(&message, "", 1);
	err = message.is_short ? -ENOMEM
			       : channel_ask(p->child.fd, (enum ask)PROFILING_TAKE, id,
					     message.bytes, message.n);
	strbuf_free(&message);
	return err;
}

/*
 * Order the child to take a profile. Return false if that is not possible; then REPLY has the
 * reason.
 */
static bool order_job(struct profiling *p, const struct watch *watch,
		      const struct profiling_take *take, const char *exe, enum ask ask, uint64_t id,
		      struct http_reply *reply)
{
	const enum profile_count_kind kind = ask == ASK_SITES		 ? COUNT_KINDS
					     : ask == ASK_HEAP		 ? COUNT_HEAP
					     : take->kind == PROFILE_CPU ? COUNT_CPU
									 : COUNT_ALLOC;
	struct ordered_job *job = find_job(p, 0);

	if (!job) {
		http_error(reply, HTTP_TOO_MANY_REQUESTS,
			   "16 profiles, the maximum, are already being taken", NULL);
		return false;
	}
	if (!p->child.pid && !p->why && start_process(p) != 0) {
		http_error(reply, HTTP_SERVER_ERROR, ocp_error(p->ctx), ocp_hint(p->ctx));
		return false;
	}
	if (p->why) {
		http_error(reply, HTTP_UNAVAILABLE, p->why, p->hint);
		return false;
	}
	profiling_follow(p, watch);
	if (send_take(p, take, exe, id) != 0) {
		http_error(reply, HTTP_UNAVAILABLE, "the profiling process is busy", NULL);
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
 * Return true if the child runs, or if the request ASK of PEER may start the child. ASK_SITES must
 * not start it: a page sends ASK_SITES only to show the sites of a profile that already runs. If
 * the child does not run and may not be started, fill in REPLY and return false.
 */
static bool may_start(struct profiling *p, enum ask ask, const char *peer, struct http_reply *reply)
{
	if (p->child.pid || !p->is.starts_later)
		return true;
	if (!p->is.forbidden && ask != ASK_SITES) {
		client_request_log(peer, "%s: started in all measured programs", p->is.what);
		return true;
	}
	http_error(reply, HTTP_FORBIDDEN,
		   p->is.forbidden ? p->is.forbidden : "no heap profile runs", p->is.hint);
	return false;
}

bool profiling_answer(struct profiling *p, const struct watch *watch, const struct asked *asked,
		      struct http_reply *reply)
{
	struct client_request request;
	struct profiling_take take;
	const char *exe;

	if (asked->ask == ASK_PROFILES) {
		write_index(p, watch, &reply->body);
		return true;
	}
	if (!client_request_read(asked->bytes, asked->n, &request)) {
		http_error(reply, HTTP_BAD_REQUEST, "invalid request for a profile", NULL);
		return true;
	}
	if (!auth_admit(p->is.auth, &request, p->is.what, reply) ||
	    !read_profile_request(request.body, request.n_body, &take, &exe, reply) ||
	    !is_watched(watch, exe, take.pid, reply) ||
	    !may_start(p, asked->ask, request.peer, reply))
		return true;
	take.is_flame = asked->ask == ASK_FLAME || asked->ask == ASK_SITES;
	return !order_job(p, watch, &take, exe, asked->ask, asked->id, reply);
}

void profiling_end(struct profiling *p, uint64_t id)
{
	if (id && p->child.fd >= 0 && find_job(p, id))
		channel_ask(p->child.fd, (enum ask)PROFILING_CANCEL, id, "", 0);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void count_request(struct profiling *p, const struct ordered_job *job,
			  const struct http_reply *reply, const struct profiling_numbers *numbers)
{
	struct profile_counts *counts = p->is.counts;

	if (job->kind == COUNT_KINDS || reply->status == HTTP_CANCELLED)
		return;
	if (reply->status || !numbers) {
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
	if (p->child.pid) {
		reap(p);
		say("the profiling process ended; the next request starts another one");
	}
	for (size_t i = 0; i < PROFILING_MAX; i++) {
		struct ordered_job *job = &p->jobs[i];

		if (!job->id)
			continue;
		*id = job->id;
		http_error(reply, HTTP_UNAVAILABLE, "the profiling process ended", NULL);
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
		err = p->child.fd < 0
			      ? -EPIPE
			      : channel_receive(p->child.fd, id, &reply->status, &reply->body);
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
