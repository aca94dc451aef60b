/* SPDX-License-Identifier: MIT */
/*
 * An HTTP/1.1 server on libmicrohttpd, in the caller's thread. It maps paths to functions and
 * knows nothing of probes.
 */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "serve/reply.h"

struct http;

struct http_request {
	const char *path; /* without the query */
	const char *host; /* of the server, as HOST:PORT; NULL: not given */
	const char *body; /* of a POST: N_BODY bytes and a zero byte; else NULL */
	size_t n_body;
	const char *peer;  /* ADDRESS:PORT */
	void *connection;  /* for http_header */
	struct http *http; /* for http_share */
};

/*
 * Return the value of the first header called NAME, or NULL. http_header_count() returns the number
 * of headers called NAME.
 */
const char *http_header(const struct http_request *request, const char *name);
size_t http_header_count(const struct http_request *request, const char *name);
/*
 * Return the values of all headers called NAME, joined into one list (RFC 9110, 5.3). The caller
 * frees the list. NULL: out of memory.
 */
char *http_header_list(const struct http_request *request, const char *name);

/* Call TAKE for each argument in the query of REQUEST. VALUE may be NULL. */
void http_arguments(const struct http_request *request,
		    void (*take)(void *data, const char *name, const char *value), void *data);

/* Does REQUEST lack the Host header, which HTTP/1.1 and later require (RFC 9112, 3.2)? */
bool http_lacks_host(const struct http_request *request, const char *version);
/*
 * Could two programs read REQUEST differently? It has several Host or Content-Length headers, or
 * both Content-Length and Transfer-Encoding.
 */
bool http_is_ambiguous(const struct http_request *request);

/*
 * Share answers under load. When http_run() has been running for a while, or replies take much
 * memory, equal requests get the same answer, at most a second old. NUMBER, 1 to HTTP_MAX_SHARES,
 * identifies what is requested. True: REPLY is complete. False: the caller makes the answer.
 */
enum { HTTP_MAX_SHARES = 7 };
bool http_share(const struct http_request *request, struct http_reply *reply, unsigned int number);

/* HTTP_GET also answers HEAD; HTTP_ONLY_GET, for costly answers, does not. */
enum http_method { HTTP_GET, HTTP_ONLY_GET, HTTP_POST };

struct http_route {
	const char *path;
	enum http_method method;
	void (*answer)(void *data, const struct http_request *request, struct http_reply *reply);
};

struct http_settings {
	int listen_fd; /* http_new takes ownership, even if it fails */
	const struct http_route *routes;
	size_t n_routes;
	/*
	 * Called first, for every request. False: the request is refused with REPLY. If the pointer
	 * is NULL, all requests are admitted.
	 */
	bool (*admit)(void *data, const struct http_request *request, struct http_reply *reply);
	void *data;
};

/* SETTINGS' routes must outlive the server. Clients may use most of RLIMIT_NOFILE. */
int http_new(struct ocp_ctx *ctx, const struct http_settings *settings, struct http **out);
/* HTTP may be NULL. Current replies get a second to finish. */
void http_free(struct http *http);

/*
 * Delayed answers. A route that cannot answer yet sets the ticket of its reply; several clients may
 * share a ticket. http_answer() sends REPLY, which is consumed, to the clients that wait for TICKET
 * (0: to all that wait). http_is_awaited(): does a client still wait for TICKET?
 */
bool http_is_awaited(const struct http *http, uint64_t ticket);
void http_answer(struct http *http, uint64_t ticket, struct http_reply *reply);

/* Poll http_fd() for reading, for at most http_timeout_ms() (-1: forever), then call http_run(). */
int http_fd(const struct http *http);
int http_timeout_ms(struct http *http);
void http_run(struct http *http);
/* Drop the clients that are over their time limit. Call this every second. */
void http_expire(struct http *http);

#endif
