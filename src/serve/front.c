// SPDX-License-Identifier: MIT
#include "serve/front.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/interrupted.h"
#include "serve/routes.h"
#include "serve/sandbox.h"

enum { EXPIRE_MS = 1000, END_MS = 5000 };

struct front {
	pid_t pid; /* 0: already reaped */
	int status;
	int fd;
};

/* What the child reports after its start: that it is ready (err is 0), or why it failed. */
struct ready_report {
	int err;
	char error[256], hint[256];
};

/* ---- the child ------------------------------------------------------------------------------ */

/*
 * Serve clients until the channel fails, usually because the measuring process has exited. Take
 * answers from the channel whenever they arrive: some come after asks_get() has stopped waiting for
 * them.
 */
static void serve_channel(struct routes *routes, struct http *http)
{
	struct pollfd both[] = { { .fd = http_fd(http), .events = POLLIN },
				 { .fd = routes->asks.fd, .events = POLLIN } };
	int64_t expire_ms = clock_ms() + EXPIRE_MS;

	while (!routes->asks.is_alone) {
		const int timeout_ms = http_timeout_ms(http);

		poll(both, 2, timeout_ms < 0 || timeout_ms > EXPIRE_MS ? EXPIRE_MS : timeout_ms);
		if (both[1].revents)
			asks_collect(&routes->asks);
		http_run(http);
		if (clock_ms() >= expire_ms) {
			routes_expire(routes);
			expire_ms = clock_ms() + EXPIRE_MS;
		}
	}
}

/* With sanitizers, do not filter system calls: the leak checker ptraces the other threads. */
#ifdef __SANITIZE_ADDRESS__
static const bool is_filtered = false;
#else
static const bool is_filtered = true;
#endif

/*
 * Give up all rights that the HTTP process does not need, and let the kernel kill this process when
 * PARENT exits.
 */
