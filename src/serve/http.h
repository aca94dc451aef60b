/* SPDX-License-Identifier: MIT */
/*
 * An HTTP/1.1 server on libmicrohttpd in the caller's thread. It knows paths and what answers them,
 * nothing of probes.
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
	const char *host; /* whom it is for, as HOST:PORT; NULL: it does not say */
	const char *body; /* of a POST, N_BODY bytes and a zero byte behind them; else NULL */
	size_t n_body;
	const char *peer;  /* ADDRESS:PORT */
	void *connection;  /* for http_header */
	struct http *http; /* for http_share */
};

/* The value of the first header called NAME, or NULL; and how many there are of that name. */
const char *http_header(const struct http_request *request, const char *name);
size_t http_header_count(const struct http_request *request, const char *name);
/*
 * All that are called NAME, whose values are lists, as the one list that they are (RFC 9110, 5.3).
 * To be freed; NULL: memory is short.
 */
char *http_header_list(const struct http_request *request, const char *name);

/* Host is to be there in HTTP/1.1 and later (RFC 9112, 3.2). */
bool http_lacks_host(const struct http_request *request, const char *version);
/* Two servers could read its headers differently; so could two parts of one. */
bool http_is_ambiguous(const struct http_request *request);

/*
 * When many ask at once, and http_run's caller has waited for a while already or much memory is in
 * replies that are being sent, those who ask for the same share an answer, of a second ago at most.
 * NUMBER, 1 to HTTP_MAX_SHARES, says what REQUEST asks for. True: REPLY is complete. False: the
 * caller is to make it, as always.
 */
enum { HTTP_MAX_SHARES = 6 };
bool http_share(const struct http_request *request, struct http_reply *reply, unsigned int number);

enum http_method { HTTP_GET, HTTP_POST }; /* a GET route answers HEAD, too */

struct http_route {
	const char *path;
	enum http_method method;
	void (*answer)(void *data, const struct http_request *request, struct http_reply *reply);
};

struct http_settings {
	int listen_fd; /* the server's from http_new on, also if that fails */
	const struct http_route *routes;
	size_t n_routes;
	/*
	 * Asked before anything else is, for every request: false if it fills REPLY in and the
	 * request goes no further. NULL: all may pass.
	 */
	bool (*admit)(void *data, const struct http_request *request, struct http_reply *reply);
	void *data;
};

/* SETTINGS' routes outlive the server. Clients may have most of RLIMIT_NOFILE. */
int http_new(struct ocp_ctx *ctx, const struct http_settings *settings, struct http **out);
/* Takes NULL. Clients that are being answered are given a second. */
void http_free(struct http *http);

/*
 * A route that cannot answer yet sets the reply's ticket, a number of its own, perhaps the same for
 * several clients. They wait until REPLY, which is used up, is said to be the answer for that
 * TICKET; 0: for all. They may have gone by then.
 */
bool http_is_awaited(const struct http *http, uint64_t ticket);
void http_answer(struct http *http, uint64_t ticket, struct http_reply *reply);

/* To be polled for reading; how long at the most (-1: forever); and what to call then. */
int http_fd(const struct http *http);
int http_timeout_ms(struct http *http);
void http_run(struct http *http);
/* To be called each second: clients that took too long are dropped. */
void http_expire(struct http *http);

#endif
