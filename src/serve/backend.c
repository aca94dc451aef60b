// SPDX-License-Identifier: MIT
#include "serve/backend.h"

#include "serve/api.h"
#include "serve/switch_request.h"

enum { BAD_REQUEST = 400, FORBIDDEN = 403, NOT_FOUND = 404, SERVER_ERROR = 500 };

/* Read current numbers. Return false if this fails; then REPLY has the error. */
static bool read_watch(struct backend *backend, struct http_reply *reply)
{
	if (watch_read(backend->watch) == 0)
		return true;
	http_error(reply, SERVER_ERROR, ocp_error(backend->ctx), ocp_hint(backend->ctx));
	return false;
}

const struct profile_counts *backend_counts(const struct backend *backend)
{
	return backend->profiling || backend->heaps ? &backend->counts : NULL;
}

static void answer_switch(struct backend *backend, const struct asked *asked,
			  struct http_reply *reply)
{
	struct client_request request;

	if (!backend->control)
		http_error(reply, FORBIDDEN, "switching is disabled", "start it with --control");
	else if (!client_request_read(asked->bytes, asked->n, &request))
		http_error(reply, BAD_REQUEST, "invalid switch request", NULL);
	else
		switch_request_take(backend->control, backend->ctx, backend->watch, &request,
				    reply);
}

static bool answer_profile(struct backend *backend, const struct asked *asked,
			   struct http_reply *reply)
{
	const bool is_of_heap = asked->ask == ASK_HEAP || asked->ask == ASK_SITES;
	const bool is_index = asked->ask == ASK_PROFILES && !backend->profiling;
	struct profiling *profiling = is_of_heap || is_index ? backend->heaps : backend->profiling;

	if (profiling)
		return profiling_answer(profiling, backend->watch, asked, reply);
	http_error(reply, NOT_FOUND, "profiling is disabled",
		   is_of_heap ? "start it with --memprof" : "start it with --profile");
	return true;
}

bool backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply)
{
	switch (asked->ask) {
	case ASK_STATUS:
		if (read_watch(backend, reply))
			api_write_status(&reply->body, backend->watch, backend->control,
					 backend->profiling,
					 backend->heaps && profiling_runs(backend->heaps));
		break;
	case ASK_HISTORY:
	case ASK_PAIR_HISTORY:
		api_write_history(&reply->body, backend->watch, WATCH_MINUTE,
				  asked->ask == ASK_PAIR_HISTORY);
		break;
	case ASK_QUARTER_HOUR:
		api_write_history(&reply->body, backend->watch, WATCH_QUARTER_HOUR, false);
		break;
	case ASK_SWITCH:
		answer_switch(backend, asked, reply);
		break;
	case ASK_PROFILE:
	case ASK_FLAME:
	case ASK_HEAP:
	case ASK_SITES:
	case ASK_PROFILES:
		return answer_profile(backend, asked, reply);
	case ASK_END_OF_PROFILE:
		if (backend->profiling)
			profiling_end(backend->profiling, asked->id);
		if (backend->heaps)
			profiling_end(backend->heaps, asked->id);
		return false;
	default:
		if (read_watch(backend, reply))
			metrics_write(&reply->body, backend->watch,
				      (enum exposition)(asked->ask - ASK_METRICS),
				      &backend->buckets, backend->label_pid,
				      backend_counts(backend));
	}
	return true;
}
