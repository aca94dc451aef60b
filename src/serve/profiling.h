/* SPDX-License-Identifier: MIT */
/*
 * Profiles of the watched programs, on request. The measuring process checks requests and says which
 * processes may be profiled; another process takes the profiles: serve/profiling_child.h those of CPU time
 * and allocation, serve/heap_child.h those of the heap.
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
	/* Be the process that takes profiles, see serve/profiling_child.h. */
	int (*child)(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);
	double rate;		       /* for CHILD */
	struct control *control;       /* refuses requests; it must outlive the profiling */
	struct profile_counts *counts; /* the same */
	int epoll_fd;		       /* reports when answers have arrived */
	bool starts_later;	       /* not before the first request that is allowed */
	/* With starts_later: no request may start it, and gets this answer. NULL: it may. */
	const char *forbidden, *hint;
	const char *what;  /* "profile" or "heap profile", for the log */
	const char *index; /* lines of the index: paths */
};

/*
 * Start the process. If it cannot take profiles, say why: requests get the same answer. Returns an error
 * only if memory or processes are short.
 */
int profiling_start(struct ocp_ctx *ctx, const struct profiling_settings *settings,
		    struct profiling **out);
/* Ends the process. Takes NULL. */
void profiling_free(struct profiling *profiling);
/* Is there a process? */
bool profiling_runs(const struct profiling *profiling);

/*
 * Answer ASKED, one of ASK_PROFILE, ASK_FLAME, ASK_PROFILES, ASK_HEAP and ASK_SITES, which is untrusted.
 * False: the answer comes from profiling_take. Otherwise it is REPLY.
 */
bool profiling_answer(struct profiling *profiling, const struct watch *watch,
		      const struct asked *asked, struct http_reply *reply);
/* Nobody waits for the profile ID: end it. */
void profiling_end(struct profiling *profiling, uint64_t id);
/* Take an answer that came later. False: none has arrived. */
bool profiling_take(struct profiling *profiling, uint64_t *id, struct http_reply *reply);
/* Follow the processes of the watched programs. Call this after each tick. */
void profiling_follow(struct profiling *profiling, const struct watch *watch);

#endif
