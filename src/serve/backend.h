/* SPDX-License-Identifier: MIT */
/*
 * The part of the measuring process that answers the requests of the HTTP process (serve/front.h)
 * over the channel. serve/routes.c maps paths to requests.
 */
#ifndef SERVE_BACKEND_H
#define SERVE_BACKEND_H

#include "serve/buckets.h"
#include "serve/channel.h"
#include "serve/control.h"
#include "serve/metrics.h"
#include "serve/profiling.h"

/* The sources of the answers. */
struct backend {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct control *control;     /* NULL: switching is not allowed */
	struct profiling *profiling; /* NULL: no profiles */
	struct profiling *heaps;     /* NULL: no profiles of the heap */
	struct profile_counts counts;
	struct buckets buckets;
	bool label_pid;
};

/*
 * Answer the untrusted request ASKED. True: REPLY is the answer. False: the request needs no answer
 * (ASK_END_OF_PROFILE), or profiling_take() returns the answer later.
 */
bool backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply);

/* Return the profile counters for the metrics; NULL: profiles are disabled. */
const struct profile_counts *backend_counts(const struct backend *backend);

#endif
