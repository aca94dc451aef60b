/* SPDX-License-Identifier: MIT */
/*
 * The other side of serve/front.h, in the process that measures: it answers what the front asks
 * over the channel. Which path asks for what is in serve/routes.c.
 */
#ifndef SERVE_BACKEND_H
#define SERVE_BACKEND_H

#include "serve/buckets.h"
#include "serve/channel.h"
#include "serve/control.h"
#include "serve/metrics.h"

/* What the answers are made from. */
struct backend {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct control *control; /* NULL: nothing can be switched */
	struct buckets buckets;
	bool label_pid;
};

/* Answer ASKED, which anybody may have written. */
void backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply);

#endif
