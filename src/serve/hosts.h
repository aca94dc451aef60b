/* SPDX-License-Identifier: MIT */
/*
 * By which names clients may ask for this server. A page that a browser shows may send requests to
 * the address that the page's own host name resolves to, and read the replies; its author can let
 * the name resolve to 127.0.0.1 after the page was loaded ("DNS rebinding"). The browser says in
 * Host which name it has asked for. So a name of which we know nothing is refused. Nobody has to
 * resolve a numeric address: it is what it is, and is accepted.
 *
 * With --control numeric addresses are accepted only if they are the listener's or 127.0.0.1 or
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
	char machine[HOST_NAME_MAX + 1]; /* its name; empty: it has none */
	const char *const *names;	 /* that were given: NAME, or NAME:PORT */
	size_t n_names;
};

/* NAMES, of which there are N, outlive HOSTS. */
void hosts_init(struct hosts *hosts, const struct listener *listener, bool has_control,
		const char *const *names, size_t n);

/* Why NAME cannot be one of the names that are given; NULL: it can. */
const char *hosts_check_name(const char *name);

/* Is HOST, of a request, one of the names that were given? */
bool hosts_is_named(const struct hosts *hosts, const char *host);

/* May a request for HOST (NULL: it does not say) go further? If not, REPLY says why. */
bool hosts_admit(const struct hosts *hosts, const char *host, struct http_reply *reply);

#endif
