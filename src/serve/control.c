// SPDX-License-Identifier: MIT
#include "serve/control.h"

#include "base/clock.h"

enum { MAX_LOGGED_A_SECOND = 5 };

int control_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct control *control)
{
	*control = (struct control){ 0 };
	return auth_init(ctx, hosts, &control->auth);
}

int control_init_from(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file,
		      struct control *control)
{
	*control = (struct control){ 0 };
	return auth_init_from(ctx, hosts, file, &control->auth);
}

/*
 * Return false if too many refusals were logged in this second: refused clients must not fill the
 * log.
 */
static bool may_log_refusal(struct control *control)
{
	const int64_t now_s = clock_ns(CLOCK_MONOTONIC) / 1000000000;

	if (now_s != control->refusals_s) {
		control->refusals_s = now_s;
		control->n_refusals = 0;
	}
	return control->n_refusals++ < MAX_LOGGED_A_SECOND;
}

void control_log_refusal(struct control *control, const char *peer, const char *what,
			 const char *why)
{
	if (may_log_refusal(control))
		switch_request_log(peer, "%s refused: %s", what, why);
}

void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct control_request *request, struct http_reply *reply)
{
	const char *why = auth_refuse(&control->auth, &request->auth, reply);

	if (!why)
		switch_request_answer(ctx, watch, &request->wanted, reply);
	else
		control_log_refusal(control, request->wanted.peer, "switch", why);
}
