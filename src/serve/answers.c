// SPDX-License-Identifier: MIT
#include "serve/answers.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/api.h"
#include "serve/web/assets.h"

enum { NOT_MODIFIED = 304, FORBIDDEN = 403, SERVER_ERROR = 500 };

/* What takes long to make, for http_share: the metrics in each of their formats, and this. */
enum share { SHARE_STATUS = EXPOSITIONS + 1, SHARE_HISTORY, SHARE_PAIR_HISTORY, SHARES };

_Static_assert(SHARES - 1 == HTTP_MAX_SHARES, "there is room for each");

/* For numbers of this moment; false, and REPLY says why, if they cannot be had. */
static bool read_watch(struct answers *answers, struct http_reply *reply)
{
	if (watch_read(answers->watch) == 0)
		return true;
	http_error(reply, SERVER_ERROR, ocp_error(answers->ctx), ocp_hint(answers->ctx));
	return false;
}

static void answer_metrics(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct answers *answers = data;
	char *accept = http_header_list(request, "Accept");
	const enum exposition exposition = negotiate(accept);

	free(accept);
	if (http_share(request, reply, exposition + 1))
		return;
	http_add_header(reply, "Cache-Control", "no-store");
	http_add_header(reply, "Vary", "Accept");
	reply->type = exposition_type(exposition);
	if (read_watch(answers, reply))
		metrics_write(&reply->body, answers->watch, exposition, &answers->buckets,
			      answers->label_pid);
}

static void answer_status(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct answers *answers = data;

	if (http_share(request, reply, SHARE_STATUS))
		return;
	http_add_header(reply, "Cache-Control", "no-store");
	reply->type = "application/json";
	if (read_watch(answers, reply))
		api_write_status(&reply->body, answers->watch, answers->control);
}

static void answer_history(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct answers *answers = data;

	if (http_share(request, reply, SHARE_HISTORY))
		return;
	http_add_header(reply, "Cache-Control", "no-store");
	reply->type = "application/json";
	api_write_history(&reply->body, answers->watch, false);
}

/* What the status does not tell of the last minute; it is asked for each second. */
static void answer_pair_history(void *data, const struct http_request *request,
				struct http_reply *reply)
{
	struct answers *answers = data;

	if (http_share(request, reply, SHARE_PAIR_HISTORY))
		return;
	http_add_header(reply, "Cache-Control", "no-store");
	reply->type = "application/json";
	api_write_history(&reply->body, answers->watch, true);
}

static void answer_switch(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct answers *answers = data;

	if (answers->control)
		control_answer(answers->control, answers->ctx, answers->watch, request, reply);
	else
		http_error(reply, FORBIDDEN, "this server switches nothing",
			   "start it with --control");
}

static void answer_health(void *data, const struct http_request *request, struct http_reply *reply)
{
	(void)data;
	(void)request;
	reply->type = "text/plain; charset=utf-8";
	body_lit(&reply->body, "ok\n");
}

/* Is TAG in LIST, the value of If-None-Match? */
static bool has_tag(const char *list, const char *tag)
{
	const char *found = list ? strstr(list, tag) : NULL;

	return found || (list && strcmp(list, "*") == 0);
}

static void answer_asset(void *data, const struct http_request *request, struct http_reply *reply)
{
	const struct asset *asset = asset_find(request->path);

	(void)data;
	http_add_header(reply, "ETag", asset->etag);
	http_add_header(reply, "Cache-Control", "no-cache");
	http_add_header(reply, "Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
			"'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
			"frame-ancestors 'none'");
	http_add_header(reply, "Referrer-Policy", "no-referrer");
	/* The length goes with a 304 too, and must be what it would have been. */
	if (has_tag(http_header(request, "If-None-Match"), asset->etag))
		reply->status = NOT_MODIFIED;
	reply->type = asset->type;
	reply->data = asset->data;
	reply->n_data = asset->bytes;
}

static bool admit(void *data, const struct http_request *request, struct http_reply *reply)
{
	const struct answers *answers = data;

	return !answers->control || control_admit(answers->control, request, reply);
}

int answers_start(struct answers *answers, int listen_fd, struct http **http)
{
	static const struct http_route fixed[] = {
		{ "/metrics", HTTP_GET, answer_metrics },
		{ "/api/v1/status", HTTP_GET, answer_status },
		{ "/api/v1/history", HTTP_GET, answer_history },
		{ "/api/v1/history/pairs", HTTP_GET, answer_pair_history },
		{ "/api/v1/switch", HTTP_POST, answer_switch },
		{ "/healthz", HTTP_GET, answer_health },
	};
	const size_t n_fixed = sizeof(fixed) / sizeof(fixed[0]);
	struct http_route *routes = malloc((n_fixed + n_assets) * sizeof(*routes));
	const struct http_settings settings = {
		.listen_fd = listen_fd,
		.routes = routes,
		.n_routes = n_fixed + n_assets,
		.admit = admit,
		.data = answers,
	};

	if (!routes) {
		close(listen_fd);
		return ctx_no_memory(answers->ctx);
	}
	memcpy(routes, fixed, sizeof(fixed));
	for (size_t i = 0; i < n_assets; i++)
		routes[n_fixed + i] = (struct http_route){ assets[i].path, HTTP_GET, answer_asset };
	answers->routes = routes;
	return http_new(answers->ctx, &settings, http);
}

void answers_stop(struct answers *answers, struct http *http)
{
	http_free(http);
	free(answers->routes);
	answers->routes = NULL;
}
