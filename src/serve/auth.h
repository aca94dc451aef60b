/* SPDX-License-Identifier: MIT */
/*
 * Decide which HTTP requests may switch probes or take profiles. A browser on this machine runs
 * pages of any site, and each page can send requests to local ports. So a request must have the
 * token, which was printed to a terminal or is in a file: a page of another site cannot read the
 * token. A request that has an Origin, as each POST of a browser has, must come from this server's
 * own page. A page cannot send a false Origin, nor a Host other than the name that it used to reach
 * the server (see serve/hosts.h).
 */
#ifndef SERVE_AUTH_H
#define SERVE_AUTH_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "serve/hosts.h"
#include "serve/request.h"

enum {
	TOKEN_BYTES = 32, /* random bytes; printed as two hexadecimal digits each */
	TOKEN_LEAST = 32, /* least number of characters of a token in a file */
	TOKEN_ROOM = 128,
};

struct auth {
	const struct hosts *hosts;
	char token[TOKEN_ROOM + 1];
	int64_t refusals_s; /* CLOCK_MONOTONIC, in seconds: when the newest refusal happened */
	/* Number of refusals in the second refusals_s; only the first few are logged. */
	unsigned int n_refusals;
};

/*
 * Set the token, which clients must send to switch probes or to get profiles. The token is the one
 * in FILE: TOKEN_LEAST to TOKEN_ROOM printable characters without spaces. FILE must belong to this
 * user or root, and other users must have no access to it. If FILE is NULL, the token is random.
 * HOSTS must outlive AUTH.
 */
int auth_init(struct ocp_ctx *ctx, const struct hosts *hosts, const char *file, struct auth *auth);

/*
 * Check that REQUEST comes from this server's page or from a program that is not a browser, and
 * that it has the token. hosts_admit() has already accepted the host. If REQUEST passes these
 * checks, return true. Otherwise fill in REPLY for the client, and return false. Log a refusal
 * (WHAT names what was refused), unless too many refusals were logged in this second.
 */
bool auth_admit(struct auth *auth, const struct client_request *request, const char *what,
		struct http_reply *reply);
/* Like auth_admit(), for a POST; check also that the body is declared as JSON. */
bool auth_admit_json(struct auth *auth, const struct client_request *request, const char *what,
		     struct http_reply *reply);

#endif
