/* SPDX-License-Identifier: MIT */
/*
 * The recordings of the flight recorders (serve/recorders.h): the files NAME-N.pftrace and
 * NAME-N.html in one directory, which clients list, download, open as pages and order. This needs
 * the token, because recordings have arguments of probes. The oldest recordings are removed while
 * there are too many, or they are too large.
 */
#ifndef SERVE_RECORDINGS_H
#define SERVE_RECORDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ctx.h"
#include "serve/auth.h"
#include "serve/channel.h"
#include "serve/config.h"
#include "serve/recorders.h"
#include "serve/request.h"

struct recordings;

/*
 * Use the directory of IS, which is made if it does not exist. Other users than root and this one
 * must not be able to write to it. RECORDERS, AUTH and IS must outlive *OUT. Returns 0 or a
 * negative errno with a message in CTX.
 */
int recordings_new(struct ocp_ctx *ctx, const struct record_settings *is, struct auth *auth,
		   struct recorders *recorders, int epoll_fd, struct recordings **out);
void recordings_free(struct recordings *recordings); /* RECORDINGS may be NULL */

/* Remove the oldest recordings that are beyond the limits. Call this after each tick. */
void recordings_prune(struct recordings *recordings);

/*
 * Answer the untrusted request ASKED: ASK_RECORDINGS, ASK_RECORDING, ASK_TICKET, ASK_PAGE or
 * ASK_DUMP. Return true if REPLY is the answer. Return false if recordings_take() will return it
 * later.
 */
bool recordings_answer(struct recordings *recordings, const struct asked *asked,
		       struct http_reply *reply);
/*
 * Take a delayed answer: set *ID to the id of its request, and fill in REPLY. Return false if there
 * is none.
 */
bool recordings_take(struct recordings *recordings, uint64_t *id, struct http_reply *reply);

#endif