static int enter_sandbox(struct ocp_ctx *ctx, pid_t parent)
{
	int err = confine_drop_capabilities(ctx);

	/*
	 * Do this after dropping capabilities: the kernel clears this setting when credentials
	 * change.
	 */
	if (!err && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		err = ctx_error(ctx, -errno, "prctl(PR_SET_PDEATHSIG): %s", strerror(errno));
	if (!err && getppid() != parent)
		err = ctx_error(ctx, -ESRCH, "the server has exited");
	if (!err && is_filtered)
		err = sandbox_filter_syscalls(ctx);
	return err;
}

static int keep_two(struct ocp_ctx *ctx, int a, int b)
{
	const int kept[] = { a < b ? a : b, a < b ? b : a };

	return confine_close_files(ctx, kept, 2);
}

static void report_start(struct ocp_ctx *ctx, int fd, int err)
{
	struct ready_report report = { .err = err };

	if (err) {
		snprintf(report.error, sizeof(report.error), "%s", ocp_error(ctx));
		snprintf(report.hint, sizeof(report.hint), "%s",
			 ocp_hint(ctx) ? ocp_hint(ctx) : "");
	}
	send(fd, &report, sizeof(report), MSG_NOSIGNAL);
}

/* Run as the child process. Return its exit status. */
static int be_front(struct ocp_ctx *ctx, pid_t parent, int listen_fd, int channel_fd,
		    const struct hosts *hosts)
{
	struct routes routes = { .hosts = hosts, .asks.fd = channel_fd };
	struct http *http = NULL;
	char go;
	int err = keep_two(ctx, listen_fd, channel_fd);

	prctl(PR_SET_NAME, "probes-http");
	if (!err)
		err = routes_start(ctx, &routes, listen_fd, &http);
	if (!err)
		err = enter_sandbox(ctx, parent);
	report_start(ctx, channel_fd, err);
	if (!err && recv(channel_fd, &go, 1, 0) == 1)
		serve_channel(&routes, http);
	routes_stop(&routes, http);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the parent ----------------------------------------------------------------------------- */

/* Wait for the child to exit. After END_MS, kill it. */
static void reap(struct front *front)
{
	const int64_t deadline_ms = clock_ms() + END_MS;

	while (front->pid > 0) {
		const pid_t pid = waitpid(front->pid, &front->status, WNOHANG);

		if (pid > 0 || (pid < 0 && errno != EINTR))
			front->pid = 0;
		else if (clock_ms() >= deadline_ms)
			kill(front->pid, SIGKILL);
		if (front->pid > 0)
			poll(NULL, 0, 5);
	}
}

static int say_end(struct ocp_ctx *ctx, const struct front *front)
{
	static const char who[] = "the HTTP process";

	if (WIFSIGNALED(front->status))
		return ctx_error(ctx, -EIO, "%s was killed by signal %d (%s)", who,
				 WTERMSIG(front->status), strsignal(WTERMSIG(front->status)));
	return ctx_error(ctx, -EIO, "%s ended with status %d", who, WEXITSTATUS(front->status));
}

int front_failed(struct ocp_ctx *ctx, struct front *front, int code)
{
	if (code != -EPIPE)
		kill(front->pid, SIGKILL);
	reap(front);
	if (code == -EPIPE)
		return say_end(ctx, front);
	return ctx_error(ctx, -EIO, "the HTTP process violated the protocol: %s; it was killed",
			 strerror(-code));
}

int front_free(struct ocp_ctx *ctx, struct front *front)
{
	int err = 0;

	if (!front)
		return 0;
	if (front->pid > 0) {
		shutdown(front->fd, SHUT_WR);
		reap(front);
		err = front->status ? say_end(ctx, front) : 0;
	}
	close(front->fd);
	free(front);
	return err;
}

static int await_report(struct ocp_ctx *ctx, struct front *front)
{
	struct interruptions interruptions = { 0 };
	struct ready_report report;
	ssize_t n;

	do
		n = recv(front->fd, &report, sizeof(report), 0);
	while (n < 0 && is_interrupted(&interruptions));
	if (n != sizeof(report))
		return front_failed(ctx, front, -EPIPE);
	if (!report.err)
		return 0;
	reap(front);
	report.error[sizeof(report.error) - 1] = '\0';
	report.hint[sizeof(report.hint) - 1] = '\0';
	ctx_set_error(ctx, "%s", report.error);
	if (*report.hint)
		ctx_hint(ctx, "%s", report.hint);
	return report.err;
}

/* Fork the child, and wait for its report. Closes LISTEN_FD, also after an error. */
static int fork_front(struct ocp_ctx *ctx, struct front *front, int listen_fd,
		      const struct hosts *hosts)
{
	const pid_t parent = getpid();
	int fds[2], err = channel_new(fds);

	if (err) {
		close(listen_fd);
		return ctx_error(ctx, err, "socketpair: %s", strerror(-err));
	}
	front->fd = fds[0];
	fflush(NULL);
	front->pid = fork();
	if (front->pid == 0)
		exit(be_front(ctx, parent, listen_fd, fds[1], hosts));
	if (front->pid < 0)
		err = ctx_error(ctx, -errno, "fork: %s", strerror(errno));
	close(fds[1]);
	close(listen_fd);
	return err ? err : await_report(ctx, front);
}

int front_start(struct ocp_ctx *ctx, struct listener *listener, const struct hosts *hosts,
		struct front **out)
{
	struct front *front = calloc(1, sizeof(*front));
	int listen_fd = listener->fd, err;

	if (!front)
		return ctx_no_memory(ctx);
	listener->fd = -1;
	front->fd = -1;
	*out = front;
	err = fork_front(ctx, front, listen_fd, hosts);
	if (!err)
		return 0;
	*out = NULL;
	if (front->fd >= 0)
		close(front->fd);
	free(front);
	return err;
}

int front_go(struct ocp_ctx *ctx, struct front *front)
{
	return send(front->fd, "", 1, MSG_NOSIGNAL) == 1 ? 0 : front_failed(ctx, front, -EPIPE);
}

int front_fd(const struct front *front)
{
	return front->fd;
}
