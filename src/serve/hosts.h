/* SPDX-License-Identifier: MIT */
/* The address at which the server listens, and the names by which clients may address it. */
#ifndef SERVE_HOSTS_H
#define SERVE_HOSTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include "base/ctx.h"
#include "serve/request.h"

/* ---- the address ---------------------------------------------------------------------------- */

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

/* Set NAME to ADDRESS:PORT, with an IPv6 address in brackets, or to "?" for other families. */
void address_name(const struct sockaddr *address, char name[ADDRESS_BYTES]);

/* ---- the names ------------------------------------------------------------------------------ */

/*
 * The names by which clients may address this server. A page in a browser may send requests to the
 * host that it was loaded from, and read the replies. The page's author can make the name of that
 * host resolve to 127.0.0.1 after the page has loaded ("DNS rebinding"), so that the page can read
 * the replies of this server. But the browser still sends that name in the Host header, so requests
 * with unknown names are refused. Numeric addresses are accepted, since they are not resolved.
 *
 * If the server has a token (--control, --profile, --memprof), a numeric address is accepted only
 * if it is the listener's address, 127.0.0.1 or [::1], and only with the listener's port.
 */

struct hosts {
	char own[ADDRESS_BYTES]; /* the listener's address, without the port */
	unsigned int port;
	bool has_control;
	char machine[HOST_NAME_MAX + 1]; /* the host name; empty: unknown */
	const char *const *names;	 /* names given by the user, each as NAME or NAME:PORT */
	size_t n_names;
};

/*
 * Set HOSTS to the names for LISTENER and the N NAMES given by the user, which must outlive HOSTS.
 */
void hosts_init(struct hosts *hosts, const struct listener *listener, bool has_control,
		const char *const *names, size_t n);

/*
 * Check NAME, which the user has given. Return NULL if it is valid, otherwise the reason why it is
 * invalid.
 */
const char *hosts_check_name(const char *name);

/* Return true if HOST, from a request, is one of the names given by the user. */
bool hosts_is_named(const struct hosts *hosts, const char *host);

/*
 * Return true if a request with the Host header HOST (NULL: none) is allowed. If not, fill in REPLY
 * with the reason.
 */
bool hosts_admit(const struct hosts *hosts, const char *host, struct http_reply *reply);

#endif
