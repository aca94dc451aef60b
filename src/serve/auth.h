/* SPDX-License-Identifier: MIT */
/*
 * Who may switch probes over HTTP. A browser on this machine runs pages of any site, and each page
 * can send requests to local ports. Such a page cannot read a token that was printed to a
 * terminal, cannot send another Origin than its own, and cannot send another Host than the name
 * that it used (see serve/hosts.h).
 */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include <stddef.h>
#include "base/ctx.h"
#include "serve/hosts.h"
#include "serve/reply.h"

enum {
	TOKEN_BYTES = 32, /* random bytes; printed as two hexadecimal digits each */
	TOKEN_LEAST = 32, /* characters in a file */
	TOKEN_ROOM = 128,
};

struct auth {
	const struct hosts *hosts;
	char token[TOKEN_ROOM + 1];
};

struct auth_header {
	const char *value; /* of the first header of this name; NULL: none */
	size_t n;	   /* number of headers of this name */
};

/* The checked parts of a request, whose host hosts_admit has accepted. */
struct auth_request {
	const char *host;
	struct auth_header authorization, origin, content_type;
};

/* Choose a token. HOSTS must outlive AUTH. */
int auth_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct auth *auth);

/*
 * The same, with the token that is in FILE, which only its owner may read: TOKEN_LEAST to TOKEN_ROOM
 * printable characters without spaces.
 */
int auth_init_from(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file,
		   struct auth *auth);

/*
 * Does REQUEST come from this server's page or from a program, and with the token? Returns as
 * auth_refuse does.
 */
const char *auth_refuse_caller(const struct auth *auth, const struct auth_request *request,
			       struct http_reply *reply);

/*
 * Returns NULL if REQUEST, a POST, is allowed. Otherwise returns the reason for the log, and fills in REPLY
 * for the client.
 */
const char *auth_refuse(const struct auth *auth, const struct auth_request *request,
			struct http_reply *reply);

#endif
