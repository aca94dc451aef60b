// SPDX-License-Identifier: MIT
#include "serve/control.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "serve/order.h"

enum {
	FORBIDDEN = 403,
	UNAUTHORIZED = 401,
	UNSUPPORTED_MEDIA_TYPE = 415,
	MAX_LOGGED_A_SECOND = 5,
};

int control_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct control *control)
{
	unsigned char random[TOKEN_BYTES];

	*control = (struct control){ .hosts = hosts };
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return ctx_error(ctx, -EIO, "getrandom: no random numbers for the token");
	for (size_t i = 0; i < TOKEN_BYTES; i++)
		snprintf(control->token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* ---- requests to switch --------------------------------------------------------------------- */

/* How long it takes says nothing of where they differ. */
static bool is_token(const struct control *control, const char *text)
{
	const size_t bytes = strlen(control->token);
	unsigned char difference = 0;

	if (strlen(text) != bytes)
		return false;
	for (size_t i = 0; i < bytes; i++)
		difference |= (unsigned char)(text[i] ^ control->token[i]);
	return difference == 0;
}

static bool is_authorized(const struct control *control, const struct control_request *request)
{
	static const char scheme[] = "Bearer ";
	const struct control_header *header = &request->authorization;

	return header->n == 1 && strncasecmp(header->value, scheme, sizeof(scheme) - 1) == 0 &&
	       is_token(control, header->value + sizeof(scheme) - 1);
}

/*
 * Browsers say where the page is from that sends a POST; other programs do not. A proxy, whose name
 * was given, may be asked by https.
 */
static bool is_same_origin(const struct control *control, const struct control_request *request)
{
	static const char http[] = "http://", https[] = "https://";
	const struct control_header *origin = &request->origin;

	if (!origin->n)
		return true;
	if (origin->n > 1 || !request->host)
		return false;
	if (strncmp(origin->value, http, sizeof(http) - 1) == 0)
		return strcasecmp(origin->value + sizeof(http) - 1, request->host) == 0;
	return strncmp(origin->value, https, sizeof(https) - 1) == 0 &&
	       hosts_is_named(control->hosts, request->host) &&
	       strcasecmp(origin->value + sizeof(https) - 1, request->host) == 0;
}

static bool is_json(const struct control_request *request)
{
	static const char type[] = "application/json";
	const char *rest;

	if (request->content_type.n != 1 ||
	    strncasecmp(request->content_type.value, type, sizeof(type) - 1) != 0)
		return false;
	rest = request->content_type.value + sizeof(type) - 1;
	rest += strspn(rest, " \t");
	return !*rest || *rest == ';';
}

/* Why REQUEST is refused, in REPLY; NULL: it is not. */
static const char *refuse(const struct control *control, const struct control_request *request,
			  struct http_reply *reply)
{
	if (!is_same_origin(control, request)) {
		http_error(reply, FORBIDDEN, "Origin is another server", NULL);
		return "another Origin";
	}
	if (!is_authorized(control, request)) {
		http_error(reply, UNAUTHORIZED, "the token is missing or wrong",
			   "open the address that was printed when the server started");
		return "no token, or a wrong one";
	}
	if (!is_json(request)) {
		http_error(reply, UNSUPPORTED_MEDIA_TYPE, "Content-Type is not application/json",
			   NULL);
		return "not application/json";
	}
	return NULL;
}

/* Nobody shall fill the log by being refused. */
static bool may_log_refusal(struct control *control)
{
	const int64_t now_s = clock_ns(CLOCK_MONOTONIC) / 1000000000;

	if (now_s != control->refusals_s) {
		control->refusals_s = now_s;
		control->n_refusals = 0;
	}
	return control->n_refusals++ < MAX_LOGGED_A_SECOND;
}

void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct control_request *request, struct http_reply *reply)
{
	const char *why = refuse(control, request, reply);

	if (!why)
		order_answer(ctx, watch, &request->order, reply);
	else if (may_log_refusal(control))
		order_log(request->order.peer, "refused to switch: %s", why);
}
