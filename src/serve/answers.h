/* SPDX-License-Identifier: MIT */
/* What is served at which path. */
#ifndef SERVE_ANSWERS_H
#define SERVE_ANSWERS_H

#include "serve/buckets.h"
#include "serve/control.h"
#include "serve/metrics.h"

/* Answers that take long to make: the metrics in either format, and the JSON. */
enum answer { ANSWER_TEXT, ANSWER_OPENMETRICS, ANSWER_STATUS, ANSWER_HISTORY, N_ANSWERS };

/* What the answers are made from. */
struct answers {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct control *control; /* NULL: nothing can be switched */
	struct buckets buckets;
	bool label_pid;
	struct http_route *routes;
	struct {
		unsigned int round; /* of http_request's late_round */
		struct body body;
	} kept[N_ANSWERS];
};

/* Serve ANSWERS, all of which but `routes` and `kept` is set, at LISTEN_FD, which is the server's
 * then. */
int answers_start(struct answers *answers, int listen_fd, struct http **http);
void answers_stop(struct answers *answers, struct http *http);

#endif
