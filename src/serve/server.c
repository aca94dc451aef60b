// SPDX-License-Identifier: MIT
/*
 * The main loop of the server. One thread with one epoll instance handles signals, the tick, the
 * textfile's timer, and the requests of the HTTP process (serve/front.h). A request for the metrics
 * or the status reads the meters, so its numbers are current. The tick computes rates and the
 * history.
 */
#include "serve/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "memprof/session.h"
#include "serve/api.h"
#include "serve/config.h"
#include "serve/front.h"
#include "serve/metrics.h"
#include "serve/profile_worker.h"
#include "serve/profiling.h"
#include "serve/recorders.h"
#include "serve/recordings.h"
#include "serve/switch_request.h"
#include "serve/textfile.h"

struct server {
	struct ocp_ctx *ctx;
	const struct options *options;
	const struct serve_options *own;
	struct config *config; /* NULL: no configuration file */
	/* The settings in effect, which come from the options and from `config`. */
	struct serve_settings settings;
	struct watch *watch;
	struct auth auth;
	struct auth *control;	     /* NULL: switching is not allowed */
	struct profiling *profiling; /* NULL: profiles are disabled */
	struct profiling *heaps;     /* NULL: profiles of the heap are disabled */
	struct profile_counts counts;
	struct recorders *recorders;   /* NULL: nothing is recorded */
	struct recordings *recordings; /* NULL: nothing is recorded */
	struct hosts hosts;
	struct listener listener;
	struct front *front; /* NULL: no port is open */
	struct asked *asked;
	bool is_textfile_failing;
	int epoll_fd, signal_fd, tick_fd, textfile_fd; /* -1: not open */
	bool is_ending;
};

/* ---- targets and settings ------------------------------------------------------------------- */

/* Watch the programs that the options name. */
static int watch_named(struct server *s)
{
	const struct options *options = s->options;
	const size_t n = options->n_pids ? options->n_pids : 1;
	struct watch_spec *specs = calloc(n, sizeof(*specs));
	int err;

	if (!specs)
		return ctx_no_memory(s->ctx);
	for (size_t i = 0; i < n; i++)
		specs[i] = (struct watch_spec){ .exe = options->n_pids ? NULL : options->exe,
						.pid = options->n_pids ? options->pids[i] : 0,
						.engine = options->engine,
						.request = &options->request };
	err = watch_set(s->watch, specs, n);
	free(specs);
	return err;
}

/*
 * Watch the targets of CONFIG. If CONFIG is NULL or has no targets, watch the programs that the
 * options name.
 */
static int watch_all(struct server *s, const struct config *config)
{
	int err;

	if (!config || !config->n_targets)
		return watch_named(s);
	err = watch_set(s->watch, config->targets, config->n_targets);
	if (err)
		config_blame_target(s->ctx, config, watch_failed_spec(s->watch), err);
	return err;
}

/* Set *IS to the settings of recorders: of the options OWN, else of the FILE, else defaults. */
static void find_record_settings(const struct serve_options *own,
				 const struct record_settings *file, struct record_settings *is)
{
	*is = *file;
	if (own->settings.record.folder)
		is->folder = own->settings.record.folder;
	if (!is->files)
		is->files = 20;
	if (!is->disk_mb)
		is->disk_mb = 1024;
	if (!is->memory_mb)
		is->memory_mb = 64;
}

/*
 * Set *SETTINGS to the settings in effect with CONFIG, which may be NULL. Options take precedence
 * over CONFIG.
 */
static void find_settings(const struct server *s, const struct config *config,
			  struct serve_settings *settings)
{
	const struct serve_settings none = { 0 }, *file = config ? &config->settings : &none;

