/* SPDX-License-Identifier: MIT */
/*
 * Takes the replies of the program in a session, and records which domains started or refused the
 * profile, and whether the profile has ended. Reports refusals as error messages for users.
 */
#ifndef MEMPROF_ANSWERS_H
#define MEMPROF_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "memprof/session.h"

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
	/* CLOCK_MONOTONIC when the first domain started the profile; 0: none has */
	int64_t started_ns;
	int64_t refused_ns; /* CLOCK_MONOTONIC of the first refusal; 0: none */
	bool has_stopped;   /* the profile has ended in all domains */
	/* The program has closed the session: it has ended or executed another program. */
	bool is_closed;
	char refusal[MEMPROF_TEXT_BYTES]; /* reason of the last refusal */
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
