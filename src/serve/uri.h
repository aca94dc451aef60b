/* SPDX-License-Identifier: MIT */
/*
 * What a request is for: the second word of its first line. It is a path, or, as if we were a
 * proxy, http://HOST:PORT and a path, which every server is to understand (RFC 9112, 3.2.2).
 */
#ifndef SERVE_URI_H
#define SERVE_URI_H

#include <stddef.h>

enum { URI_HOST_BYTES = 272 }; /* a name of 255 bytes, and a port */

struct uri {
	char host[URI_HOST_BYTES]; /* with its port, if that was given; empty: a path only */
	size_t path_at;		   /* its first byte */
	unsigned int status;	   /* of the refusal; 0: it is in order */
	const char *error;
};

/* TEXT is as it came, nothing is decoded. */
void uri_read(struct uri *uri, const char *text);
/* For a zero byte that was not seen there, because it was not encoded. */
void uri_refuse_zero(struct uri *uri);

#endif
