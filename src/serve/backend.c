// SPDX-License-Identifier: MIT
#include "serve/backend.h"

#include "serve/api.h"
#include "serve/control_message.h"

enum { BAD_REQUEST = 400, FORBIDDEN = 403, SERVER_ERROR = 500 };

/* Read current numbers. False: they are not available, and REPLY says why. */
static bool read_watch(struct backend *backend, struct http_reply *reply)
{
	if (watch_read(backend->watch) == 0)
		return true;
	http_error(reply, SERVER_ERROR, ocp_error(backend->ctx), ocp_hint(backend->ctx));
	return false;
}

static void answer_switch(struct backend *backend, const struct asked *asked,
			  struct http_reply *reply)
{
	struct control_request request;

	if (!backend->control)
		http_error(reply, FORBIDDEN, "switching is disabled", "start it with --control");
	else if (!control_message_read(asked->bytes, asked->n, &request))
		http_error(reply, BAD_REQUEST, "invalid switch request", NULL);
	else
		control_answer(backend->control, backend->ctx, backend->watch, &request, reply);
}

void backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply)
{
	switch (asked->ask) {
	case ASK_STATUS:
		if (read_watch(backend, reply))
			api_write_status(&reply->body, backend->watch, backend->control);
		break;
	case ASK_HISTORY:
	case ASK_PAIR_HISTORY:
		api_write_history(&reply->body, backend->watch, asked->ask == ASK_PAIR_HISTORY);
		break;
	case ASK_SWITCH:
		answer_switch(backend, asked, reply);
		break;
	default:
		if (read_watch(backend, reply))
			metrics_write(&reply->body, backend->watch,
				      (enum exposition)(asked->ask - ASK_METRICS),
				      &backend->buckets, backend->label_pid);
	}
}
