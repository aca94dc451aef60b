/* SPDX-License-Identifier: MIT */
/*
 * The process that takes profiles, `probes-profiler`. Making unwind tables and naming stacks takes
 * longer than the measuring process may be busy, so this is done in a child of it, with the same
 * rights. The two speak through a channel (serve/channel.h), whose kinds of request are these.
 */
#ifndef SERVE_PROFILING_CHILD_H
#define SERVE_PROFILING_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "profile/recorder.h"

enum profiling_order {		       /* 0 to ASKS - 1 */
		       PROFILING_TAKE, /* struct profiling_take, and the executable's path or nothing */
		       PROFILING_FOLLOW, /* all processes that may be profiled: a pid_t and a path, again and again */
		       PROFILING_CANCEL, /* the profile with the id; it is answered with PROFILING_CANCELLED */
};

/* An answer with the id 0 is news, see serve/heap_figures.h. */

struct profiling_take {
	enum profile_kind kind;
	unsigned int seconds, hz;
	pid_t pid;
	bool is_flame; /* or another form in JSON, of the heap */
};

/* The body of a successful answer begins with them. */
struct profiling_numbers {
	uint64_t samples, truncated, lost;
};

enum { PROFILING_CANCELLED = 499 };

/* The child's report: it can take profiles, or not. */
struct profiling_report {
	int err;
	char error[256], hint[256];
};

/* Send the report for ERR, which CTX tells more of. */
void profiling_child_report(struct ocp_ctx *ctx, int fd, int err);

/* Be the process, until the other end of FD is closed or PARENT ends. Returns an exit status. */
int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

#endif
