/* SPDX-License-Identifier: MIT */
/*
 * A profile of a running program by Gc.Memprof, over the library ocaml-probes.memprof, which the program
 * must be linked with: see ring.h. The program stops the profile when the session is closed, or its owner
 * ends.
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
	uint32_t depth; /* of call stacks; at most MEMPROF_MAX_DEPTH */
	uint64_t data;	/* bytes of the ring: a power of two. 0: a usual number */
	/* The events are read at the probes, by struct memprof_probes; the ring has none. */
	bool by_probes;
};

/* An event of the program, checked. It exists until the next is read. */
struct memprof_event {
	enum memprof_kind kind;
	uint32_t domain;
	uint64_t time_ns;	 /* CLOCK_MONOTONIC */
	uint64_t id;		 /* of the block; not checked */
	uint32_t minors, majors; /* collections so far */
	/* Of allocations. */
	uint64_t n_samples, size; /* size: words without the header */
	enum memprof_source source;
	const uint64_t *stack; /* the innermost first; with MEMPROF_DEBUGINFO */
	uint32_t depth;
};

struct memprof_losses {
	uint64_t events[MEMPROF_KINDS]; /* that had no room in the ring */
	uint64_t samples;		/* of the allocations among them */
	bool is_cut; /* the program has ended, or the ring is damaged, in the middle of a record */
	bool is_damaged; /* nothing is read from the ring any more */
	bool is_false;	 /* the program has written numbers of losses that cannot be: all are 0 */
	uint64_t forks;
};

struct memprof_session;

/* Can PID be profiled? The errors are those of memprof_open. It asks for nothing. */
int memprof_check(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec);

/*
 * Ask PID for a profile. -ENODATA: it is not linked with the library; -EBUSY: another tool profiles it;
 * -EOPNOTSUPP: its version of OCaml has no Gc.Memprof; -EPROTO: the library is of another version, or older
 * than what SPEC needs.
 */
int memprof_open(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec,
		 struct memprof_session **out);
void memprof_close(struct memprof_session *session);

/* The program's version of OCaml: 41301 is 4.13.1. */
uint32_t memprof_ocaml(const struct memprof_session *session);

/* The number that the program has given to this session, which its probes tell. 0: not yet. */
uint64_t memprof_number(const struct memprof_session *session);

/* Readable when there is an answer. The session has no other descriptor. */
int memprof_fd(const struct memprof_session *session);

/*
 * Take the next answer of the program. False: no answer is waiting. *HAS_ENDED is set if the program has
 * closed the session. A message that is not a valid answer is ignored.
 */
bool memprof_answer(struct memprof_session *session, struct memprof_answer *answer,
		    bool *has_ended);

/* Ask the program to stop the profile. An answer comes when it has. */
void memprof_stop(struct memprof_session *session);

/* Take the next event. False: no event is waiting. */
bool memprof_next(struct memprof_session *session, struct memprof_event *event);

/* From now on, memprof_next takes only the events that are waiting at this moment. */
void memprof_finish(struct memprof_session *session);

/* What is missing. AT_END: nothing more will come. */
struct memprof_losses memprof_losses(const struct memprof_session *session, bool at_end);

#endif
