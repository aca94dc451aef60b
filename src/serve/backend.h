/* SPDX-License-Identifier: MIT */
/*
 * The part of the measuring process that answers the requests of the HTTP process (serve/front.h)
 * over the channel. serve/routes.c maps paths to requests.
 */
#ifndef SERVE_BACKEND_H
#define SERVE_BACKEND_H

#include "serve/buckets.h"
#include "serve/channel.h"
#include "serve/auth.h"
#include "serve/metrics.h"
#include "serve/profiling.h"

/* What the answers are made from. */
struct backend {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct auth *control;	     /* NULL: switching is not allowed */
	struct profiling *profiling; /* NULL: profiles are disabled */
	struct profiling *heaps;     /* NULL: profiles of the heap are disabled */
	struct profile_counts counts;
	struct buckets buckets;
	bool label_pid;
};

/*
 * Answer the untrusted request ASKED. Return true if REPLY is the answer. Return false if no answer
 * is to be sent now: ASK_END_OF_PROFILE gets no answer, and profiling_take() returns the answer to
 * a request for a profile later.
 */
bool backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply);

/* Return the counters of profiles, for the metrics. NULL: profiles are disabled. */
const struct profile_counts *backend_counts(const struct backend *backend);

#endif
