/* SPDX-License-Identifier: MIT */
/*
 * Who may switch probes over HTTP. A browser on this machine runs everybody's pages, and each may
 * send requests to local ports: what they cannot do is to read a token that was printed to a
 * terminal, to send another Origin than theirs, or another Host than the name by which they found
 * us (which may be one of theirs that resolves to 127.0.0.1 now).
 */
#ifndef SERVE_CONTROL_H
#define SERVE_CONTROL_H

#include <stdbool.h>
#include "serve/http.h"
#include "serve/listen.h"
#include "watch/watch.h"

enum { TOKEN_BYTES = 32 }; /* random ones; two characters each */

struct control {
	char token[2 * TOKEN_BYTES + 1];
	char host[ADDRESS_BYTES]; /* the listener's address, without the port */
	unsigned int port;
	int64_t refusals_s;	 /* the second in which the newest refusal came, and */
	unsigned int n_refusals; /* how many did in it: more than a few are not logged */
};

/* Choose a token. */
int control_init(struct ocp_ctx *ctx, const struct listener *listener, struct control *control);

/* Is the host that is asked for one of our names? For every request; false: REPLY says no. */
bool control_admit(const struct control *control, const struct http_request *request,
		   struct http_reply *reply);

/* Answer a request to switch. */
void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct http_request *request, struct http_reply *reply);

#endif
