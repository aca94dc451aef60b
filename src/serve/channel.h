/* SPDX-License-Identifier: MIT */
/*
 * Between the process that speaks HTTP and the one that measures: the former asks, the latter
 * answers in the same order, over a pair of sockets that keep messages whole. The one that measures
 * trusts nothing that it is asked. Neither waits for the other: an answer is a file in memory,
 * which may be of any size, and its descriptor.
 */
#ifndef SERVE_CHANNEL_H
#define SERVE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include "serve/strbuf.h"
#include "serve/negotiate.h"

enum ask {
	ASK_METRICS, /* and the others of enum exposition behind it */
	ASK_STATUS = EXPOSITIONS,
	ASK_HISTORY,
	ASK_PAIR_HISTORY,
	ASK_SWITCH, /* with a control_message */
	ASKS,
};

/* 64 KiB of a body, and headers, of which there are 16 KiB. */
enum { ASK_BYTES = 96 * 1024 };

struct asked {
	enum ask ask;
	size_t n;
	char bytes[ASK_BYTES + 1]; /* what goes with it, and a zero byte */
};

/* Make the pair. 0 or -errno. */
int channel_new(int fds[2]);

/* Ask. 0 or -errno: -EAGAIN: too much waits already; else there is nobody any more who answers. */
int channel_ask(int fd, enum ask ask, const void *bytes, size_t n);
/*
 * Take the answer to what was asked first: its status and, appended to BODY, what it says. 0 or
 * -errno: -EAGAIN: it has not come yet; else there is nobody any more who answers.
 */
int channel_receive(int fd, unsigned int *status, struct strbuf *body);

/*
 * Take what is asked. 0; or -EAGAIN: nothing is; -EPIPE: nobody is there any more; -EPROTO: it is
 * nothing that can be asked.
 */
int channel_take(int fd, struct asked *asked);
/* Answer it. 0 or -errno. */
int channel_answer(int fd, unsigned int status, const struct strbuf *body);

#endif
