/* SPDX-License-Identifier: MIT */
/* An answer in the making. */
#ifndef SERVE_REPLY_H
#define SERVE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "serve/strbuf.h"

enum { HTTP_MAX_HEADERS = 8 };

/* An answer to be filled in: all 0 is an empty 200. */
struct http_reply {
	unsigned int status;
	const char *type;   /* Content-Type */
	struct strbuf body; /* the body; or */
	const void *data;   /* this one, which outlives the server */
	size_t n_data;
	struct {
		const char *name, *value; /* the value is copied when the reply is sent */
	} headers[HTTP_MAX_HEADERS];
	size_t n_headers;
	unsigned int share; /* see http_share */
	bool is_shared;
	uint64_t ticket; /* not 0: the answer comes later, see http_answer */
};

void http_add_header(struct http_reply *reply, const char *name, const char *value);
/* Make REPLY an error: an object with ERROR, one sentence, and HINT, or NULL. */
void http_error(struct http_reply *reply, unsigned int status, const char *error, const char *hint);

#endif
