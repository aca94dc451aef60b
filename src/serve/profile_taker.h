/* SPDX-License-Identifier: MIT */
/*
 * The common parts of the two processes that take profiles (profiling_child.h, heap_child.h): how
 * they begin, the orders that they get through a channel (channel.h), and how they answer.
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

/* Orders. channel_take() accepts only numbers below ASKS. */
enum profiling_order {
	PROFILING_TAKE,	  /* with a struct profiling_take, and the path of the executable or "" */
	PROFILING_FOLLOW, /* with a pid_t and a path for each process that may be profiled */
	PROFILING_CANCEL, /* the order with this id, which is answered with PROFILING_CANCELLED */
};

/* An answer with id 0 belongs to no order: it is a message of serve/heap_figures.h. */

struct profiling_take {
	enum profile_kind kind;
	unsigned int seconds, hz;
	pid_t pid;
	bool is_flame; /* answer with JSON: a flame graph, or the heap's sites */
};

/* The head of the body of a successful answer. */
struct profiling_numbers {
	uint64_t samples, truncated, lost;
};

enum { PROFILING_CANCELLED = 499 };

/* The child's report: it can take profiles (err is 0), or the reason why not. */
struct profiling_report {
	int err;
	char error[256], hint[256];
};

/*
 * Prepare the process to be a child called NAME: close all descriptors except FD and stderr (0 and
 * 1 become /dev/null), and end when the process PARENT ends. -ESRCH if PARENT has ended already.
 */
int taker_begin(struct ocp_ctx *ctx, pid_t parent, int fd, const char *name);

/* Send the report for ERR, with the error and the hint in CTX. */
void taker_report(struct ocp_ctx *ctx, int fd, int err);

/* Answer the order with this ID. Exit if the channel has failed. */
void taker_answer(int fd, uint64_t id, unsigned int status, const struct strbuf *body);

/* Answer with the error of CTX, and HINT if it is not NULL. */
void taker_answer_error(struct ocp_ctx *ctx, int fd, uint64_t id, unsigned int status,
			const char *hint);

typedef int (*taker_write_fn)(struct ocp_ctx *ctx, const void *data, FILE *to);

/* Append the body of a successful answer to BODY: NUMBERS, and the output of WRITE for DATA. */
int taker_add_body(struct ocp_ctx *ctx, const struct profiling_numbers *numbers,
		   taker_write_fn write, const void *data, struct strbuf *body);

#endif
