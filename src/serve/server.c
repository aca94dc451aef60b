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
#include "serve/backend.h"
#include "serve/config.h"
#include "serve/front.h"
#include "serve/heap_child.h"
#include "serve/profiling_child.h"
#include "serve/textfile.h"

enum { UNAVAILABLE = 503 };

struct server {
	struct ocp_ctx *ctx;
	const struct options *options;
	const struct serve_options *own;
	struct config *config; /* NULL: no configuration file */
	struct backend backend;
	struct control control;
	struct hosts hosts;
	struct listener listener;
	struct front *front; /* NULL: no port is open */
	struct asked *asked;
	const char *textfile; /* NULL: no textfile is written */
	bool is_textfile_failing;
	int epoll_fd, signal_fd, tick_fd, textfile_fd; /* -1: not open */
	bool is_ending;
};

/* ---- targets and settings ------------------------------------------------------------------- */

/* Watch the targets of CONFIG; if CONFIG is NULL, watch the targets given by the options. */
static int watch_all(struct server *s, const struct config *config)
{
	const struct options *options = s->options;
	const size_t n_targets = config ? config->n_targets : options->n_pids;
	const size_t n = n_targets ? n_targets : 1;
	struct watch_spec *specs = calloc(n, sizeof(*specs));
	int err;

	if (!specs)
		return ctx_no_memory(s->ctx);
	specs[0] = (struct watch_spec){ .exe = options->exe,
					.engine = options->engine,
					.request = &options->request };
	for (size_t i = 0; i < n_targets; i++) {
		if (config)
			specs[i] = (struct watch_spec){ .exe = config->targets[i].exe,
							.may_be_missing = true,
							.pid = config->targets[i].pid,
							.engine = config->targets[i].engine,
							.request = &config->targets[i].request };
		else
			specs[i] = (struct watch_spec){ .pid = options->pids[i],
							.engine = options->engine,
							.request = &options->request };
	}
	err = watch_set(s->backend.watch, specs, n);
	if (err && config && n_targets)
		config_blame_target(s->ctx, config, watch_failed_spec(s->backend.watch), err);
	free(specs);
	return err;
}

/* Return the *N names of this server that the user has given, in addition to its own names. */
static const char *const *given_hosts(const struct server *s, const struct config *config,
				      size_t *n)
{
	const bool by_option = s->own->n_hosts || !config;

	*n = by_option ? s->own->n_hosts : config->n_hosts;
	return by_option ? s->own->hosts : config->hosts;
}

/* Apply the settings that need no restart. Options take precedence over CONFIG. */
static void use_settings(struct server *s, const struct config *config)
{
	s->hosts.names = given_hosts(s, config, &s->hosts.n_names);
	s->textfile = s->own->textfile ? s->own->textfile : config ? config->textfile : NULL;
	if (s->own->buckets.n)
		s->backend.buckets = s->own->buckets;
	else if (config && config->buckets.n)
		s->backend.buckets = config->buckets;
	else
		buckets_set_default(&s->backend.buckets);
}

/* Return the address to listen at; NULL: do not listen. */
static const char *listen_address(const struct server *s, const struct config *config)
{
	if (s->own->listen)
		return s->own->listen;
	if (config && config->listen)
		return config->listen;
	if (s->own->textfile || (config && config->textfile))
		return NULL;
	return "127.0.0.1:9464";
}

static bool labels_pid(const struct server *s, const struct config *config)
{
	return s->own->label_pid || (config && config->label_pid);
}

static bool equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool changes_hosts(const struct server *s, const struct config *new)
{
	size_t n_old, n_new;
	const char *const *old_names = given_hosts(s, s->config, &n_old);
	const char *const *new_names = given_hosts(s, new, &n_new);

	if (n_old != n_new)
		return true;
	for (size_t i = 0; i < n_new; i++)
		if (!equal(old_names[i], new_names[i]))
			return true;
	return false;
}

/* Return true if the user has named the programs to measure. If not, every program is measured. */
static bool names_programs(const struct server *s, const struct config *config)
{
	return config ? config->n_targets : s->options->n_pids || s->options->exe;
}

/*
 * Record and return the error that KEY cannot be changed as in NEW (or removed) without a restart.
 */
static int needs_restart(struct server *s, const struct config *new, const char *key)
{
	const int err = ctx_error(s->ctx, -EINVAL, "cannot change without a restart");

	config_blame(s->ctx, new, key);
	return err;
}

