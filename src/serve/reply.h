/* SPDX-License-Identifier: MIT */
/* An HTTP reply before it is sent. */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/strbuf.h"

enum { HTTP_MAX_HEADERS = 8 };

/* If all is 0, the reply is empty and has the status 200. */
struct http_reply {
	unsigned int status;
	const char *type;   /* Content-Type */
	struct strbuf body; /* the body, if `data` is NULL */
	const void *data;   /* NULL, or a body that outlives the server, of n_data bytes */
	size_t n_data;
	struct {
		const char *name, *value; /* the value is copied when the reply is sent */
	} headers[HTTP_MAX_HEADERS];
	size_t n_headers;
	unsigned int share; /* set by http_share() */
	bool is_shared;
	uint64_t ticket; /* not 0: the answer is delayed, see http_answer() */
	/* How long the client waits for a delayed answer; 0: IDLE_MS of serve/http_quota.h. */
	int wait_ms;
};

void http_add_header(struct http_reply *reply, const char *name, const char *value);
/* Make REPLY an error: a JSON object with ERROR, one sentence, and HINT, which may be NULL. */
void http_error(struct http_reply *reply, unsigned int status, const char *error, const char *hint);

#endif
