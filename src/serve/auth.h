/* SPDX-License-Identifier: MIT */
/*
 * Who may switch probes over HTTP. A browser on this machine runs everybody's pages, and each may
 * send requests to local ports: what they cannot do is to read a token that was printed to a
 * terminal, to send another Origin than theirs, or another Host than the name by which they found
 * us (see serve/hosts.h).
 */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include <stddef.h>
#include "base/ctx.h"
#include "serve/hosts.h"
#include "serve/reply.h"

enum { TOKEN_BYTES = 32 }; /* random ones; two characters each */

struct auth {
	const struct hosts *hosts;
	char token[2 * TOKEN_BYTES + 1];
};

struct auth_header {
	const char *value; /* of the first of this name, if there is one */
	size_t n;	   /* how many there are */
};

/* What is checked of a request, for a host that hosts_admit has accepted. */
struct auth_request {
	const char *host;
	struct auth_header authorization, origin, content_type;
};

/* Choose a token. HOSTS outlive AUTH. */
int auth_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct auth *auth);

/* Why REQUEST is refused, for the log; REPLY then says it to the client. NULL: it is allowed. */
const char *auth_refuse(const struct auth *auth, const struct auth_request *request,
			struct http_reply *reply);

#endif
