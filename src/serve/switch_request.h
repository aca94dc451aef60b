/* SPDX-License-Identifier: MIT */
/* POST /api/v1/switch: what is asked for, doing it, and a line in the log for each. */
#ifndef SERVE_SWITCH_REQUEST_H
#define SERVE_SWITCH_REQUEST_H

#include <stddef.h>
#include "serve/reply.h"
#include "watch/watch.h"

struct switch_request {
	const char *body; /* N_BODY bytes, and a zero byte behind them */
	size_t n_body;
	const char *peer; /* ADDRESS:PORT of who asks */
};

/* Do what REQUEST, which is allowed, asks for. */
void switch_request_answer(struct ocp_ctx *ctx, struct watch *watch,
			   const struct switch_request *request, struct http_reply *reply);

/* Say the time, PEER and what happened. Control characters are shown as '?'. */
void switch_request_log(const char *peer, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