	*settings = s->own->settings;
	if (!settings->n_hosts) {
		settings->hosts = file->hosts;
		settings->n_hosts = file->n_hosts;
	}
	if (!settings->textfile)
		settings->textfile = file->textfile;
	if (!settings->buckets.n)
		settings->buckets = file->buckets;
	if (!settings->buckets.n)
		buckets_set_default(&settings->buckets);
	if (!settings->listen)
		settings->listen = file->listen;
	if (!settings->listen && !settings->textfile)
		settings->listen = "127.0.0.1:9464";
	settings->label_pid |= file->label_pid;
	settings->profile |= file->profile;
	if (!settings->memprof) {
		settings->memprof = file->memprof;
		settings->memprof_rate = file->memprof_rate;
	}
	if (!settings->token_file)
		settings->token_file = file->token_file;
	find_record_settings(s->own, &file->record, &settings->record);
}

static bool equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool are_hosts_equal(const struct serve_settings *a, const struct serve_settings *b)
{
	if (a->n_hosts != b->n_hosts)
		return false;
	for (size_t i = 0; i < a->n_hosts; i++)
		if (!equal(a->hosts[i], b->hosts[i]))
			return false;
	return true;
}

/* Make SETTINGS the ones in effect. */
static void use_settings(struct server *s, const struct serve_settings *settings)
{
	s->settings = *settings;
	s->hosts.names = s->settings.hosts;
	s->hosts.n_names = s->settings.n_hosts;
}

/* Return true if the user has named the programs to measure. If not, every program is measured. */
static bool names_programs(const struct server *s, const struct config *config)
{
	return config ? config->n_targets : s->options->n_pids || s->options->exe;
}

/*
 * Return -EINVAL with the message that KEY cannot change without a restart. NEW is the new
 * configuration.
 */
static int needs_restart(struct server *s, const struct config *new, const char *key)
{
	const int err = ctx_error(s->ctx, -EINVAL, "cannot change without a restart");

	config_blame(s->ctx, new, key);
	return err;
}

/* Return -EINVAL with the message WHY about the targets of NEW, which names no program. */
static int lacks_names(struct server *s, const struct config *new, const char *why)
{
	const int err = ctx_error(s->ctx, -EINVAL, "%s", why);

	config_blame(s->ctx, new, "targets");
	return err;
}

static bool are_record_settings_equal(const struct record_settings *a,
				      const struct record_settings *b)
{
	return equal(a->folder, b->folder) && equal(a->last, b->last) && a->files == b->files &&
	       a->disk_mb == b->disk_mb && a->memory_mb == b->memory_mb;
}

/*
 * Return 0 if the configuration can change to NEW, and the settings to SETTINGS, without a restart.
 * Otherwise return -EINVAL with a message.
 */
static int check_change(struct server *s, const struct config *new,
			const struct serve_settings *settings)
{
	if (!equal(s->settings.listen, settings->listen))
		return needs_restart(s, new, "listen");
	if (!are_hosts_equal(&s->settings, settings))
		return needs_restart(s, new, "hosts");
	if (s->settings.label_pid != settings->label_pid)
		return needs_restart(s, new, "label_pid");
	if (s->settings.profile != settings->profile)
		return needs_restart(s, new, "profile");
	if (s->settings.memprof != settings->memprof ||
	    (settings->memprof && s->settings.memprof_rate < settings->memprof_rate) ||
	    (settings->memprof && s->settings.memprof_rate > settings->memprof_rate))
		return needs_restart(s, new, "memprof");
	if (!equal(s->settings.token_file, settings->token_file))
		return needs_restart(s, new, "token_file");
	if (!are_record_settings_equal(&s->settings.record, &settings->record))
		return needs_restart(s, new, "record");
	if (s->settings.record.folder && !names_programs(s, new))
		return lacks_names(s, new,
				   "cannot be left out without a restart: only programs "
				   "that are named are recorded");
	if ((s->settings.memprof || (s->heaps && s->own->control)) &&
	    names_programs(s, s->config) && !names_programs(s, new)) {
		return lacks_names(s, new,
				   "cannot be left out without a restart: Gc.Memprof runs only in "
				   "programs that are named");
	}
	return 0;
}

