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
	MISDIRECTED = 421,
	MAX_LOGGED_A_SECOND = 5,
};

int control_init(struct ocp_ctx *ctx, const struct listener *listener, struct control *control)
{
	unsigned char random[TOKEN_BYTES];

	*control = (struct control){ .port = listener->port };
	snprintf(control->host, sizeof(control->host), "%.*s",
		 (int)(strrchr(listener->name, ':') - listener->name), listener->name);
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return ctx_error(ctx, -EIO, "getrandom: no random numbers for the token");
	for (size_t i = 0; i < TOKEN_BYTES; i++)
		snprintf(control->token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* Is HOST, as a request has it, NAME, with the port or, if that is HTTP's own, without? */
static bool is_host(const struct control *control, const char *host, const char *name)
{
	const size_t bytes = strlen(name);
	char port[8];

	if (strncasecmp(host, name, bytes) != 0)
		return false;
	snprintf(port, sizeof(port), ":%u", control->port);
	return strcmp(host + bytes, port) == 0 || (control->port == 80 && !host[bytes]);
}

static bool is_ours(const struct control *control, const char *host)
{
	const char *const names[] = { control->host, "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_host(control, host, names[i]))
			return true;
	return false;
}

bool control_admit(const struct control *control, const struct http_request *request,
		   struct http_reply *reply)
{
	if (request->host && is_ours(control, request->host))
		return true;
	http_error(reply, MISDIRECTED, "Host is not a name of this server",
		   "with --control it answers to the address that it prints when it starts");
	return false;
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

static bool is_authorized(const struct control *control, const struct http_request *request)
{
	static const char scheme[] = "Bearer ";
	const char *value = http_header(request, "Authorization");

	if (!value || http_header_count(request, "Authorization") != 1 ||
	    strncasecmp(value, scheme, sizeof(scheme) - 1) != 0)
		return false;
	return is_token(control, value + sizeof(scheme) - 1);
}

/* Browsers say where the page is from that sends a POST; other programs do not. */
static bool is_same_origin(const struct http_request *request)
{
	static const char scheme[] = "http://";
	const char *origin = http_header(request, "Origin");

	if (!origin)
		return true;
	return http_header_count(request, "Origin") == 1 &&
	       strncmp(origin, scheme, sizeof(scheme) - 1) == 0 &&
	       strcasecmp(origin + sizeof(scheme) - 1, request->host) == 0;
}

static bool is_json(const struct http_request *request)
{
	static const char type[] = "application/json";
	const char *value = http_header(request, "Content-Type");

	if (!value || http_header_count(request, "Content-Type") != 1 ||
	    strncasecmp(value, type, sizeof(type) - 1) != 0)
		return false;
	value += sizeof(type) - 1;
	value += strspn(value, " \t");
	return !*value || *value == ';';
}

/* Why REQUEST is refused, in REPLY; NULL: it is not. */
static const char *refuse(const struct control *control, const struct http_request *request,
			  struct http_reply *reply)
{
	if (!is_same_origin(request)) {
		http_error(reply, FORBIDDEN, "Origin is another server", NULL);
		return "another Origin";
	}
	if (!is_authorized(control, request)) {
		http_add_header(reply, "WWW-Authenticate", "Bearer");
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
		    const struct http_request *request, struct http_reply *reply)
{
	const char *why = refuse(control, request, reply);

	http_add_header(reply, "Cache-Control", "no-store");
	if (!why)
		order_answer(ctx, watch, request, reply);
	else if (may_log_refusal(control))
		order_log(request->peer, "refused to switch: %s", why);
}
