/* SPDX-License-Identifier: MIT */
/* What is served at which path. */
#ifndef SERVE_ANSWERS_H
#define SERVE_ANSWERS_H

#include "serve/buckets.h"
#include "serve/control.h"
#include "serve/metrics.h"

/* What the answers are made from. */
struct answers {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct control *control; /* NULL: nothing can be switched */
	struct buckets buckets;
	bool label_pid;
	struct http_route *routes;
};

/* Serve ANSWERS, all of which but `routes` is set, at LISTEN_FD, which is the server's
 * then. */
int answers_start(struct answers *answers, int listen_fd, struct http **http);
void answers_stop(struct answers *answers, struct http *http);

#endif
