/* SPDX-License-Identifier: MIT */
/*
 * The flight recorders of `serve --record`: one child process `ocaml-probes record` for each named
 * program. A fault in a recorder, or its end, ends no measurement; a recorder that has ended is
 * started again. The files of the recorders are in one directory (serve/recordings.h).
 */
#ifndef SERVE_RECORDERS_H
#define SERVE_RECORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "base/strbuf.h"
#include "serve/config.h"

struct recorders;

/* A program to record. The pairs, calls and key are those of the request. */
struct recorded_program {
	const char *exe; /* NULL: PID */
	pid_t pid;
	const struct measure_request *request;
	const struct record_conditions *conditions;
};

/*
 * Make recorders with the settings IS, which must outlive them; none is started. The output of the
 * recorders is read when EPOLL_FD is ready. Returns 0 or a negative errno with a message in CTX.
 */
int recorders_new(struct ocp_ctx *ctx, const struct record_settings *is, int epoll_fd,
		  struct recorders **out);
/* End the recorders, and wait for their end for some seconds. RECORDERS may be NULL. */
void recorders_free(struct recorders *recorders);

/*
 * Record the N PROGRAMS and no other ones: recorders of these programs, with the same conditions,
 * continue; others are ended, and new ones started. Returns 0 or -ENOMEM.
 */
int recorders_set(struct recorders *recorders, const struct recorded_program *programs, size_t n);

/* Read what the recorders say, and start those again that have ended. Call this after each tick. */
void recorders_tick(struct recorders *recorders);

/* What is known of recorder number I. */
struct recorder_state {
	const char *exe; /* NULL: PID */
	pid_t pid;
	const char *stem; /* the beginning of the names of its files, before -1, -2 and so on */
	const char *name; /* for recorder_dump_begin() */
	bool is_running;
	const char *problem; /* its last error; NULL: none */
};
size_t recorders_count(const struct recorders *recorders);
struct recorder_state recorders_at(const struct recorders *recorders, size_t i);

#endif
