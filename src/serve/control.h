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
	int64_t refusals_s; /* the second of the newest refusal, of CLOCK_MONOTONIC */
	/* Number of refusals in this second; only the first few are logged. */
	unsigned int n_refusals;
};

struct control_request {
	struct auth_request auth;
	struct switch_request wanted;
};

/*
 * Choose a random token, which clients must send to switch probes or to get profiles. HOSTS must
 * outlive CONTROL.
 */
int control_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct control *control);
/* Like control_init(), with the token in FILE, see auth_init_from(). */
int control_init_from(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file,
		      struct control *control);

/*
 * Log that PEER was refused WHAT because of WHY, unless too many refusals were logged in this
 * second.
 */
void control_log_refusal(struct control *control, const char *peer, const char *what,
			 const char *why);

/* Execute REQUEST if it is authorized, and fill in REPLY. */
void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct control_request *request, struct http_reply *reply);

#endif