/*
 * Return 0 if the configuration can change to NEW without a restart, otherwise -EINVAL with a
 * message.
 */
static int check_change(struct server *s, const struct config *new)
{
	if (!equal(listen_address(s, s->config), listen_address(s, new)))
		return needs_restart(s, new, "listen");
	if (changes_hosts(s, new))
		return needs_restart(s, new, "hosts");
	if (labels_pid(s, s->config) != labels_pid(s, new))
		return needs_restart(s, new, "label_pid");
	if ((s->own->memprof || (s->backend.heaps && s->own->control)) &&
	    names_programs(s, s->config) && !names_programs(s, new)) {
		const int err = ctx_error(s->ctx, -EINVAL,
					  "cannot be left out without a restart: Gc.Memprof runs "
					  "only in programs that are named");

		config_blame(s->ctx, new, "targets");
		return err;
	}
	return 0;
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
	struct config *new = NULL;
	int err;

	if (!s->own->config) {
		say("SIGHUP: no configuration file to reload");
		return;
	}
	err = config_read(s->ctx, s->own->config, -1, &new);
	if (!err)
		err = check_change(s, new);
	if (!err)
		err = watch_all(s, new);
	if (err) {
		config_free(new);
		say_error(s->ctx, err);
		say("%s: reload failed; keeping the old configuration", s->own->config);
		return;
	}
	use_settings(s, new);
	config_free(s->config);
	s->config = new;
	say_reloaded(s);
}

/* ---- events --------------------------------------------------------------------------------- */

static int write_textfile(struct server *s)
{
	struct strbuf body = { 0 };
	int err;

	metrics_write(&body, s->backend.watch, EXPOSITION_TEXT, &s->backend.buckets,
		      s->backend.label_pid, backend_counts(&s->backend));
	err = textfile_write(s->ctx, s->textfile, &body);
	strbuf_free(&body);
	return err;
}

/*
 * Write the textfile. Report only the first of a series of failures, since failures such as a full
 * disk are temporary.
 */
static void renew_textfile(struct server *s)
{
	int err = s->textfile ? write_textfile(s) : 0;

	if (err && !s->is_textfile_failing)
		say_error(s->ctx, err);
	if (!err && s->is_textfile_failing)
		say("%s: writing succeeded again", s->textfile);
	s->is_textfile_failing = err;
}

/*
 * Called at each tick: profile the heaps of the watched processes. While Gc.Memprof may run, do not
 * count its own probes, since each event would then cost a trap.
 */
static void follow_heaps(struct server *s)
{
	if (s->own->memprof || profiling_runs(s->backend.heaps))
		watch_leave_probes(s->backend.watch, MEMPROF_PROBES);
	profiling_follow(s->backend.heaps, s->backend.watch);
}

static int on_tick(struct server *s)
{
	int err = watch_tick(s->backend.watch);

	if (!err && s->backend.profiling)
		profiling_follow(s->backend.profiling, s->backend.watch);
	if (!err && s->backend.heaps)
		follow_heaps(s);
	if (!err && s->textfile_fd < 0)
		renew_textfile(s);
	return err;
}

static int on_textfile_clock(struct server *s)
{
	int err = watch_read(s->backend.watch);

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
		http_error(reply, UNAVAILABLE, "out of memory", NULL);
	}
	err = channel_answer(front_fd(s->front), id, reply->status, &reply->body);
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
	return backend_answer(&s->backend, s->asked, &reply) ? send_reply(s, s->asked->id, &reply)
							     : 0;
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
			err = answer_profiles(s, s->backend.profiling);
		if (!err && s->front)
			err = answer_profiles(s, s->backend.heaps);
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
 * a client one.
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
	return s->own->control || s->own->profile || s->own->memprof;
}

/*
 * Start the HTTP process. Call this before the token is chosen and before anything is measured: the
 * HTTP process gets a copy of all memory.
 */
static int start_front(struct server *s)
{
	int err;

	hosts_init(&s->hosts, &s->listener, has_token(s), NULL, 0);
	s->hosts.names = given_hosts(s, s->config, &s->hosts.n_names);
	s->asked = malloc(sizeof(*s->asked));
	if (!s->asked)
		return ctx_no_memory(s->ctx);
	err = front_start(s->ctx, &s->listener, &s->hosts, &s->front);
	if (!err && has_token(s))
		err = s->own->token_file ? control_init_from(s->ctx, &s->hosts, s->own->token_file,
							     &s->control)
					 : control_init(s->ctx, &s->hosts, &s->control);
	if (s->own->control)
		s->backend.control = &s->control;
	return err;
}

