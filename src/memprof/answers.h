/* SPDX-License-Identifier: MIT */
/*
 * What the program has answered in a session: in which domains the profile was started or refused, and
 * whether it has ended. The sentences for users are here, too.
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
	/* Nanoseconds after which a program that has not answered is said to wait. */
	MEMPROF_LATE_NS = 1000 * 1000 * 1000,
	/* As long after the first refusal, another domain can still start the profile. */
	MEMPROF_REFUSAL_NS = 200 * 1000 * 1000,
	MEMPROF_MAX_REFUSED = 64,
	MEMPROF_SEEN_DOMAINS = 1 << 16,
};

/* Starts as all 0. */
struct memprof_answers {
	int64_t started_ns; /* CLOCK_MONOTONIC, of the first domain; 0: the profile has not started */
	int64_t refused_ns; /* of the first refusal; 0: none */
	bool has_stopped;   /* everywhere */
	bool is_closed;	    /* by the program: it has ended, or it executes another one */
	char refusal[MEMPROF_TEXT_BYTES]; /* the last one's reason */
	uint32_t refused
		[MEMPROF_MAX_REFUSED]; /* domains that have refused and have sent no events */
	size_t n_refused;
	/* Bits of domains, by their last digits: those that have started, and that have sent events. */
	uint8_t started[MEMPROF_SEEN_DOMAINS / 8], seen[MEMPROF_SEEN_DOMAINS / 8];
};

/*
 * Take all answers that wait in the session of PID. -EBUSY: another tool profiles it; -EPROTO: the
 * request was refused.
 */
int memprof_answers_take(struct ocp_ctx *ctx, pid_t pid, struct memprof_session *session,
			 struct memprof_answers *answers);

/* DOMAIN has sent an event. */
void memprof_answers_see(struct memprof_answers *answers, uint32_t domain);

/* Has DOMAIN started the profile? */
bool memprof_answers_started(const struct memprof_answers *answers, uint32_t domain);

/* Has no domain started it by NOW_NS, although one was asked so early that it would have? */
bool memprof_answers_refuse(const struct memprof_answers *answers, int64_t now_ns);

/* The error of a refused profile: -EBUSY. */
int memprof_answers_refusal(struct ocp_ctx *ctx, pid_t pid, const struct memprof_answers *answers);

#endif
