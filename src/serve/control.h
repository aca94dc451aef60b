/* SPDX-License-Identifier: MIT */
/*
 * Who may switch probes over HTTP. A browser on this machine runs everybody's pages, and each may
 * send requests to local ports: what they cannot do is to read a token that was printed to a
 * terminal, to send another Origin than theirs, or another Host than the name by which they found
 * us (see serve/hosts.h).
 */
#ifndef SERVE_CONTROL_H
#define SERVE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "serve/hosts.h"
#include "serve/order.h"
#include "serve/reply.h"
#include "watch/watch.h"

enum { TOKEN_BYTES = 32 }; /* random ones; two characters each */

struct control {
	const struct hosts *hosts;
	char token[2 * TOKEN_BYTES + 1];
	int64_t refusals_s;	 /* the second in which the newest refusal came, and */
	unsigned int n_refusals; /* how many did in it: more than a few are not logged */
};

struct control_header {
	const char *value; /* of the first of this name, if there is one */
	size_t n;	   /* how many there are */
};

/* A request to switch, for a host that hosts_admit has accepted. */
struct control_request {
	const char *host;
	struct control_header authorization, origin, content_type;
	struct order_request order;
};

/* Choose a token. HOSTS outlive CONTROL. */
int control_init(struct ocp_ctx *ctx, const struct hosts *hosts, struct control *control);

/* Answer a request to switch. */
void control_answer(struct control *control, struct ocp_ctx *ctx, struct watch *watch,
		    const struct control_request *request, struct http_reply *reply);

#endif
