// SPDX-License-Identifier: MIT
#include "serve/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/channel.h"
#include "serve/web/assets.h"

enum { PROFILE_WAIT_MS = 360000 }; /* how long a client waits for its profile */
enum { NOT_MODIFIED = 304, UNAUTHORIZED = 401, UNAVAILABLE = 503 };

/*
 * Costly answers are shared: each kind of request before ASK_SWITCH has its number for
 * http_share(), from 1.
 */
_Static_assert((int)ASK_SWITCH == (int)HTTP_MAX_SHARES, "there is room for each");

static void say_busy(const struct routes *routes, struct http_reply *reply)
{
	http_add_header(reply, "Retry-After", "1");
	http_error(reply, UNAVAILABLE,
		   routes->asks.is_alone ? "the server is shutting down"
					 : "the server is busy measuring",
		   NULL);
}

/* Return true if the client refuses cached answers (RFC 9111, 5.2.1.4). */
static bool wants_new(const struct http_request *request)
{
	char *list = http_header_list(request, "Cache-Control");
	const bool wants = list && strcasestr(list, "no-cache");

	free(list);
	return wants;
}

/* Answer with the measuring process's answer to ASK. TYPE is the Content-Type on success. */
static void pass_on(struct routes *routes, const struct http_request *request, enum ask ask,
		    const char *type, struct http_reply *reply)
{
	enum asks_result result;
	int64_t age_ms = 0;

	if (wants_new(request)) {
		reply->ticket = asks_queue(&routes->asks, ask, &(struct strbuf){ 0 });
		if (!reply->ticket)
			say_busy(routes, reply);
		return;
	}
	result = asks_get(&routes->asks, ask, &reply->body, &age_ms);
	http_add_header(reply, "Cache-Control", "no-store");
	reply->type = type;
	if (result == ASKS_NOTHING)
		say_busy(routes, reply);
	if (result != ASKS_OLD)
		return;
	snprintf(routes->age, sizeof(routes->age), "%lld", (long long)age_ms / 1000);
	http_add_header(reply, "Age", routes->age);
}

static const char *type_of(enum ask ask)
{
	if (ask == ASK_PROFILE || ask == ASK_HEAP)
		return "application/octet-stream";
	if (ask == ASK_PROFILES)
		return "text/plain; charset=utf-8";
	return ask < ASK_STATUS ? exposition_type((enum exposition)(ask - ASK_METRICS))
				: "application/json";
}

/*
 * Send the answer that has arrived from the measuring process to the clients that wait for TICKET.
 */
static void on_answer(void *data, enum ask ask, uint64_t ticket, unsigned int status,
		      struct strbuf *body)
{
	const struct routes *routes = data;
	struct http_reply reply = { .status = status,
				    .type = status ? "application/json" : type_of(ask) };

	if (!http_is_awaited(routes->http, ticket))
		return;
	strbuf_add(&reply.body, body->bytes, body->n);
	http_add_header(&reply, "Cache-Control", "no-store");
	if (ask < ASK_STATUS)
		http_add_header(&reply, "Vary", "Accept");
	if ((ask == ASK_PROFILE || ask == ASK_HEAP) && !status)
		http_add_header(&reply, "Content-Disposition",
				ask == ASK_HEAP ? "attachment; filename=\"heap.pb.gz\""
						: "attachment; filename=\"profile.pb.gz\"");
	if (status == UNAUTHORIZED)
		http_add_header(&reply, "WWW-Authenticate", "Bearer");
	http_answer(routes->http, ticket, &reply);
}

static void answer_metrics(void *data, const struct http_request *request, struct http_reply *reply)
{
	char *accept = http_header_list(request, "Accept");
	const enum exposition exposition = negotiate(accept);

	free(accept);
	if (http_share(request, reply, ASK_METRICS + exposition + 1))
		return;
	http_add_header(reply, "Vary", "Accept");
	pass_on(data, request, ASK_METRICS + exposition, exposition_type(exposition), reply);
}

static void answer_json(struct routes *routes, const struct http_request *request, enum ask ask,
			struct http_reply *reply)
{
	if (!http_share(request, reply, ask + 1))
		pass_on(routes, request, ask, "application/json", reply);
}

static void answer_status(void *data, const struct http_request *request, struct http_reply *reply)
{
	answer_json(data, request, ASK_STATUS, reply);
}

static void answer_history(void *data, const struct http_request *request, struct http_reply *reply)
{
	answer_json(data, request, ASK_HISTORY, reply);
}

/*
 * Answer with the history of the pairs, which the status does not contain. Pages request this
 * history repeatedly, as often as its size allows.
 */
static void answer_pair_history(void *data, const struct http_request *request,
				struct http_reply *reply)
{
	answer_json(data, request, ASK_PAIR_HISTORY, reply);
}

/* Answer with the history of the last 15 minutes. */
static void answer_quarter_hour(void *data, const struct http_request *request,
				struct http_reply *reply)
{
	answer_json(data, request, ASK_QUARTER_HOUR, reply);
}

static void answer_switch(void *data, const struct http_request *request, struct http_reply *reply)
{
	struct routes *routes = data;
	struct strbuf message = { 0 };

	client_request_write(&request->client, &message);
	if (message.is_short)
		http_error(reply, UNAVAILABLE, "out of memory", NULL);
	else
		reply->ticket = asks_queue(&routes->asks, ASK_SWITCH, &message);
	if (!reply->ticket && !reply->status)
		say_busy(routes, reply);
	strbuf_free(&message);
}

