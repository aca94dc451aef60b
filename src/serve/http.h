/* SPDX-License-Identifier: MIT */
/*
 * An HTTP/1.1 server on libmicrohttpd, in the caller's thread. It maps paths to functions. It
 * contains nothing about probes.
 */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "serve/request.h"

struct http;

struct http_request {
	const char *path; /* the path of the request, decoded and without the query */
	struct client_request client;
	unsigned int what; /* `what` of the route */
	void *connection;  /* for http_header() */
	struct http *http; /* for http_share() */
};

/* Return the value of the first header called NAME, or NULL. */
const char *http_header(const struct http_request *request, const char *name);
/*
 * Return the values of all headers called NAME, joined into one list (RFC 9110, 5.3). The caller
 * frees the list. NULL: out of memory.
 */
char *http_header_list(const struct http_request *request, const char *name);

/*
 * Call TAKE with DATA for each argument in the query of REQUEST. VALUE is NULL if the argument is
 * only a name.
 */
void http_arguments(const struct http_request *request,
		    void (*take)(void *data, const char *name, const char *value), void *data);

/*
 * Share answers under load: if the current http_run() has been running for a while, or if replies
 * take much memory, give the client an answer that was made for an equal request at most a second
 * ago. NUMBER, from 1 to HTTP_MAX_SHARES, identifies what is requested. If there is such an answer,
 * set REPLY to it and return true. Otherwise return false: the caller must make the answer.
 */
enum { HTTP_MAX_SHARES = 7 };
bool http_share(const struct http_request *request, struct http_reply *reply, unsigned int number);

/* HTTP_GET also allows HEAD; HTTP_ONLY_GET, for costly answers, does not. */
enum http_method { HTTP_GET, HTTP_ONLY_GET, HTTP_POST };

struct http_route {
	const char *path;
	void (*answer)(void *data, const struct http_request *request, struct http_reply *reply);
	enum http_method method;
	unsigned int what; /* passed to `answer` as request->what */
};

struct http_settings {
	int listen_fd; /* closed by http_free(), or by http_new() if http_new() fails */
	const struct http_route *routes;
	size_t n_routes;
	/*
	 * Called first, for every request. It returns false to refuse the request with REPLY. NULL:
	 * all requests are admitted.
	 */
	bool (*admit)(void *data, const struct http_request *request, struct http_reply *reply);
	void *data;
};

/*
 * Start a server. The routes of SETTINGS must outlive the server. Clients may use most of the
 * descriptors that RLIMIT_NOFILE allows.
 */
int http_new(struct ocp_ctx *ctx, const struct http_settings *settings, struct http **out);
/* End the server. Current replies get up to a second to finish. HTTP may be NULL. */
void http_free(struct http *http);

/*
 * Delayed answers. A route that cannot answer yet sets the ticket of its reply; several clients may
 * have the same ticket. http_answer() sends REPLY to all clients that wait for TICKET, or to all
 * waiting clients if TICKET is 0, and takes over the body of REPLY. http_is_awaited() returns true
 * if a client still waits for TICKET.
 */
bool http_is_awaited(const struct http *http, uint64_t ticket);
void http_answer(struct http *http, uint64_t ticket, struct http_reply *reply);

/*
 * Wait until http_fd() is readable, for at most http_timeout_ms() (-1: no limit), then call
 * http_run(). Repeat this.
 */
int http_fd(const struct http *http);
int http_timeout_ms(struct http *http);
void http_run(struct http *http);
/* Drop the clients that have exceeded their time limits. Call this every second. */
void http_expire(struct http *http);

#endif