/*
 * Open the port, and start the HTTP process. Call this before measuring starts, since a port in use
 * is the most likely failure.
 */
static int open_listener(struct server *s)
{
	const char *address = listen_address(s, s->config);
	const char *option = s->own->control ? "control" : s->own->profile ? "profile" : "memprof";
	int err;

	if (!address)
		return has_token(s) ? ctx_error(s->ctx, -EINVAL, "--%s requires --listen", option)
				    : 0;
	err = listen_open(s->ctx, address, &s->listener);
	if (!err && has_token(s) && !s->listener.is_loopback)
		err = ctx_error(s->ctx, -EINVAL,
				"--%s: %s: not a loopback address, so other machines could %s",
				option, address,
				s->own->control ? "switch probes" : "profile programs");
	if (err && s->config && s->config->listen == address)
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
	if (!err && has_token(s) && !s->own->token_file)
		say("serving http://%s/#token=%s", s->listener.name, s->control.auth.token);
	else if (!err)
		say("serving http://%s/", s->listener.name);
	return err;
}

static int start_profiling(struct server *s)
{
	const struct profiling_settings settings = {
		.child = profiling_child,
		.control = &s->control,
		.counts = &s->backend.counts,
		.epoll_fd = s->epoll_fd,
		.what = "profile",
		.index =
			"/debug/pprof/profile?seconds=30  CPU time\n"
			"/debug/pprof/allocs              words allocated since the first request\n"
			"/debug/pprof/allocs?seconds=30   words allocated in this time\n"
			"/debug/pprof/heap                words that are alive, by Gc.Memprof\n"
			"/debug/pprof/heap?seconds=30     the difference of two of these\n",
	};

	return profiling_start(s->ctx, &settings, &s->backend.profiling);
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
		.rate = s->own->memprof ? s->own->memprof_rate : MEMPROF_USUAL_RATE,
		.control = &s->control,
		.counts = &s->backend.counts,
		.epoll_fd = s->epoll_fd,
		.starts_later = !s->own->memprof,
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

	int err = profiling_start(s->ctx, &settings, &s->backend.heaps);

	if (!err)
		follow_heaps(s);
	return err;
}

static int set_up_server(struct server *s)
{
	int err = take_signals(s);

	raise_fd_limit();
	if (!err && s->own->config)
		err = config_read(s->ctx, s->own->config, s->signal_fd, &s->config);
	if (!err && s->own->memprof && !names_programs(s, s->config)) {
		err = ctx_error(s->ctx, -EINVAL,
				"not given: --memprof is for programs that are named");
		config_blame(s->ctx, s->config, "targets");
	}
	if (!err)
		err = open_listener(s);
	if (err)
		return err;
	use_settings(s, s->config);
	s->backend.label_pid = labels_pid(s, s->config);
	s->backend.watch = watch_new(s->ctx, s->backend.label_pid);
	err = s->backend.watch ? watch_all(s, s->config) : -ENOMEM;
	if (!err)
		err = watch_tick(s->backend.watch);
	if (!err && s->textfile) {
		err = write_textfile(s);
		if (err && s->config && s->config->textfile == s->textfile)
			config_blame(s->ctx, s->config, "textfile");
	}
	if (!err)
		err = add_timer(s, WATCH_TICK_MS * INT64_C(1000000), &s->tick_fd);
	if (!err && s->options->interval_ns)
		err = add_timer(s, s->options->interval_ns, &s->textfile_fd);
	if (!err)
		say_budget(s);
	if (!err && s->own->profile)
		err = start_profiling(s);
	if (!err && (s->own->profile || s->own->memprof))
		err = start_heaps(s);
	if (!err)
		err = open_port(s);
	return err;
}

static void tear_down_server(struct server *s)
{
	const int fds[] = { s->listener.fd, s->textfile_fd, s->tick_fd, s->signal_fd, s->epoll_fd };

	profiling_free(s->backend.profiling);
	profiling_free(s->backend.heaps);
	watch_free(s->backend.watch);
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
		.backend.ctx = options->ctx,
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
