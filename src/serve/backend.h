/* SPDX-License-Identifier: MIT */
/*
 * The part of the measuring process that answers the requests of the HTTP process (serve/front.h)
 * over the channel. serve/routes.c maps paths to requests.
 */
#ifndef SERVE_BACKEND_H
#define SERVE_BACKEND_H

#include "serve/buckets.h"
#include "serve/channel.h"
#include "serve/control.h"
#include "serve/metrics.h"

/* The sources of the answers. */
struct backend {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct control *control; /* NULL: switching is not allowed */
	struct buckets buckets;
	bool label_pid;
};

/* Answer ASKED, which is untrusted. */
void backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply);

#endif
