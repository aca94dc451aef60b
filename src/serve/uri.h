/* SPDX-License-Identifier: MIT */
/*
 * The target of a request: the second word of its first line. It is a path, or http://HOST:PORT
 * and a path, as for a proxy, which every server must accept (RFC 9112, 3.2.2).
 */
#ifndef SERVE_URI_H
#define SERVE_URI_H

#include <stddef.h>

enum { URI_HOST_BYTES = 272 }; /* a name of 255 bytes and a port */

struct uri {
	char host[URI_HOST_BYTES]; /* with the port, if given; empty: a path only */
	size_t path_at;		   /* the first byte of the path */
	unsigned int status;	   /* of the refusal; 0: the target is valid */
	const char *error;
};

/* TEXT is the raw target, not decoded. */
void uri_read(struct uri *uri, const char *text);
/* Refuse a target with a zero byte that was not encoded. */
void uri_refuse_zero(struct uri *uri);

#endif
