/* SPDX-License-Identifier: MIT */
/*
 * A request of an HTTP client, and a reply that has not been sent yet. The HTTP process sends
 * requests that need a token to the measuring process, as messages of serve/channel.h.
 */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/strbuf.h"

struct request_header {
	const char *value; /* the value of the first header of this name; NULL: there is none */
	size_t n;	   /* number of headers of this name */
};

struct client_request {
	/* The server as the client named it: HOST or HOST:PORT; NULL: not given. */
	const char *host;
	struct request_header authorization, origin, content_type;
	const char *peer; /* the client's ADDRESS:PORT */
	/*
	 * The body, N_BODY bytes and a zero byte; empty for a GET. In the message of a request for
	 * a profile, the body has the path and the arguments.
	 */
	const char *body;
	size_t n_body;
};

/* Append REQUEST to OUT as a message. */
void client_request_write(const struct client_request *request, struct strbuf *out);

/*
 * Parse the N BYTES, which come from an untrusted process, into REQUEST, which points into BYTES.
 * Return false if BYTES is not a valid message.
 */
bool client_request_read(const char *bytes, size_t n, struct client_request *request);

/* Print the time, PEER and the message to stderr, as one line with '?' for control characters. */
void client_request_log(const char *peer, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

enum http_status {
	HTTP_NOT_MODIFIED = 304,
	HTTP_BAD_REQUEST = 400,
	HTTP_UNAUTHORIZED = 401,
	HTTP_FORBIDDEN = 403,
	HTTP_NOT_FOUND = 404,
	HTTP_CONFLICT = 409,
	HTTP_UNSUPPORTED_MEDIA_TYPE = 415,
	HTTP_MISDIRECTED = 421,
	HTTP_TOO_MANY_REQUESTS = 429,
	HTTP_CANCELLED = 499, /* not sent: the client has gone */
	HTTP_SERVER_ERROR = 500,
	HTTP_NOT_IMPLEMENTED = 501,
	HTTP_UNAVAILABLE = 503,
};

enum { HTTP_MAX_HEADERS = 8 };

/* The reply to a request. If all members are 0, the reply has the status 200 and no body. */
struct http_reply {
	unsigned int status;
	const char *type;   /* the value of Content-Type */
	struct strbuf body; /* the body, if `data` is NULL */
	/* From the measuring process: the body is the first n_file bytes of this file. */
	bool has_file;
	int file_fd;
	size_t n_file;
	const void *data; /* NULL, or a body of n_data bytes in memory that outlives the server */
	size_t n_data;
	struct {
		const char *name, *value; /* the value is copied when the reply is sent */
	} headers[HTTP_MAX_HEADERS];
	size_t n_headers;
	unsigned int share; /* set by http_share() */
	bool is_shared;
	uint64_t ticket; /* not 0: the answer is delayed, see http_answer() */
	/* How long a client may wait for a delayed answer; 0: IDLE_MS of serve/http_quota.h. */
	int wait_ms;
};

void http_add_header(struct http_reply *reply, const char *name, const char *value);
/* Make REPLY an error: a JSON object with ERROR, one sentence, and HINT, which may be NULL. */
void http_error(struct http_reply *reply, unsigned int status, const char *error, const char *hint);

#endif
