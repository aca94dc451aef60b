// SPDX-License-Identifier: MIT
#include "look/proc_events.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	ANSWER_NS = 200000000,		/* limit for the kernel to acknowledge the request */
	BUFFER_BYTES = 4 * 1024 * 1024, /* about 10 000 events */
};

/* The headers before the payload of each message. */
enum { HEAD_BYTES = sizeof(struct nlmsghdr) + sizeof(struct cn_msg) };

static int request_events(int fd)
{
	const enum proc_cn_mcast_op op = PROC_CN_MCAST_LISTEN;
	const struct nlmsghdr header = { .nlmsg_len = HEAD_BYTES + sizeof(op),
					 .nlmsg_type = NLMSG_DONE };
	const struct cn_msg connector = { .id = { CN_IDX_PROC, CN_VAL_PROC }, .len = sizeof(op) };
	char bytes[HEAD_BYTES + sizeof(op)];

	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), &connector, sizeof(connector));
	memcpy(bytes + HEAD_BYTES, &op, sizeof(op));
	return send(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) ? 0 : -errno;
}

/*
 * Read the next event into *EVENT. Returns false, with errno set, on failure; EAGAIN: no event is
 * waiting.
 */
static bool receive_event(int fd, struct proc_event *event)
{
	char bytes[4096];
	size_t left;

	for (;;) {
		const ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		/* An older kernel sends a shorter event, without the last members: these stay 0. */
		*event = (struct proc_event){ 0 };
		left = n > HEAD_BYTES ? (size_t)n - HEAD_BYTES : 0;
		if (!left)
			continue;
		memcpy(event, bytes + HEAD_BYTES, left < sizeof(*event) ? left : sizeof(*event));
		return true;
	}
}

/*
 * Wait until the kernel acknowledges the request for events. In a namespace other than the initial
 * one, the kernel never acknowledges the request. It may still send events, because another process
 * has requested them, so an event does not extend the deadline.
 */
static int await_answer(int fd)
{
	const int64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + ANSWER_NS;
	struct pollfd ready = { fd, POLLIN, 0 };
	struct proc_event event;
	int64_t left_ns = ANSWER_NS;

	while (left_ns > 0 && poll(&ready, 1, (int)(left_ns / 1000000) + 1) > 0) {
		while (receive_event(fd, &event))
			if (event.what == PROC_EVENT_NONE)
				return -(int)event.event_data.ack.err;
		left_ns = deadline_ns - clock_ns(CLOCK_MONOTONIC);
	}
	return -EOPNOTSUPP;
}

int proc_events_open(void)
{
	const struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC };
	const int bytes = BUFFER_BYTES;
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_CONNECTOR), err;

	if (fd < 0)
		return -errno;
	/* Setting the size needs a privilege; without it, the buffer keeps its default size. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	err = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) ? -errno : request_events(fd);
	if (!err)
		err = await_answer(fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

struct proc_event_seen proc_events_take(int fd)
{
	struct proc_event event;

	while (receive_event(fd, &event)) {
		const __typeof__(event.event_data.exec) *exec = &event.event_data.exec;
		const __typeof__(event.event_data.fork) *fork = &event.event_data.fork;
		const __typeof__(event.event_data.exit) *exit = &event.event_data.exit;

		if (event.what == PROC_EVENT_EXEC)
			return (struct proc_event_seen){ .kind = PROC_EVENT_EXECUTED,
							 .pid = exec->process_tgid };
		if (event.what == PROC_EVENT_FORK && fork->child_pid == fork->child_tgid)
			return (struct proc_event_seen){ .kind = PROC_EVENT_FORKED,
							 .pid = fork->child_tgid,
							 .parent = fork->parent_tgid };
		if (event.what == PROC_EVENT_EXIT)
			return (struct proc_event_seen){
				.kind = PROC_EVENT_ENDED,
				.pid = exit->process_tgid,
				.has_status = exit->process_pid == exit->process_tgid,
				.status = (int)exit->exit_code,
			};
	}
	return (struct proc_event_seen){
		.kind = errno == ENOBUFS ? PROC_EVENT_LOST : PROC_EVENT_NO_MORE,
	};
}