/* Record the programs of CONFIG or, if CONFIG has no targets, those that the options name. */
static int record_all(struct server *s, const struct config *config)
{
	const struct options *options = s->options;
	const bool has_targets = config && config->n_targets;
	const size_t n = has_targets ? config->n_targets : options->n_pids ? options->n_pids : 1;
	struct recorded_program *programs = calloc(n, sizeof(*programs));
	int err;

	if (!programs)
		return ctx_no_memory(s->ctx);
	for (size_t i = 0; i < n; i++)
		programs[i] = has_targets ? (struct recorded_program){
			.exe = config->targets[i].exe,
			.pid = config->targets[i].pid,
			.request = config->targets[i].request,
			.conditions = &config->conditions[i],
		} : (struct recorded_program){
			.exe = options->n_pids ? NULL : options->exe,
			.pid = options->n_pids ? options->pids[i] : 0,
			.request = &options->request,
			.conditions = &s->own->conditions,
		};
	err = recorders_set(s->recorders, programs, n);
	free(programs);
	return err;
}

static void say_reloaded(const struct server *s)
{
	const size_t n = s->config->n_targets;

	if (n)
		say("%s: configuration reloaded, %zu target%s", s->own->config, n,
		    n == 1 ? "" : "s");
	else
		say("%s: configuration reloaded, every program with probes", s->own->config);
}

/* Read the configuration file again. Apply all of it or, after an error, nothing. */
static void reload(struct server *s)
{
	struct serve_settings settings;
	struct config *new = NULL;
	int err;

	if (!s->own->config) {
		say("SIGHUP: no configuration file to reload");
		return;
	}
	err = config_read(s->ctx, s->own->config, -1, &new);
	if (!err) {
		find_settings(s, new, &settings);
		err = check_change(s, new, &settings);
	}
	if (!err)
		err = watch_all(s, new);
	if (err) {
		config_free(new);
		say_error(s->ctx, err);
		say("%s: reload failed; keeping the old configuration", s->own->config);
		return;
	}
	use_settings(s, &settings);
	config_free(s->config);
	s->config = new;
	say_reloaded(s);
	if (s->recorders && record_all(s, new))
		say("%s: the recorders were not changed: %s", s->own->config, ocp_error(s->ctx));
}

/* ---- answers to the HTTP process ------------------------------------------------------------ */

/* Return the counters of profiles, for the metrics. NULL: profiles are disabled. */
static const struct profile_counts *profile_counts_of(const struct server *s)
{
	return s->profiling || s->heaps ? &s->counts : NULL;
}

/* Read current numbers. Return false if this fails; then REPLY has the error. */
static bool read_watch(struct server *s, struct http_reply *reply)
{
	if (watch_read(s->watch) == 0)
		return true;
	http_error(reply, HTTP_SERVER_ERROR, ocp_error(s->ctx), ocp_hint(s->ctx));
	return false;
}

static void answer_switch(struct server *s, const struct asked *asked, struct http_reply *reply)
{
	struct client_request request;

	if (!s->control)
		http_error(reply, HTTP_FORBIDDEN, "switching is disabled",
			   "start it with --control");
	else if (!client_request_read(asked->bytes, asked->n, &request))
		http_error(reply, HTTP_BAD_REQUEST, "invalid switch request", NULL);
	else
		switch_request_take(s->control, s->ctx, s->watch, &request, reply);
}

static bool answer_profile(struct server *s, const struct asked *asked, struct http_reply *reply)
{
	const bool is_of_heap = asked->ask == ASK_HEAP || asked->ask == ASK_SITES;
	const bool is_index = asked->ask == ASK_PROFILES && !s->profiling;
	struct profiling *profiling = is_of_heap || is_index ? s->heaps : s->profiling;

	if (profiling)
		return profiling_answer(profiling, s->watch, asked, reply);
	http_error(reply, HTTP_NOT_FOUND, "profiling is disabled",
		   is_of_heap ? "start it with --memprof" : "start it with --profile");
	return true;
}

