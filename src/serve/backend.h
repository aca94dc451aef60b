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
 * Answer ASKED, which is untrusted. False: there is no answer, or profiling_take has it later.
 * Otherwise it is REPLY.
 */
bool backend_answer(struct backend *backend, const struct asked *asked, struct http_reply *reply);

/* For the metrics; NULL: no profiles. */
const struct profile_counts *backend_counts(const struct backend *backend);

#endif
