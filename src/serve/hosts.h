/* SPDX-License-Identifier: MIT */
/*
 * The names by which clients may address this server. A page in a browser may send requests to the
 * address that its own host name resolves to, and read the replies. The page's author can make that
 * name resolve to 127.0.0.1 after the page has loaded ("DNS rebinding"). The browser sends the name
 * in Host, so unknown names are refused. Numeric addresses are accepted, since they are not
 * resolved.
 *
 * With --control, numeric addresses are accepted only if they are the listener's, 127.0.0.1 or
 * [::1], with its port.
 */
#ifndef SERVE_HOSTS_H
#define SERVE_HOSTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include "serve/address.h"
#include "serve/listen.h"
#include "serve/reply.h"

struct hosts {
	char own[ADDRESS_BYTES]; /* the listener's address, without the port */
	unsigned int port;
	bool has_control;
	char machine[HOST_NAME_MAX + 1]; /* the host name; empty: none */
	const char *const *names;	 /* from the user: NAME or NAME:PORT */
	size_t n_names;
};

/* The N NAMES must outlive HOSTS. */
void hosts_init(struct hosts *hosts, const struct listener *listener, bool has_control,
		const char *const *names, size_t n);

/* Check a name given by the user. Return the reason why NAME is invalid, or NULL if it is valid. */
const char *hosts_check_name(const char *name);

/* Is HOST, from a request, one of the given names? */
bool hosts_is_named(const struct hosts *hosts, const char *host);

/* Is a request for HOST (NULL: missing) allowed? If not, REPLY says why. */
bool hosts_admit(const struct hosts *hosts, const char *host, struct http_reply *reply);

#endif
