/* SPDX-License-Identifier: MIT */
/*
 * Take profiles of the watched programs, on request. The measuring process checks requests and
 * decides which processes may be profiled. A child process takes the profiles:
 * serve/profiling_child.c profiles CPU time and allocation, serve/heap_child.c profiles the heap.
 */
#ifndef SERVE_PROFILING_H
#define SERVE_PROFILING_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "serve/channel.h"
#include "serve/auth.h"
#include "serve/metrics.h"
#include "serve/request.h"
#include "watch/watch.h"

enum { PROFILING_MAX = 16 }; /* maximum number of profiles at one time */

struct profiling;

struct profiling_settings {
	/* Runs in the child process: profiling_child() or heap_child(). */
	int (*child)(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);
	double rate;		       /* passed to `child` */
	struct auth *auth;	       /* authorizes requests; it must outlive the profiling */
	struct profile_counts *counts; /* the counters to update; they must outlive the profiling */
	/* An epoll instance, to which the channel to the child is added. */
	int epoll_fd;
	/* Start the child at the first allowed request, not in profiling_start(). */
	bool starts_later;
	/*
	 * With starts_later: `forbidden` is the error that a request gets if no request may start
	 * the child (NULL: requests may start the child); `hint` is the hint for refused requests.
	 */
	const char *forbidden, *hint;
	const char *what;  /* "profile" or "heap profile", for the log */
	const char *index; /* the paths of the profiles, as the first lines of the index page */
};

/*
 * Start the child, unless starts_later is set. If the child cannot take profiles, print the reason
 * and return 0; requests then get the reason as their answer. Return an error if no child can be
 * started.
 */
int profiling_start(struct ocp_ctx *ctx, const struct profiling_settings *settings,
		    struct profiling **out);
/* End the child. PROFILING may be NULL. */
void profiling_free(struct profiling *profiling);
/* Return true if the child runs. */
bool profiling_runs(const struct profiling *profiling);

/*
 * Answer the untrusted request ASKED: ASK_PROFILE, ASK_FLAME, ASK_PROFILES, ASK_HEAP or ASK_SITES.
 * Return true if REPLY is the answer. Return false if profiling_take() will return the answer
 * later.
 */
bool profiling_answer(struct profiling *profiling, const struct watch *watch,
		      const struct asked *asked, struct http_reply *reply);
/* End the profile ID, whose client has gone. Ignore an unknown ID. */
void profiling_end(struct profiling *profiling, uint64_t id);
/*
 * Take a delayed answer: set *ID to the id of its request, and fill in REPLY. Return false if no
 * answer has arrived.
 */
bool profiling_take(struct profiling *profiling, uint64_t *id, struct http_reply *reply);
/* If the list of watched processes has changed, send it to the child. Call this after each tick. */
void profiling_follow(struct profiling *profiling, const struct watch *watch);

#endif
