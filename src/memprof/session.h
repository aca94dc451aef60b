/* SPDX-License-Identifier: MIT */
/*
 * Room memprof: what a program allocates, by Gc.Memprof in the program.
 * In: a pid of a program that has the library ocaml-probes.memprof.
 * Out: allocations and live blocks, with stacks.
 * Callers: tool, top and serve.
 */
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

/* Limits and default, in samples per word. The default has no visible cost. */
#define MEMPROF_MIN_RATE   1e-9
#define MEMPROF_USUAL_RATE 1e-4

/*
 * The names of the library's probes begin with this. Counting these probes costs a trap for each
 * event.
 */
#define MEMPROF_PROBES "memprof_"

/* Set *RATE from TEXT. Return false if TEXT is not a number from 1e-9 to 1. */
bool memprof_rate_read(const char *text, double *rate);

struct memprof_spec {
	double rate;	/* samples per word; above 0, at most 1 */
	uint32_t depth; /* most frames of a call stack; at most MEMPROF_MAX_DEPTH */
	uint64_t data;	/* size of the ring in bytes: a power of two; 0: the default */
	/*
	 * True: the caller reads the events at the probes, with struct memprof_probes, and the ring
	 * stays empty.
	 */
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
	uint8_t source; /* enum memprof_source, or the number of a source that is not known */
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

/* ---- replies of the program ------------------------------------------------------------------ */

/*
 * Takes the replies of the program in a session, and records which domains started or refused the
 * profile, and whether the profile has ended. Reports refusals as error messages for users.
 */

enum {
	/* If the program has not replied after this many nanoseconds, it is reported as waiting. */
	MEMPROF_LATE_NS = 1000 * 1000 * 1000,
	/*
	 * Nanoseconds from the first refusal until the profile counts as refused. Before that,
	 * another domain may still start the profile.
	 */
	MEMPROF_REFUSAL_NS = 200 * 1000 * 1000,
	MEMPROF_MAX_REFUSED = 64,
	MEMPROF_SEEN_DOMAINS = 1 << 16,
};

/* Initialise the struct with zeros. */
struct memprof_answers {
	/* CLOCK_MONOTONIC when the first domain started the profile; 0: no domain has */
	int64_t started_ns;
	int64_t refused_ns; /* CLOCK_MONOTONIC of the first refusal; 0: no domain has refused */
	bool has_stopped;   /* the profile has ended in all domains */
	/* The program has closed the session: it has ended or executed another program. */
	bool is_closed;
	char refusal[MEMPROF_TEXT_BYTES]; /* the reason that the most recent refusal gave */
	/* Domains that have refused the profile and have sent no events. */
	uint32_t refused[MEMPROF_MAX_REFUSED];
	size_t n_refused;
	/*
	 * Bit sets, indexed by the domain modulo MEMPROF_SEEN_DOMAINS: the domains that have
	 * started the profile, and those that have sent events.
	 */
	uint8_t started[MEMPROF_SEEN_DOMAINS / 8], seen[MEMPROF_SEEN_DOMAINS / 8];
};

/*
 * Take all waiting replies from the session of PID. Return -EBUSY if another tool profiles PID, or
 * if an earlier profile of PID has not ended yet; return -EPROTO if the library rejected the
 * request.
 */
int memprof_answers_take(struct ocp_ctx *ctx, pid_t pid, struct memprof_session *session,
			 struct memprof_answers *answers);

/* Record that DOMAIN has sent an event. */
void memprof_answers_see(struct memprof_answers *answers, uint32_t domain);

/* Return true if DOMAIN has started the profile. */
bool memprof_answers_started(const struct memprof_answers *answers, uint32_t domain);

/*
 * Return true if, at the time NOW_NS, the profile counts as refused: the first refusal was at least
 * MEMPROF_REFUSAL_NS ago, and no domain has started the profile so far.
 */
bool memprof_answers_refuse(const struct memprof_answers *answers, int64_t now_ns);

/* Record the error for a refused profile. Return -EBUSY. */
int memprof_answers_refusal(struct ocp_ctx *ctx, pid_t pid, const struct memprof_answers *answers);

#endif
