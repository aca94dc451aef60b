/* SPDX-License-Identifier: MIT */
/*
 * What is served at which path, in the process that speaks HTTP (see serve/front.h). What takes
 * measurements is asked of the other process, which answers in serve/backend.c.
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
	char age[24]; /* of the answer that is being made, in seconds */
};

/*
 * Serve at LISTEN_FD, which is the server's then. ROUTES, with the hosts and the descriptor of asks
 * set, outlive it.
 */
int routes_start(struct ocp_ctx *ctx, struct routes *routes, int listen_fd, struct http **http);
void routes_stop(struct routes *routes, struct http *http);

#endif
