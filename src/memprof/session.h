/* SPDX-License-Identifier: MIT */
/*
 * A Gc.Memprof profile of a running program, which must be linked with the library
 * ocaml-probes.memprof: see ring.h. The program stops the profile when the session is closed, or
 * when the process that owns the session ends.
 */
#ifndef MEMPROF_SESSION_H
#define MEMPROF_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "memprof/ring.h"

struct memprof_spec {
	double rate;	/* samples per word; above 0, at most 1 */
	uint32_t depth; /* most frames of a call stack; at most MEMPROF_MAX_DEPTH */
	uint64_t data;	/* size of the ring in bytes: a power of two; 0: the default */
	/* The events are read at the probes, with struct memprof_probes; the ring stays empty. */
	bool by_probes;
};

/* An event of the program. It has been checked, and is valid until the next event is read. */
struct memprof_event {
	enum memprof_kind kind;
	uint32_t domain;
	uint64_t time_ns;	 /* CLOCK_MONOTONIC */
	uint64_t id;		 /* id of the block; not checked */
	uint32_t minors, majors; /* minor and major collections before the event */
	/* The following members are only for allocations. */
	uint64_t n_samples, size; /* `size`: words without the header */
	enum memprof_source source;
	/* Frames, the innermost first; they may have the bit MEMPROF_DEBUGINFO. */
	const uint64_t *stack;
	uint32_t depth;
};

struct memprof_losses {
	uint64_t events[MEMPROF_KINDS]; /* events that did not fit into the ring, by kind */
	uint64_t samples; /* sum of n_samples over the allocations among these events */
	bool is_cut; /* the program has ended, or the ring is damaged, in the middle of a record */
	bool is_damaged; /* the ring is damaged: nothing more is read from it */
	/* The program has written impossible numbers of losses; they were replaced by 0. */
	bool is_false;
	uint64_t forks;
};

struct memprof_session;

/* Check whether PID can be profiled, without a request. The errors are those of memprof_open(). */
int memprof_check(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec);

/*
 * Request a profile from PID. Return -ENODATA if PID is not linked with the library; -EAGAIN if PID
 * has closed the library's socket; -EOPNOTSUPP if PID's version of OCaml has no Gc.Memprof; -EPROTO
 * if the library has another version, or is too old for SPEC. memprof_answers_take() reports
 * whether another tool profiles PID.
 */
int memprof_open(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec,
		 struct memprof_session **out);
void memprof_close(struct memprof_session *session);

/* Return the program's version of OCaml: 41301 is 4.13.1. */
uint32_t memprof_ocaml(const struct memprof_session *session);

/*
 * Return the number that the program has given to this session, and that it passes to its probes.
 * Return 0 if the program has not begun the session yet.
 */
uint64_t memprof_number(const struct memprof_session *session);

/* Return the only descriptor of the session. It is readable when a reply is waiting. */
int memprof_fd(const struct memprof_session *session);

/*
 * Take the next reply of the program. Return false if no reply is waiting. Set *HAS_ENDED if the
 * program has closed the session. A message that is not a valid reply is ignored.
 */
bool memprof_answer(struct memprof_session *session, struct memprof_answer *answer,
		    bool *has_ended);

/* Request the end of the profile. The program replies when the profile has stopped. */
void memprof_stop(struct memprof_session *session);

/* Take the next event. Return false if no event is waiting. */
bool memprof_next(struct memprof_session *session, struct memprof_event *event);

/* From now on, memprof_next() takes only the events that are waiting at this moment. */
void memprof_finish(struct memprof_session *session);

/*
 * Return the numbers of lost events. AT_END: no more events will come, so a record that is not
 * complete now is reported as cut (is_cut).
 */
struct memprof_losses memprof_losses(const struct memprof_session *session, bool at_end);

#endif
