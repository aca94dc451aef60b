/* SPDX-License-Identifier: MIT */
/* Parse a request for a profile: its path and the arguments of its query. */
#ifndef SERVE_PROFILE_REQUEST_H
#define SERVE_PROFILE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include "profile/recorder.h"
#include "serve/reply.h"

enum {
	PROFILE_SECONDS = 30, /* as in Go */
	PROFILE_MAX_SECONDS = 300,
	PROFILE_HZ = 99,
	PROFILE_MAX_HZ = 10000,
};

struct profile_request {
	enum profile_kind kind;	     /* PROFILE_CPU or PROFILE_WORDS */
	unsigned int seconds;	     /* 0: since the recorder began */
	unsigned int hz;	     /* for PROFILE_CPU */
	struct record_filter filter; /* points into the text */
};

/*
 * The text of a request is its path and the names and values of its arguments, each with a zero
 * byte at its end. Parse N bytes of TEXT, which are untrusted. False: REPLY says what is wrong.
 */
bool profile_request_read(const char *text, size_t n, struct profile_request *request,
			  struct http_reply *reply);

#endif
