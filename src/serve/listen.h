/* SPDX-License-Identifier: MIT */
/* The socket that clients come to. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "serve/address.h"

struct listener {
	int fd;
	char name[ADDRESS_BYTES]; /* with the port that was chosen */
	unsigned int port;
	bool is_loopback; /* nobody comes from another machine */
};

/*
 * Listen at TEXT, ADDRESS:PORT with a numeric address, an IPv6 one in brackets, or "localhost";
 * port 0: any that is free. -EINVAL if it is no such thing.
 */
int listen_open(struct ocp_ctx *ctx, const char *text, struct listener *listener);

#endif
