/* SPDX-License-Identifier: MIT */
/*
 * Decide which HTTP requests may switch probes or take profiles. A browser on this machine runs
 * pages of any site, and each page can send requests to local ports. So a request must have the
 * token, which was printed to a terminal or is in a file: a page of another site cannot read it. A
 * request that has an Origin, as each POST of a browser, must come from this server's own page. A
 * page cannot send a false Origin, nor a Host other than the name that it used to reach the server
 * (see serve/hosts.h).
 */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include <stddef.h>
#include "base/ctx.h"
#include "serve/hosts.h"
#include "serve/reply.h"

enum {
	TOKEN_BYTES = 32, /* random bytes; printed as two hexadecimal digits each */
	TOKEN_LEAST = 32, /* least number of characters of a token in a file */
	TOKEN_ROOM = 128,
};

struct auth {
	const struct hosts *hosts;
	char token[TOKEN_ROOM + 1];
};

struct auth_header {
	const char *value; /* the value of the first header of this name; NULL: there is none */
	size_t n;	   /* number of headers of this name */
};

/* The parts of a request that are checked here. hosts_admit() has already accepted the host. */
struct auth_request {
	const char *host;
	struct auth_header authorization, origin, content_type;
};

/* Choose a random token. HOSTS must outlive AUTH. */
int auth_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct auth *auth);

/*
 * Like auth_init(), with the token in FILE: TOKEN_LEAST to TOKEN_ROOM printable characters without
 * spaces. FILE must belong to this user or root, and other users must have no access to it.
 */
int auth_init_from(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file,
		   struct auth *auth);

/*
 * Check that REQUEST comes from this server's page or from a program that is not a browser, and
 * that it has the token. Return NULL if so. Otherwise fill in REPLY for the client, and return the
 * reason for the log.
 */
const char *auth_refuse_caller(const struct auth *auth, const struct auth_request *request,
			       struct http_reply *reply);

/*
 * Check the origin, token and content type of REQUEST, a POST. Return NULL if it is allowed.
 * Otherwise fill in REPLY for the client, and return the reason for the log.
 */
const char *auth_refuse(const struct auth *auth, const struct auth_request *request,
			struct http_reply *reply);

#endif
