/* SPDX-License-Identifier: MIT */
/*
 * The processes of the server, and the connection between two of them: a pair of sockets that
 * preserve message boundaries. One process sends requests, each with an id. The other process sends
 * each answer with the id of its request. The HTTP process sends requests to the measuring process,
 * which does not trust them; the measuring process sends requests to the processes that take
 * profiles (serve/profile_worker.h). A profile takes long, so later requests may be answered before
 * the request for the profile. Neither process blocks when it sends. The body of an answer is
 * passed as the descriptor of a file in memory, so it may have any size.
 */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "base/strbuf.h"
#include "serve/negotiate.h"

enum ask {
	ASK_METRICS, /* ASK_METRICS + E: the metrics in format E of enum exposition */
	ASK_STATUS = EXPOSITIONS,
	ASK_HISTORY,
	ASK_PAIR_HISTORY,
	ASK_QUARTER_HOUR,
	ASK_SWITCH,	/* ASK_SWITCH to ASK_DUMP are sent with a message (serve/request.h) */
	ASK_PROFILE,	/* a profile in pprof's format */
	ASK_FLAME,	/* a flame graph as JSON, for the page */
	ASK_HEAP,	/* a profile of the heap in pprof's format */
	ASK_SITES,	/* the allocation sites of the heap, as JSON */
	ASK_PROFILES,	/* the index page, which lists the paths and the programs */
	ASK_RECORDINGS, /* the list of recordings, see serve/recordings.h */
	ASK_RECORDING,	/* a file of a recording */
	ASK_TICKET,	/* the address of a page of a recording */
	ASK_PAGE,	/* this page */
	ASK_DUMP,	/* let a recorder write a file */
	/*
	 * Sent with the id of an earlier request for a profile: the client of that profile has
	 * gone. ASK_END_OF_PROFILE itself gets no answer.
	 */
	ASK_END_OF_PROFILE,
	ASKS,
};

/* Large enough for a request with a body of 64 KiB and 16 KiB of headers. */
enum { ASK_BYTES = 96 * 1024 };

struct asked {
	enum ask ask;
	uint64_t id;
	size_t n;
	char bytes[ASK_BYTES + 1]; /* the message and a zero byte */
};

/* Create the pair of sockets. Return 0 or -errno. */
int channel_new(int fds[2]);

/*
 * Send a request. Return 0 or -errno. -EAGAIN: the socket is full, since too many requests are
 * waiting; any other error: the process at the other end has exited.
 */
int channel_ask(int fd, enum ask ask, uint64_t id, const void *bytes, size_t n);
/*
 * Receive an answer: set *ID to the id of the request that is answered, set *STATUS to the HTTP
 * status, and append the body of the answer to BODY. Return 0 or -errno. -EAGAIN: no answer has
 * arrived; any other error: the channel cannot be used any more, usually because the process at the
 * other end has exited.
 */
int channel_receive(int fd, uint64_t *id, unsigned int *status, struct strbuf *body);

/*
 * Receive a request. Return 0 or -errno. -EAGAIN: no request has arrived; -EPIPE: the process at
 * the other end has exited; -EPROTO: the request is invalid.
 */
int channel_take(int fd, struct asked *asked);
/* Send STATUS and BODY as the answer to the request ID. Return 0 or -errno. */
int channel_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body);
/* Like channel_answer(), with status 200: the body is the first N bytes of the file BODY_FD. */
int channel_answer_file(int fd, uint64_t id, int body_fd, size_t n);

/* ---- child processes ------------------------------------------------------------------------ */

/* A child process of the server, and the channel to the child. */
struct server_child {
	pid_t pid; /* 0: the child does not run */
	int fd;	   /* -1: not open */
};

/*
 * The first message of a child. If err is 0, the child is ready. Otherwise, the message says why
 * the child cannot work.
 */
struct child_report {
	int err;
	char error[256], hint[256];
};

/*
 * Fork CHILD. The child calls RUN with DATA, the pid of its parent and its own end of the channel,
 * and exits with the status that RUN returns. Wait for the report of the child. Return 0 and set
 * REPORT; -EPIPE without a message if the child ended before its report; or another error, after
 * which the child does not run.
 */
int server_child_start(struct ocp_ctx *ctx, struct server_child *child,
		       int (*run)(const void *data, pid_t parent, int fd), const void *data,
		       struct child_report *report);
/* In the child: send a report of ERR, with the error and the hint recorded in CTX. */
void server_child_report(struct ocp_ctx *ctx, int fd, int err);

#endif
