/* SPDX-License-Identifier: MIT */
/*
 * The connection between the HTTP process and the measuring process: a pair of sockets that
 * preserve message boundaries. The HTTP process sends requests, each with an id. The measuring
 * process answers with that id, and does not trust the requests. A profile may be answered after
 * later requests. Neither process waits for the other. An answer is passed as the descriptor of a
 * file in memory, so it may have any size.
 */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include "base/strbuf.h"
#include "serve/negotiate.h"

enum ask {
	ASK_METRICS, /* followed by the other values of enum exposition */
	ASK_STATUS = EXPOSITIONS,
	ASK_HISTORY,
	ASK_PAIR_HISTORY,
	ASK_QUARTER_HOUR,
	ASK_SWITCH,	    /* with a control_message, like the next five */
	ASK_PROFILE,	    /* in pprof's format */
	ASK_FLAME,	    /* as JSON, for the page */
	ASK_HEAP,	    /* in pprof's format */
	ASK_SITES,	    /* the allocation sites of the heap, as JSON */
	ASK_PROFILES,	    /* the index page, which lists the paths and the programs */
	ASK_END_OF_PROFILE, /* the client of the profile ID has gone; this request gets no answer */
	ASKS,
};

/* Room for a body of 64 KiB, and for 16 KiB of headers. */
enum { ASK_BYTES = 96 * 1024 };

struct asked {
	enum ask ask;
	uint64_t id;
	size_t n;
	char bytes[ASK_BYTES + 1]; /* the message and a zero byte */
};

/* Create the pair. 0 or -errno. */
int channel_new(int fds[2]);

/*
 * Send a request. 0 or -errno. -EAGAIN: too many requests are waiting; others: the other process
 * has exited.
 */
int channel_ask(int fd, enum ask ask, uint64_t id, const void *bytes, size_t n);
/*
 * Take an answer: the id of its request, its status, and its text appended to BODY. 0 or -errno.
 * -EAGAIN: none has arrived; others: the other process has exited.
 */
int channel_receive(int fd, uint64_t *id, unsigned int *status, struct strbuf *body);

/*
 * Take a request. 0 or -errno. -EAGAIN: none has arrived; -EPIPE: the other process has exited;
 * -EPROTO: the request is invalid.
 */
int channel_take(int fd, struct asked *asked);
/* Answer the request with that ID. 0 or -errno. */
int channel_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body);

#endif
