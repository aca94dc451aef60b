/* SPDX-License-Identifier: MIT */
/*
 * The target of a request, which is the second word of the request's first line. It is a path, or
 * http://HOST:PORT followed by a path. Clients send the second form to proxies, but every server
 * must accept it (RFC 9112, 3.2.2).
 */
#ifndef SERVE_URI_H
#define SERVE_URI_H

#include <stddef.h>

enum { URI_HOST_BYTES = 272 }; /* a name of 255 bytes, a port, and a zero byte */

struct uri {
	/* The host, with the port if one is given; empty: the target is only a path. */
	char host[URI_HOST_BYTES];
	size_t path_at; /* offset of the first byte of the path in the target */
	/* HTTP status with which to refuse the request; 0: the target is valid */
	unsigned int status;
	const char *error;
};

/* Parse TEXT, the target as received, not decoded. */
void uri_read(struct uri *uri, const char *text);
/* Refuse the target because of a zero byte that was not encoded. */
void uri_refuse_zero(struct uri *uri);

#endif
