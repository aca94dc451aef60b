/* SPDX-License-Identifier: MIT */
/* What is answered to the process that speaks HTTP (see serve/front.h). */
#ifndef SERVE_ANSWERS_H
#define SERVE_ANSWERS_H

#include "serve/buckets.h"
#include "serve/channel.h"
#include "serve/control.h"
#include "serve/metrics.h"

/* What the answers are made from. */
struct answers {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct control *control; /* NULL: nothing can be switched */
	struct buckets buckets;
	bool label_pid;
};

/* Answer ASKED, which anybody may have written. */
void answers_make(struct answers *answers, const struct asked *asked, struct http_reply *reply);

#endif