static bool answer_recording(struct server *s, const struct asked *asked, struct http_reply *reply)
{
	if (s->recordings)
		return recordings_answer(s->recordings, asked, reply);
	http_error(reply, HTTP_NOT_FOUND, "nothing is recorded", "start it with --record");
	return true;
}

/*
 * Answer the untrusted request ASKED. Return true if REPLY is the answer. Return false if no answer
 * is to be sent now: ASK_END_OF_PROFILE gets no answer, and profiling_take() returns the answer to
 * a request for a profile later.
 */
static bool answer_asked(struct server *s, const struct asked *asked, struct http_reply *reply)
{
	switch (asked->ask) {
	case ASK_STATUS:
		if (read_watch(s, reply))
			api_write_status(&reply->body, s->watch, s->control, s->profiling,
					 s->heaps && profiling_runs(s->heaps), s->recordings);
		break;
	case ASK_HISTORY:
	case ASK_PAIR_HISTORY:
		api_write_history(&reply->body, s->watch, WATCH_MINUTE,
				  asked->ask == ASK_PAIR_HISTORY);
		break;
	case ASK_QUARTER_HOUR:
		api_write_history(&reply->body, s->watch, WATCH_QUARTER_HOUR, false);
		break;
	case ASK_SWITCH:
		answer_switch(s, asked, reply);
		break;
	case ASK_PROFILE:
	case ASK_FLAME:
	case ASK_HEAP:
	case ASK_SITES:
	case ASK_PROFILES:
		return answer_profile(s, asked, reply);
	case ASK_RECORDINGS:
	case ASK_RECORDING:
	case ASK_TICKET:
	case ASK_PAGE:
	case ASK_DUMP:
		return answer_recording(s, asked, reply);
	case ASK_END_OF_PROFILE:
		if (s->profiling)
			profiling_end(s->profiling, asked->id);
		if (s->heaps)
			profiling_end(s->heaps, asked->id);
		return false;
	default:
		if (read_watch(s, reply))
			metrics_write(
				&reply->body, s->watch, (enum exposition)(asked->ask - ASK_METRICS),
				&s->settings.buckets, s->settings.label_pid, profile_counts_of(s));
	}
	return true;
}

/* ---- events --------------------------------------------------------------------------------- */

static int write_textfile(struct server *s)
{
	struct strbuf body = { 0 };
	int err;

	metrics_write(&body, s->watch, EXPOSITION_TEXT, &s->settings.buckets, s->settings.label_pid,
		      profile_counts_of(s));
	err = textfile_write(s->ctx, s->settings.textfile, &body);
	strbuf_free(&body);
	return err;
}

/*
 * Write the textfile. Report only the first of a series of failures, since failures such as a full
 * disk are temporary.
 */
static void renew_textfile(struct server *s)
{
	int err = s->settings.textfile ? write_textfile(s) : 0;

	if (err && !s->is_textfile_failing)
		say_error(s->ctx, err);
	if (!err && s->is_textfile_failing)
		say("%s: writing succeeded again", s->settings.textfile);
	s->is_textfile_failing = err;
}

/*
 * Called at each tick: send the watched processes to the process that profiles heaps. While this
 * process runs, do not count the probes of Gc.Memprof, since a trap for each event is too costly.
 */
static void follow_heaps(struct server *s)
{
	if (s->settings.memprof || profiling_runs(s->heaps))
		watch_leave_probes(s->watch, MEMPROF_PROBES);
	profiling_follow(s->heaps, s->watch);
}

static int on_tick(struct server *s)
{
	int err = watch_tick(s->watch);

	if (!err && s->profiling)
		profiling_follow(s->profiling, s->watch);
	if (!err && s->heaps)
		follow_heaps(s);
	if (!err && s->recordings)
		recordings_prune(s->recordings);
	if (!err && s->textfile_fd < 0)
		renew_textfile(s);
	return err;
}

