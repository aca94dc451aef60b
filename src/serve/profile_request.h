/* SPDX-License-Identifier: MIT */
/* Parse a request for a profile: its path and the arguments of its query. */
#ifndef SERVE_PROFILE_REQUEST_H
#define SERVE_PROFILE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include "profile/recorder.h"
#include "serve/reply.h"

enum {
	PROFILE_SECONDS = 30, /* the default, as in Go */
	PROFILE_MAX_SECONDS = 300,
	PROFILE_HZ = 99,
	PROFILE_MAX_HZ = 10000,
};

struct profile_request {
	enum profile_kind kind;	     /* PROFILE_CPU or PROFILE_WORDS */
	unsigned int seconds;	     /* 0: everything since the recorder was opened */
	unsigned int hz;	     /* samples per second, for PROFILE_CPU */
	struct record_filter filter; /* its strings point into the text of the request */
};

/*
 * Parse the N bytes of TEXT, which are untrusted, into REQUEST. TEXT is the path, then the name and
 * the value of each argument, each with a zero byte at its end. Return false if TEXT is invalid;
 * then REPLY has the error.
 */
bool profile_request_read(const char *text, size_t n, struct profile_request *request,
			  struct http_reply *reply);

#endif
