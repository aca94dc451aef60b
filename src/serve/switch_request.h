/* SPDX-License-Identifier: MIT */
/* POST /api/v1/switch: parse the request, execute it, and log it in one line. */
#ifndef SERVE_SWITCH_REQUEST_H
#define SERVE_SWITCH_REQUEST_H

#include <stddef.h>
#include "serve/reply.h"
#include "watch/watch.h"

struct switch_request {
	const char *body; /* N_BODY bytes and a zero byte */
	size_t n_body;
	const char *peer; /* ADDRESS:PORT of the client */
};

/* Execute REQUEST, and fill in REPLY. REQUEST must have been authorized. */
void switch_request_answer(struct ocp_ctx *ctx, struct watch *watch,
			   const struct switch_request *request, struct http_reply *reply);

/* Print the time, PEER and the message to stderr, as one line with '?' for control characters. */
void switch_request_log(const char *peer, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