static int on_textfile_clock(struct server *s)
{
	int err = watch_read(s->watch);

	if (!err)
		renew_textfile(s);
	return err;
}

static void on_signal(struct server *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP)
			reload(s);
		else
			s->is_ending = true;
	}
}

static bool expired(int fd)
{
	uint64_t times;

	return fd >= 0 && read(fd, &times, sizeof(times)) == sizeof(times);
}

/* Send REPLY as the answer to the request ID of the HTTP process, and free the body of REPLY. */
static int send_reply(struct server *s, uint64_t id, struct http_reply *reply)
{
	int err;

	if (reply->body.is_short) {
		strbuf_free(&reply->body);
		http_error(reply, HTTP_UNAVAILABLE, "out of memory", NULL);
	}
	if (reply->has_file) {
		err = channel_answer_file(front_fd(s->front), id, reply->file_fd, reply->n_file);
		close(reply->file_fd);
	} else {
		err = channel_answer(front_fd(s->front), id, reply->status, &reply->body);
	}
	strbuf_free(&reply->body);
	return err ? front_failed(s->ctx, s->front, err) : 0;
}

/* Answer one request of the HTTP process, if there is one. */
static int answer_front(struct server *s)
{
	struct http_reply reply = { 0 };
	int err = channel_take(front_fd(s->front), s->asked);

	if (err == -EAGAIN)
		return 0;
	if (err)
		return front_failed(s->ctx, s->front, err);
	return answer_asked(s, s->asked, &reply) ? send_reply(s, s->asked->id, &reply) : 0;
}

/* Send the profiles that are ready. PROFILING may be NULL. */
static int answer_profiles(struct server *s, struct profiling *profiling)
{
	int err = 0;

	if (!profiling)
		return 0;

	while (!err) {
		struct http_reply reply = { 0 };
		uint64_t id;

		if (!profiling_take(profiling, &id, &reply))
			break;
		err = send_reply(s, id, &reply);
	}
	return err;
}

/* Send the answers of recorders that are ready. */
static int answer_recordings(struct server *s)
{
	int err = 0;

	while (!err && s->recordings) {
		struct http_reply reply = { 0 };
		uint64_t id;

		if (!recordings_take(s->recordings, &id, &reply))
			break;
		err = send_reply(s, id, &reply);
	}
	return err;
}

static int run_loop(struct server *s)
{
	struct epoll_event event;
	int err = 0;

	while (!err && !s->is_ending) {
		if (epoll_wait(s->epoll_fd, &event, 1, -1) < 0 && errno != EINTR)
			return ctx_error(s->ctx, -errno, "epoll: %s", strerror(errno));
		on_signal(s);
		if (expired(s->tick_fd))
			err = on_tick(s);
		if (!err && expired(s->textfile_fd))
			err = on_textfile_clock(s);
		if (!err && s->front)
			err = answer_front(s);
		if (!err && s->front)
			err = answer_profiles(s, s->profiling);
		if (!err && s->front)
			err = answer_profiles(s, s->heaps);
		if (!err && s->recorders)
			recorders_tick(s->recorders);
		if (!err && s->front)
			err = answer_recordings(s);
	}
	return err;
}

/* ---- setting up ----------------------------------------------------------------------------- */

static int add_fd(struct server *s, int fd, const char *what)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		return ctx_error(s->ctx, -errno, "%s: %s", what, strerror(errno));
	return 0;
}

