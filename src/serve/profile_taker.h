/* SPDX-License-Identifier: MIT */
/*
 * What the two processes that take profiles (profiling_child.h, heap_child.h) have in common: how they begin,
 * the orders that they get through a channel (channel.h), and how they answer.
 */
#ifndef SERVE_PROFILE_TAKER_H
#define SERVE_PROFILE_TAKER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "base/strbuf.h"
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

/*
 * Be a child called NAME, which ends with the process PARENT and has no file but FD and those of stdio.
 * -ESRCH if PARENT has ended already.
 */
int taker_begin(struct ocp_ctx *ctx, pid_t parent, int fd, const char *name);

/* Send the report for ERR, which CTX tells more of. */
void taker_report(struct ocp_ctx *ctx, int fd, int err);

/* Answer the order with this ID. If nobody is there to take it, the process ends. */
void taker_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body);

/* Answer with the error of CTX, and HINT if it is not NULL. */
void taker_answer_error(struct ocp_ctx *ctx, int fd, uint64_t id, unsigned int status,
			const char *hint);

typedef int (*taker_write_fn)(struct ocp_ctx *ctx, const void *data, FILE *to);

/* Add to BODY what a successful answer consists of: NUMBERS, and what WRITE writes of DATA. */
int taker_add_body(struct ocp_ctx *ctx, const struct profiling_numbers *numbers,
		   taker_write_fn write, const void *data, struct strbuf *body);

#endif
