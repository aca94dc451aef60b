/* SPDX-License-Identifier: MIT */
/*
 * The common parts of the two processes that take profiles (profiling_child.h, heap_child.h): how
 * they begin, the orders that they get from the measuring process through a channel (channel.h),
 * and how they answer.
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

/*
 * Orders, sent as the `ask` of a request. channel_take() accepts only numbers below ASKS. An answer
 * has the id of its order; an answer with id 0 is a message of serve/heap_figures.h instead.
 */
enum profiling_order {
	/* Take a profile; with a struct profiling_take, and the path of the executable or "". */
	PROFILING_TAKE,
	/*
	 * Replace the process list; with a pid_t and a path for each process that may be profiled.
	 */
	PROFILING_FOLLOW,
	/* End the profile with this id; its answer has the status PROFILING_CANCELLED. */
	PROFILING_CANCEL,
};

/* The message of PROFILING_TAKE, before the path. */

struct profiling_take {
	enum profile_kind kind;
	unsigned int seconds, hz;
	pid_t pid;
	bool is_flame; /* answer with JSON: a flame graph, or the allocation sites of the heap */
};

/* Precedes the profile in the body of a successful answer. */
struct profiling_numbers {
	uint64_t samples, truncated, lost;
};

enum { PROFILING_CANCELLED = 499 };

/*
 * What the child reports after its start: it can take profiles (err is 0), or the reason why it
 * cannot.
 */
struct profiling_report {
	int err;
	char error[256], hint[256];
};

/*
 * Prepare this process to be a child called NAME: close all descriptors except FD and stderr (0 and
 * 1 become /dev/null), and let the kernel kill it when PARENT ends. -ESRCH if PARENT has ended
 * already.
 */
int taker_begin(struct ocp_ctx *ctx, pid_t parent, int fd, const char *name);

/* Send a struct profiling_report for ERR, with the error and the hint recorded in CTX. */
void taker_report(struct ocp_ctx *ctx, int fd, int err);

/* Answer the order with this ID. If the channel has failed, exit. */
void taker_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body);

/* Answer the order ID with STATUS, the error recorded in CTX, and HINT, which may be NULL. */
void taker_answer_error(struct ocp_ctx *ctx, int fd, uint64_t id, unsigned int status,
			const char *hint);

typedef int (*taker_write_fn)(struct ocp_ctx *ctx, const void *data, FILE *to);

/* Append the body of a successful answer to BODY: NUMBERS, and what WRITE writes for DATA. */
int taker_add_body(struct ocp_ctx *ctx, const struct profiling_numbers *numbers,
		   taker_write_fn write, const void *data, struct strbuf *body);

#endif
