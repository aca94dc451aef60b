/* SPDX-License-Identifier: MIT */
/*
 * The replies of the program in a session: which domains started or refused the profile, and
 * whether the profile has ended. Also records the error messages for users.
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
	/* Without a reply for this many nanoseconds, the program is reported as waiting. */
	MEMPROF_LATE_NS = 1000 * 1000 * 1000,
	/*
	 * Nanoseconds after the first refusal in which another domain can still start the profile.
	 */
	MEMPROF_REFUSAL_NS = 200 * 1000 * 1000,
	MEMPROF_MAX_REFUSED = 64,
	MEMPROF_SEEN_DOMAINS = 1 << 16,
};

/* Starts as all 0. */
struct memprof_answers {
	int64_t started_ns; /* CLOCK_MONOTONIC, of the first domain; 0: not started */
	int64_t refused_ns; /* of the first refusal; 0: none */
	bool has_stopped;   /* in all domains */
	bool is_closed;	    /* by the program: it has ended, or it executes another one */
	char refusal[MEMPROF_TEXT_BYTES]; /* reason of the last refusal */
	uint32_t refused
		[MEMPROF_MAX_REFUSED]; /* domains that have refused and have sent no events */
	size_t n_refused;
	/*
	 * Bit sets, indexed by the domain modulo MEMPROF_SEEN_DOMAINS: the domains that have
	 * started the profile, and those that have sent events.
	 */
	uint8_t started[MEMPROF_SEEN_DOMAINS / 8], seen[MEMPROF_SEEN_DOMAINS / 8];
};

/*
 * Take all waiting replies from the session of PID. -EBUSY: another tool profiles PID, or its last
 * profile has not ended; -EPROTO: the library rejected the request.
 */
int memprof_answers_take(struct ocp_ctx *ctx, pid_t pid, struct memprof_session *session,
			 struct memprof_answers *answers);

/* Record that DOMAIN has sent an event. */
void memprof_answers_see(struct memprof_answers *answers, uint32_t domain);

/* Has DOMAIN started the profile? */
bool memprof_answers_started(const struct memprof_answers *answers, uint32_t domain);

/*
 * Has the program refused the profile as of NOW_NS: a domain refused it, and none has started it
 * within MEMPROF_REFUSAL_NS?
 */
bool memprof_answers_refuse(const struct memprof_answers *answers, int64_t now_ns);

/* Record the error of a refused profile. Returns -EBUSY. */
int memprof_answers_refusal(struct ocp_ctx *ctx, pid_t pid, const struct memprof_answers *answers);

#endif
