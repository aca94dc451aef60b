/* SPDX-License-Identifier: MIT */
/*
 * The paths that the HTTP process serves (see serve/front.h). Measurements are requested from the
 * measuring process, which answers in serve/backend.c.
 */
#ifndef SERVE_ROUTES_H
#define SERVE_ROUTES_H

#include "serve/asks.h"
#include "serve/hosts.h"
#include "serve/http.h"

struct routes {
	const struct hosts *hosts;
	struct asks asks;
	struct http_route *list;
	struct http *http;
	char age[24]; /* text of the Age header, in seconds */
};

/*
 * Serve at LISTEN_FD, and take ownership of it. The caller has set hosts and asks.fd in ROUTES,
 * which must outlive the server.
 */
int routes_start(struct ocp_ctx *ctx, struct routes *routes, int listen_fd, struct http **http);
/* Drop the clients that are over their time limit, and end profiles whose clients have gone. */
void routes_expire(struct routes *routes);
void routes_stop(struct routes *routes, struct http *http);

#endif