/* Add a timer that expires whenever CLOCK_MONOTONIC is a multiple of INTERVAL_NS. */
static int add_timer(struct server *s, int64_t interval_ns, int *fd)
{
	const int64_t second_ns = 1000000000;
	struct itimerspec timer;
	int64_t next_ns;
	int err;

	next_ns = clock_ns(CLOCK_MONOTONIC);
	next_ns += interval_ns - next_ns % interval_ns;
	timer.it_interval = (struct timespec){ interval_ns / second_ns, interval_ns % second_ns };
	timer.it_value = (struct timespec){ next_ns / second_ns, next_ns % second_ns };
	*fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	err = add_fd(s, *fd, "timerfd");
	if (!err && timerfd_settime(*fd, TFD_TIMER_ABSTIME, &timer, NULL) != 0)
		err = ctx_error(s->ctx, -errno, "timerfd: %s", strerror(errno));
	return err;
}

/* Create the epoll instance. From now on, signals are read from signal_fd. */
static int take_signals(struct server *s)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return ctx_error(s->ctx, -errno, "epoll: %s", strerror(errno));
	s->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return add_fd(s, s->signal_fd, "signalfd");
}

/*
 * Raise the limit of open files to its maximum: a measured program takes about thirty descriptors,
 * and a client takes one.
 */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Return true if the server offers anything that requires the token. */
static bool has_token(const struct server *s)
{
	return s->own->control || s->settings.profile || s->settings.memprof ||
	       s->settings.record.folder;
}

/*
 * Return what requires the token, as the user has written it: an option, or the key "profile",
 * "memprof" or "record" of the file, in quotes.
 */
static const char *token_reason(const struct server *s)
{
	const struct serve_settings *given = &s->own->settings;

	if (s->own->control)
		return "--control";
	if (s->settings.profile)
		return given->profile ? "--profile" : "'profile'";
	if (s->settings.memprof)
		return given->memprof ? "--memprof" : "'memprof'";
	return given->record.folder ? "--record" : "'record'";
}

/* Return -EINVAL with the message that something requires the token, but no port is opened. */
static int lacks_listen(const struct server *s)
{
	const char *reason = token_reason(s);
	const bool is_key = *reason == '\'';
	const int err = ctx_error(s->ctx, -EINVAL, "%s requires %s", reason,
				  is_key ? "'listen'" : "--listen");

	if (is_key)
		config_blame(s->ctx, s->config,
			     s->settings.profile   ? "profile"
			     : s->settings.memprof ? "memprof"
						   : "record");
	return err;
}

/* Check that conditions are given only if there is a folder for the recordings. */
static int check_conditions(const struct server *s)
{
	for (size_t i = 0; s->config && !s->settings.record.folder && i < s->config->n_targets;
	     i++) {
		char where[32];
		int err;

		if (!s->config->conditions[i].n)
			continue;
		err = ctx_error(s->ctx, -EINVAL, "requires 'record'");
		snprintf(where, sizeof(where), "targets[%zu].when", i);
		config_blame(s->ctx, s->config, where);
		return err;
	}
	return 0;
}

/* Check that the token, if there is a file for it, has a use, and that the programs are named. */
static int check_settings(const struct server *s)
{
	int err = 0;

	if (s->settings.token_file && !has_token(s)) {
		if (s->own->settings.token_file)
			return ctx_error(s->ctx, -EINVAL,
					 "--token-file requires --control, --profile, --memprof or "
					 "--record");
		err = ctx_error(s->ctx, -EINVAL,
				"requires 'profile', 'memprof', 'record' or the option --control");
		config_blame(s->ctx, s->config, "token_file");
	}
	if (!err && s->settings.memprof && !names_programs(s, s->config)) {
		err = ctx_error(s->ctx, -EINVAL, "not given: %s is for programs that are named",
				s->own->settings.memprof ? "--memprof" : "'memprof'");
		config_blame(s->ctx, s->config, "targets");
	}
	if (!err && s->settings.record.folder && !names_programs(s, s->config)) {
		err = ctx_error(s->ctx, -EINVAL, "not given: %s is for programs that are named",
				s->own->settings.record.folder ? "--record" : "'record'");
		config_blame(s->ctx, s->config, "targets");
	}
	return err ? err : check_conditions(s);
}