static void add_terminated_text(struct strbuf *out, const char *text)
{
	strbuf_add(out, text, strlen(text) + 1);
}

static void add_argument(void *data, const char *name, const char *value)
{
	add_terminated_text(data, name);
	add_terminated_text(data, value ? value : "");
}

/*
 * Append REQUEST, for a profile, to OUT as a message. Its body is the path and the arguments, as
 * serve/profiling.c parses them.
 */
static void write_profile_message(const struct http_request *request, struct strbuf *out)
{
	struct client_request client = request->client;
	struct strbuf text = { 0 };

	add_terminated_text(&text, request->path);
	http_arguments(request, add_argument, &text);
	client.body = text.bytes;
	client.n_body = text.n;
	if (text.is_short)
		out->is_short = true;
	else
		client_request_write(&client, out);
	strbuf_free(&text);
}

/* Pass REQUEST, for a profile, to the measuring process. The client gets the answer later. */
static void pass_on_profile(struct routes *routes, const struct http_request *request, enum ask ask,
			    struct http_reply *reply)
{
	struct strbuf message = { 0 };

	write_profile_message(request, &message);
	if (message.is_short || message.n > ASK_BYTES)
		http_error(reply, UNAVAILABLE, "out of memory", NULL);
	else
		reply->ticket = asks_queue(&routes->asks, ask, &message);
	reply->wait_ms = PROFILE_WAIT_MS;
	if (!reply->ticket && !reply->status)
		say_busy(routes, reply);
	strbuf_free(&message);
}

static void answer_profile(void *data, const struct http_request *request, struct http_reply *reply)
{
	pass_on_profile(data, request, ASK_PROFILE, reply);
}

static void answer_flame(void *data, const struct http_request *request, struct http_reply *reply)
{
	pass_on_profile(data, request, ASK_FLAME, reply);
}

static void answer_heap(void *data, const struct http_request *request, struct http_reply *reply)
{
	pass_on_profile(data, request, ASK_HEAP, reply);
}

static void answer_sites(void *data, const struct http_request *request, struct http_reply *reply)
{
	pass_on_profile(data, request, ASK_SITES, reply);
}

static void answer_profiles(void *data, const struct http_request *request,
			    struct http_reply *reply)
{
	pass_on_profile(data, request, ASK_PROFILES, reply);
}

static bool is_awaited(const void *data, uint64_t ticket)
{
	const struct routes *routes = data;

	return http_is_awaited(routes->http, ticket);
}

void routes_expire(struct routes *routes)
{
	http_expire(routes->http);
	asks_end_profiles(&routes->asks, is_awaited, routes);
}

static void answer_health(void *data, const struct http_request *request, struct http_reply *reply)
{
	(void)data;
	(void)request;
	reply->type = "text/plain; charset=utf-8";
	strbuf_lit(&reply->body, "ok\n");
}

/* Return true if LIST, the value of If-None-Match, contains TAG. */
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
	/* A reply with 304 must have the Content-Length of the full reply. */
	if (has_tag(http_header(request, "If-None-Match"), asset->etag))
		reply->status = NOT_MODIFIED;
	reply->type = asset->type;
	reply->data = asset->data;
	reply->n_data = asset->bytes;
}

static bool admit(void *data, const struct http_request *request, struct http_reply *reply)
{
	const struct routes *routes = data;

	return hosts_admit(routes->hosts, request->client.host, reply);
}

int routes_start(struct ocp_ctx *ctx, struct routes *routes, int listen_fd, struct http **http)
{
	static const struct http_route fixed[] = {
		{ "/metrics", HTTP_GET, answer_metrics },
		{ "/api/v1/status", HTTP_GET, answer_status },
		{ "/api/v1/history", HTTP_GET, answer_history },
		{ "/api/v1/history/pairs", HTTP_GET, answer_pair_history },
		{ "/api/v1/history/15m", HTTP_GET, answer_quarter_hour },
		{ "/api/v1/switch", HTTP_POST, answer_switch },
		{ "/api/v1/profile", HTTP_ONLY_GET, answer_flame },
		{ "/debug/pprof/profile", HTTP_ONLY_GET, answer_profile },
		{ "/debug/pprof/allocs", HTTP_ONLY_GET, answer_profile },
		{ "/debug/pprof/heap", HTTP_ONLY_GET, answer_heap },
		{ "/api/v1/heap", HTTP_ONLY_GET, answer_sites },
		{ "/debug/pprof/", HTTP_ONLY_GET, answer_profiles },
		{ "/healthz", HTTP_GET, answer_health },
	};
	const size_t n_fixed = sizeof(fixed) / sizeof(fixed[0]);
	struct http_route *list = malloc((n_fixed + n_assets) * sizeof(*list));
	const struct http_settings settings = {
		.listen_fd = listen_fd,
		.routes = list,
		.n_routes = n_fixed + n_assets,
		.admit = admit,
		.data = routes,
	};
	int err;

	if (!list) {
		close(listen_fd);
		return ctx_no_memory(ctx);
	}
	memcpy(list, fixed, sizeof(fixed));
	for (size_t i = 0; i < n_assets; i++)
		list[n_fixed + i] = (struct http_route){ assets[i].path, HTTP_GET, answer_asset };
	routes->list = list;
	routes->asks.on_answer = on_answer;
	routes->asks.data = routes;
	err = http_new(ctx, &settings, http);
	routes->http = *http;
	return err;
}

void routes_stop(struct routes *routes, struct http *http)
{
	http_free(http);
	free(routes->list);
	routes->list = NULL;
	asks_free(&routes->asks);
}
