// SPDX-License-Identifier: MIT
#include "serve/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/interrupted.h"

enum { SOCKET_BYTES = 2 * ASK_BYTES };

struct ask_head {
	uint64_t id;
	uint32_t ask;
	uint32_t padding;
};

struct answer_head {
	uint64_t id;
	uint64_t n;
	uint32_t status;
	uint32_t padding;
};

/* A control message with room for one file descriptor. */
union control_bytes {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

int channel_new(int fds[2])
{
	const int bytes = SOCKET_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return 0;
}

/* ---- the process that requests -------------------------------------------------------------- */

int channel_ask(int fd, enum ask ask, uint64_t id, const void *bytes, size_t n)
{
	struct ask_head head = { .id = id, .ask = ask };
	struct iovec parts[] = { { &head, sizeof(head) }, { (void *)bytes, n } };
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/*
 * Receive the head of an answer, and the descriptor of the file with its body. The caller closes
 * the descriptor.
 */
static int take_answer(int fd, struct answer_head *head, int *body_fd)
{
	struct interruptions interruptions = { 0 };
	struct iovec part = { head, sizeof(*head) };
	union control_bytes control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	const struct cmsghdr *first;
	ssize_t n;

	do
		n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && is_interrupted(&interruptions));
	if (n < 0)
		return -errno;
	first = CMSG_FIRSTHDR(&message);
	if (n != sizeof(*head) || !first || first->cmsg_type != SCM_RIGHTS)
		return -EPIPE;
	memcpy(body_fd, CMSG_DATA(first), sizeof(*body_fd));
	return 0;
}

static int read_body(int fd, size_t n, struct strbuf *body)
{
	struct interruptions interruptions = { 0 };

	if (!strbuf_make_room(body, n))
		return 0; /* out of memory, which BODY records in is_short */
	for (size_t at = 0; at < n;) {
		const ssize_t got = pread(fd, body->bytes + body->n, n - at, (off_t)at);

		if (got < 0 && is_interrupted(&interruptions))
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EPIPE;
		at += (size_t)got;
		body->n += (size_t)got;
	}
	return 0;
}

int channel_receive(int fd, uint64_t *id, unsigned int *status, struct strbuf *body)
{
	struct answer_head head = { 0 };
	int body_fd = -1, err = take_answer(fd, &head, &body_fd);

	if (err)
		return err;
	*id = head.id;
	*status = head.status;
	err = read_body(body_fd, head.n, body);
	close(body_fd);
	return err;
}

/* ---- the process that answers --------------------------------------------------------------- */

int channel_take(int fd, struct asked *asked)
{
	struct ask_head head;
	struct iovec parts[] = { { &head, sizeof(head) }, { asked->bytes, ASK_BYTES } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
	if (n == 0)
		return -EPIPE;
	if ((size_t)n < sizeof(head) || head.ask >= ASKS || (message.msg_flags & MSG_TRUNC))
		return -EPROTO;
	asked->ask = head.ask;
	asked->id = head.id;
	asked->n = (size_t)n - sizeof(head);
	asked->bytes[asked->n] = '\0';
	return 0;
}

static int make_body(const struct strbuf *body)
{
	const int fd = memfd_create("answer", MFD_CLOEXEC);
	struct interruptions interruptions = { 0 };

	for (size_t at = 0; fd >= 0 && at < body->n;) {
		const ssize_t done = pwrite(fd, body->bytes + at, body->n - at, (off_t)at);

		if (done < 0 && !is_interrupted(&interruptions)) {
			const int err = -errno;

			close(fd);
			return err;
		}
		at += done > 0 ? (size_t)done : 0;
	}
	return fd < 0 ? -errno : fd;
}

/* Send the answer to the request ID, with the first N bytes of the file BODY_FD as its body. */
static int send_body(int fd, uint64_t id, unsigned int status, int body_fd, size_t n)
{
	struct answer_head head = { .id = id, .n = n, .status = status };
	struct iovec part = { &head, sizeof(head) };
	union control_bytes control = { .bytes = { 0 } };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *first = CMSG_FIRSTHDR(&message);

	first->cmsg_level = SOL_SOCKET;
	first->cmsg_type = SCM_RIGHTS;
	first->cmsg_len = CMSG_LEN(sizeof(body_fd));
	memcpy(CMSG_DATA(first), &body_fd, sizeof(body_fd));
	/*
	 * Do not block: the HTTP process limits the number of unanswered requests, so all answers
	 * fit into the socket.
	 */
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int channel_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body)
{
	const int body_fd = make_body(body);
	int err;

	if (body_fd < 0)
		return body_fd;
	err = send_body(fd, id, status, body_fd, body->n);
	close(body_fd);
	return err;
}

int channel_answer_file(int fd, uint64_t id, int body_fd, size_t n)
{
	return send_body(fd, id, 0, body_fd, n);
}

/* ---- child processes ------------------------------------------------------------------------ */

void server_child_report(struct ocp_ctx *ctx, int fd, int err)
{
	struct child_report report = { .err = err };

	if (err) {
		snprintf(report.error, sizeof(report.error), "%s", ocp_error(ctx));
		snprintf(report.hint, sizeof(report.hint), "%s",
			 ocp_hint(ctx) ? ocp_hint(ctx) : "");
	}
	send(fd, &report, sizeof(report), MSG_NOSIGNAL);
}

static int await_report(int fd, struct child_report *report)
{
	struct interruptions interruptions = { 0 };
	ssize_t n;

	do
		n = recv(fd, report, sizeof(*report), 0);
	while (n < 0 && is_interrupted(&interruptions));
	if (n != sizeof(*report))
		return -EPIPE;
	report->error[sizeof(report->error) - 1] = '\0';
	report->hint[sizeof(report->hint) - 1] = '\0';
	return 0;
}

int server_child_start(struct ocp_ctx *ctx, struct server_child *child,
		       int (*run)(const void *data, pid_t parent, int fd), const void *data,
		       struct child_report *report)
{
	const pid_t parent = getpid();
	int fds[2], err = channel_new(fds);
	pid_t pid;

	if (err)
		return ctx_error(ctx, err, "socketpair: %s", strerror(-err));
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(run(data, parent, fds[1]));
	if (pid < 0)
		err = ctx_error(ctx, -errno, "fork: %s", strerror(errno));
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	*child = (struct server_child){ .pid = pid, .fd = fds[0] };
	return await_report(fds[0], report);
}
