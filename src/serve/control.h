/* SPDX-License-Identifier: MIT */
/* Requests to switch: who may (serve/auth.h) has it done (serve/switch_request.h). */
#ifndef SERVE_CONTROL_H
#define SERVE_CONTROL_H

#include <stdint.h>
#include "serve/auth.h"
#include "serve/switch_request.h"
#include "watch/watch.h"

struct control {
	struct auth auth;
	int64_t refusals_s;	 /* the second in which the newest refusal came, and */
	unsigned int n_refusals; /* how many did in it: more than a few are not logged */
};

struct control_request {
	struct auth_request auth;
	struct switch_request wanted;
};

/* Choose a token. HOSTS outlive CONTROL. */
int control_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct control *control);

/* Answer a request to switch. */
void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct control_request *request, struct http_reply *reply);

#endif
