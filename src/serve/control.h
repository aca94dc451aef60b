/* SPDX-License-Identifier: MIT */
/* Switch requests: serve/auth.h authorizes them, serve/switch_request.h executes them. */
#ifndef SERVE_CONTROL_H
#define SERVE_CONTROL_H

#include <stdint.h>
#include "serve/auth.h"
#include "serve/switch_request.h"
#include "watch/watch.h"

struct control {
	struct auth auth;
	int64_t refusals_s;	 /* time of the newest refusal, in seconds */
	unsigned int n_refusals; /* refusals in that second; only the first few are logged */
};

struct control_request {
	struct auth_request auth;
	struct switch_request wanted;
};

/* Choose a token. HOSTS must outlive CONTROL. The token also guards profiles. */
int control_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct control *control);
/* Like control_init(), with the token in FILE. */
int control_init_from(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file,
		      struct control *control);

/* Log that PEER was refused WHAT, unless too many refusals were logged in this second. */
void control_log_refusal(struct control *control, const char *peer, const char *what,
			 const char *why);

/* Answer a switch request. */
void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct control_request *request, struct http_reply *reply);

#endif
