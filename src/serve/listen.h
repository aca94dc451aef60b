/* SPDX-License-Identifier: MIT */
/* The listening socket, and addresses as text, in the form that users and URLs write. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include "base/ctx.h"

enum { ADDRESS_BYTES = 80 };

struct listener {
	int fd;
	char name[ADDRESS_BYTES]; /* ADDRESS:PORT, with the port in use if port 0 was requested */
	unsigned int port;
	bool is_loopback; /* not reachable from other machines */
};

/*
 * Listen at TEXT, which is ADDRESS:PORT with a numeric address (IPv6 in brackets) or "localhost".
 * Port 0 means any free port. -EINVAL if TEXT is invalid.
 */
int listen_open(struct ocp_ctx *ctx, const char *text, struct listener *listener);

/* Write ADDRESS:PORT, with an IPv6 address in brackets; "?" for other address families. */
void address_name(const struct sockaddr *address, char name[ADDRESS_BYTES]);

#endif
