/* SPDX-License-Identifier: MIT */
/* POST /api/v1/switch: what is asked for, doing it, and a line in the log for each. */
#ifndef SERVE_ORDER_H
#define SERVE_ORDER_H

#include "serve/http.h"
#include "watch/watch.h"

/* Do what REQUEST, which is allowed, asks for. */
void order_answer(struct ocp_ctx *ctx, struct watch *watch, const struct http_request *request,
		  struct http_reply *reply);

/* Say the time, PEER and what happened. Control characters are shown as '?'. */
void order_log(const char *peer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
