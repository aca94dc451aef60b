// SPDX-License-Identifier: MIT
#include "serve/answers.h"

#include "serve/api.h"
#include "serve/control_message.h"

enum { BAD_REQUEST = 400, FORBIDDEN = 403, SERVER_ERROR = 500 };

/* For numbers of this moment; false, and REPLY says why, if they cannot be had. */
static bool read_watch(struct answers *answers, struct http_reply *reply)
{
	if (watch_read(answers->watch) == 0)
		return true;
	http_error(reply, SERVER_ERROR, ocp_error(answers->ctx), ocp_hint(answers->ctx));
	return false;
}

static void answer_switch(struct answers *answers, const struct asked *asked,
			  struct http_reply *reply)
{
	struct control_request request;

	if (!answers->control)
		http_error(reply, FORBIDDEN, "this server switches nothing",
			   "start it with --control");
	else if (!control_message_read(asked->bytes, asked->n, &request))
		http_error(reply, BAD_REQUEST, "no request to switch", NULL);
	else
		control_answer(answers->control, answers->ctx, answers->watch, &request, reply);
}

void answers_make(struct answers *answers, const struct asked *asked, struct http_reply *reply)
{
	switch (asked->ask) {
	case ASK_STATUS:
		if (read_watch(answers, reply))
			api_write_status(&reply->body, answers->watch, answers->control);
		break;
	case ASK_HISTORY:
	case ASK_PAIR_HISTORY:
		api_write_history(&reply->body, answers->watch, asked->ask == ASK_PAIR_HISTORY);
		break;
	case ASK_SWITCH:
		answer_switch(answers, asked, reply);
		break;
	default:
		if (read_watch(answers, reply))
			metrics_write(&reply->body, answers->watch,
				      (enum exposition)(asked->ask - ASK_METRICS),
				      &answers->buckets, answers->label_pid);
	}
}