/* Choose the token, or read it from its file. */
static int start_auth(struct server *s)
{
	const char *file = s->settings.token_file;
	const int err = auth_init(s->ctx, &s->hosts, file, &s->auth);

	if (err && file && s->config && s->config->settings.token_file == file)
		config_blame(s->ctx, s->config, "token_file");
	return err;
}

/*
 * Start the HTTP process. Call this before the token is chosen and before anything is measured: the
 * HTTP process gets a copy of all memory.
 */
static int start_front(struct server *s)
{
	int err;

	hosts_init(&s->hosts, &s->listener, has_token(s), (const char *const *)s->settings.hosts,
		   s->settings.n_hosts);
	s->asked = malloc(sizeof(*s->asked));
	if (!s->asked)
		return ctx_no_memory(s->ctx);
	err = front_start(s->ctx, &s->listener, &s->hosts, &s->front);
	if (!err && has_token(s))
		err = start_auth(s);
	if (s->own->control)
		s->control = &s->auth;
	return err;
}

/*
 * Open the port, and start the HTTP process. Call this before measuring starts, since a port in use
 * is the most likely failure.
 */
static int open_listener(struct server *s)
{
	const char *address = s->settings.listen;
	int err;

	if (!address)
		return has_token(s) ? lacks_listen(s) : 0;
	err = listen_open(s->ctx, address, &s->listener);
	if (!err && has_token(s) && !s->listener.is_loopback)
		err = ctx_error(s->ctx, -EINVAL,
				"%s: %s: not a loopback address, so other machines could %s",
				token_reason(s), address,
				s->own->control ? "switch probes" : "profile programs");
	if (err && s->config && s->config->settings.listen == address)
		config_blame(s->ctx, s->config, "listen");
	return err ? err : start_front(s);
}

/* Report the budget given by the options. Budgets given by a configuration are in the status. */
static void say_budget(const struct server *s)
{
	const double percent = 100 * s->options->request.budget;
	const bool has_all = !s->options->n_pids && !s->options->exe;

	if (percent <= 0 || s->options->quiet || (s->config && s->config->n_targets))
		return;
	say("%s, budget %g%% of a core each; the busiest counters are switched off above it",
	    has_all ? "every program with probes" : "the programs named", percent);
}

/* Let the HTTP process serve clients, and print the address. */
static int open_port(struct server *s)
{
	int err;

	if (!s->front)
		return 0;
	err = front_go(s->ctx, s->front);
	if (!err)
		err = add_fd(s, front_fd(s->front), "epoll");
	if (!err && has_token(s) && !s->settings.token_file)
		say("serving http://%s/#token=%s", s->listener.name, s->auth.token);
	else if (!err)
		say("serving http://%s/", s->listener.name);
	return err;
}

static int start_profiling(struct server *s)
{
	const struct profiling_settings settings = {
		.child = profiling_child,
		.auth = &s->auth,
		.counts = &s->counts,
		.epoll_fd = s->epoll_fd,
		.what = "profile",
		.index =
			"/debug/pprof/profile?seconds=30  CPU time\n"
			"/debug/pprof/allocs              words allocated since the first request\n"
			"/debug/pprof/allocs?seconds=30   words allocated in this time\n"
			"/debug/pprof/heap                words that are alive, by Gc.Memprof\n"
			"/debug/pprof/heap?seconds=30     the difference of two of these\n",
	};

	return profiling_start(s->ctx, &settings, &s->profiling);
}

/*
 * Prepare heap profiles. Without --memprof, a request may start Gc.Memprof if --control is given
 * and the user has named the programs.
 */
