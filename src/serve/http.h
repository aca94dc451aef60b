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
#include "serve/body.h"

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

enum { HTTP_MAX_HEADERS = 8 };

/* An answer to be filled in: all 0 is an empty 200. */
struct http_reply {
	unsigned int status;
	const char *type; /* Content-Type */
	struct body body; /* the body; or */
	const void *data; /* this one, which outlives the server */
	size_t n_data;
	struct {
		const char *name, *value; /* the value is copied when the reply is sent */
	} headers[HTTP_MAX_HEADERS];
	size_t n_headers;
	unsigned int share; /* see http_share */
	bool is_shared;
};

/*
 * When many ask at once, and http_run's caller has waited for a while already or much memory is in
 * replies that are being sent, those who ask for the same share an answer, of a second ago at most.
 * NUMBER, 1 to HTTP_MAX_SHARES, says what REQUEST asks for. True: REPLY is complete. False: the
 * caller is to make it, as always.
 */
enum { HTTP_MAX_SHARES = 6 };
bool http_share(const struct http_request *request, struct http_reply *reply, unsigned int number);

void http_add_header(struct http_reply *reply, const char *name, const char *value);
/* Make REPLY an error: an object with ERROR, one sentence, and HINT, or NULL. */
void http_error(struct http_reply *reply, unsigned int status, const char *error, const char *hint);

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

/* To be polled for reading; how long at the most (-1: forever); and what to call then. */
int http_fd(const struct http *http);
int http_timeout_ms(struct http *http);
void http_run(struct http *http);
/* To be called each second: clients that took too long are dropped. */
void http_expire(struct http *http);

#endif
