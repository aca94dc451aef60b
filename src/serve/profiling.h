/* SPDX-License-Identifier: MIT */
/*
 * Take profiles of the watched programs, on request. The measuring process checks requests and says
 * which processes may be profiled. A child takes the profiles: serve/profiling_child.h those of CPU
 * time and allocation, serve/heap_child.h those of the heap.
 */
#ifndef SERVE_PROFILING_H
#define SERVE_PROFILING_H

#include <stdbool.h>
#include <stdint.h>
#include "base/ctx.h"
#include "serve/channel.h"
#include "serve/control.h"
#include "serve/profile_counts.h"
#include "serve/reply.h"
#include "watch/watch.h"

enum { PROFILING_MAX = 16 }; /* profiles at one time */

struct profiling;

struct profiling_settings {
	/* Run as the child: profiling_child() or heap_child(). */
	int (*child)(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);
	double rate;		       /* for CHILD */
	struct control *control;       /* refuses requests; it must outlive the profiling */
	struct profile_counts *counts; /* must outlive the profiling */
	int epoll_fd;		       /* watches the channel for answers */
	bool starts_later;	       /* start the child at the first request that is allowed */
	/*
	 * With starts_later: the error if requests may not start the child (NULL: they may), and
	 * the hint for refused requests.
	 */
	const char *forbidden, *hint;
	const char *what;  /* "profile" or "heap profile", for the log */
	const char *index; /* the paths, as lines of the index page */
};

/*
 * Start the child, unless it starts later. If the child cannot take profiles, print the reason; it
 * is also the answer to requests. Return an error if no child can be started.
 */
int profiling_start(struct ocp_ctx *ctx, const struct profiling_settings *settings,
		    struct profiling **out);
/* End the child. PROFILING may be NULL. */
void profiling_free(struct profiling *profiling);
/* Does the child run? */
bool profiling_runs(const struct profiling *profiling);

/*
 * Answer the untrusted request ASKED: ASK_PROFILE, ASK_FLAME, ASK_PROFILES, ASK_HEAP or ASK_SITES.
 * True: REPLY is the answer. False: profiling_take() returns the answer later.
 */
bool profiling_answer(struct profiling *profiling, const struct watch *watch,
		      const struct asked *asked, struct http_reply *reply);
/* End the profile ID, whose client has gone. An unknown ID is ignored. */
void profiling_end(struct profiling *profiling, uint64_t id);
/* Take a delayed answer, to the request *ID. False: none has arrived. */
bool profiling_take(struct profiling *profiling, uint64_t *id, struct http_reply *reply);
/* Send the list of watched processes to the child, if it has changed. Call this after each tick. */
void profiling_follow(struct profiling *profiling, const struct watch *watch);

#endif