static int start_heaps(struct server *s)
{
	const bool may_start = s->own->control && names_programs(s, s->config);
	const struct profiling_settings settings = {
		.child = heap_child,
		.rate = s->settings.memprof ? s->settings.memprof_rate : MEMPROF_USUAL_RATE,
		.auth = &s->auth,
		.counts = &s->counts,
		.epoll_fd = s->epoll_fd,
		.starts_later = !s->settings.memprof,
		.forbidden =
			may_start ? NULL : "Gc.Memprof does not run, and requests may not start it",
		.hint = may_start
				? "GET /debug/pprof/heap starts it"
				: "start the server with --memprof, or with --control, for programs "
				  "that are named",
		.what = "heap profile",
		.index = "/debug/pprof/heap                words that are alive, by Gc.Memprof\n"
			 "/debug/pprof/heap?seconds=30     the difference of two of these\n",
	};

	int err = profiling_start(s->ctx, &settings, &s->heaps);

	if (!err)
		follow_heaps(s);
	return err;
}

static int start_recorders(struct server *s)
{
	int err = recorders_new(s->ctx, &s->settings.record, s->epoll_fd, &s->recorders);

	if (!err)
		err = recordings_new(s->ctx, &s->settings.record, &s->auth, s->recorders,
				     s->epoll_fd, &s->recordings);
	if (err && s->config && s->config->settings.record.folder == s->settings.record.folder)
		config_blame(s->ctx, s->config, "record.folder");
	return err ? err : record_all(s, s->config);
}

static int set_up_server(struct server *s)
{
	int err = take_signals(s);

	raise_fd_limit();
	if (!err && s->own->config)
		err = config_read(s->ctx, s->own->config, s->signal_fd, &s->config);
	find_settings(s, s->config, &s->settings);
	if (!err)
		err = check_settings(s);
	if (!err)
		err = open_listener(s);
	if (err)
		return err;
	s->watch = watch_new(s->ctx, s->settings.label_pid);
	err = s->watch ? watch_all(s, s->config) : -ENOMEM;
	if (!err)
		err = watch_tick(s->watch);
	if (!err && s->settings.textfile) {
		err = write_textfile(s);
		if (err && s->config && s->config->settings.textfile == s->settings.textfile)
			config_blame(s->ctx, s->config, "textfile");
	}
	if (!err)
		err = add_timer(s, WATCH_TICK_MS * INT64_C(1000000), &s->tick_fd);
	if (!err && s->options->interval_ns)
		err = add_timer(s, s->options->interval_ns, &s->textfile_fd);
	if (!err)
		say_budget(s);
	if (!err && s->settings.profile)
		err = start_profiling(s);
	if (!err && (s->settings.profile || s->settings.memprof))
		err = start_heaps(s);
	if (!err && s->settings.record.folder)
		err = start_recorders(s);
	if (!err)
		err = open_port(s);
	return err;
}

static void tear_down_server(struct server *s)
{
	const int fds[] = { s->listener.fd, s->textfile_fd, s->tick_fd, s->signal_fd, s->epoll_fd };

	profiling_free(s->profiling);
	profiling_free(s->heaps);
	recordings_free(s->recordings);
	recorders_free(s->recorders);
	watch_free(s->watch);
	config_free(s->config);
	free(s->asked);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

int serve(const struct options *options)
{
	struct server server = {
		.ctx = options->ctx,
		.options = options,
		.own = options->own,
		.listener.fd = -1,
		.epoll_fd = -1,
		.signal_fd = -1,
		.tick_fd = -1,
		.textfile_fd = -1,
	};
	int err = set_up_server(&server), code, end_code;

	if (!err)
		err = run_loop(&server);
	/*
	 * -ECANCELED: a signal arrived while the configuration was being read, so the server just
	 * ends.
	 */
	code = err && err != -ECANCELED ? say_error(options->ctx, err) : EXIT_DONE;
	err = front_free(options->ctx, server.front);
	end_code = err ? say_error(options->ctx, err) : EXIT_DONE;
	if (code == EXIT_DONE)
		code = end_code;
	tear_down_server(&server);
	return code;
}
