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
	struct server_child child; /* the pid is 0 after the child was reaped */
	int status;
};

/* What the child needs for its start. */
struct front_setup {
	struct ocp_ctx *ctx;
	int listen_fd;
	const struct hosts *hosts;
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

/* Run as the child process. Does not return. */
static int be_front(const void *data, pid_t parent, int channel_fd)
{
	const struct front_setup *setup = data;
	struct routes routes = { .hosts = setup->hosts, .asks.fd = channel_fd };
	struct http *http = NULL;
	char go;
	int err = keep_two(setup->ctx, setup->listen_fd, channel_fd);

	prctl(PR_SET_NAME, "probes-http");
	if (!err)
		err = routes_start(setup->ctx, &routes, setup->listen_fd, &http);
	if (!err)
		err = enter_sandbox(setup->ctx, parent);
	server_child_report(setup->ctx, channel_fd, err);
	if (!err && recv(channel_fd, &go, 1, 0) == 1)
		serve_channel(&routes, http);
	routes_stop(&routes, http);
	exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* ---- the parent ----------------------------------------------------------------------------- */

/* Wait for the child to exit. After END_MS, kill it. */
static void reap(struct front *front)
{
	const int64_t deadline_ms = clock_ms() + END_MS;

	while (front->child.pid > 0) {
		const pid_t pid = waitpid(front->child.pid, &front->status, WNOHANG);

		if (pid > 0 || (pid < 0 && errno != EINTR))
			front->child.pid = 0;
		else if (clock_ms() >= deadline_ms)
			kill(front->child.pid, SIGKILL);
		if (front->child.pid > 0)
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
		kill(front->child.pid, SIGKILL);
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
	if (front->child.pid > 0) {
		shutdown(front->child.fd, SHUT_WR);
		reap(front);
		err = front->status ? say_end(ctx, front) : 0;
	}
	close(front->child.fd);
	free(front);
	return err;
}

/* Start the child. Return the error that the child has reported, or another one. */
static int start_child(struct ocp_ctx *ctx, struct front *front, const struct front_setup *setup)
{
	struct child_report report;
	int err = server_child_start(ctx, &front->child, be_front, setup, &report);

	if (err == -EPIPE)
		return front_failed(ctx, front, err);
	if (err || !report.err)
		return err;
	reap(front);
	ctx_set_error(ctx, "%s", report.error);
	if (*report.hint)
		ctx_hint(ctx, "%s", report.hint);
	return report.err;
}

int front_start(struct ocp_ctx *ctx, struct listener *listener, const struct hosts *hosts,
		struct front **out)
{
	const struct front_setup setup = { ctx, listener->fd, hosts };
	struct front *front = calloc(1, sizeof(*front));
	int err;

	if (!front)
		return ctx_no_memory(ctx);
	front->child.fd = -1;
	err = start_child(ctx, front, &setup);
	close(listener->fd);
	listener->fd = -1;
	if (!err) {
		*out = front;
		return 0;
	}
	if (front->child.fd >= 0)
		close(front->child.fd);
	free(front);
	return err;
}

int front_go(struct ocp_ctx *ctx, struct front *front)
{
	return send(front->child.fd, "", 1, MSG_NOSIGNAL) == 1 ? 0
							       : front_failed(ctx, front, -EPIPE);
}

int front_fd(const struct front *front)
{
	return front->child.fd;
}
