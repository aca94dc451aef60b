/* SPDX-License-Identifier: MIT */
/*
 * The paths that the HTTP process serves (see serve/front.h). It requests measurements from the
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
	char age[24]; /* value of the Age header, in seconds */
};

/*
 * Serve clients on LISTEN_FD, and take ownership of it, also after an error. The caller must have
 * set hosts and asks.fd in ROUTES, which must outlive the server.
 */
int routes_start(struct ocp_ctx *ctx, struct routes *routes, int listen_fd, struct http **http);
/*
 * Drop the clients that have exceeded their time limits, and end the profiles whose clients have
 * gone. Call this every second.
 */
void routes_expire(struct routes *routes);
void routes_stop(struct routes *routes, struct http *http);

#endif
