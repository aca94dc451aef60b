// SPDX-License-Identifier: MIT
#include "memprof/answers.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

static uint8_t *bits_of(uint8_t *bits, uint32_t domain)
{
	return &bits[domain % MEMPROF_SEEN_DOMAINS / 8];
}

static bool is_set(const uint8_t *bits, uint32_t domain)
{
	return bits[domain % MEMPROF_SEEN_DOMAINS / 8] & 1 << domain % 8;
}

static void set(uint8_t *bits, uint32_t domain)
{
	*bits_of(bits, domain) |= (uint8_t)(1 << domain % 8);
}

static void record_domain_start(struct memprof_answers *a, uint32_t domain)
{
	if (!a->started_ns)
		a->started_ns = clock_ns(CLOCK_MONOTONIC);
	set(a->started, domain);
}

/*
 * Record that a domain refused the profile. There are two cases. A domain that was spawned during
 * the profile inherits the profile of its parent and refuses a second one; this domain sends
 * events, which show that it is profiled. Any other domain refuses because the program itself has
 * started a profile in it.
 */
static void record_refusal(struct memprof_answers *a, const struct memprof_answer *answer)
{
	if (!a->refused_ns)
		a->refused_ns = clock_ns(CLOCK_MONOTONIC);
	memcpy(a->refusal, answer->text, sizeof(a->refusal));
	if (a->n_refused < MEMPROF_MAX_REFUSED && !is_set(a->seen, answer->domain))
		a->refused[a->n_refused++] = answer->domain;
}

static int handle_reply(struct ocp_ctx *ctx, pid_t pid, struct memprof_answers *a,
			const struct memprof_answer *answer)
{
	switch (answer->kind) {
	case MEMPROF_STARTED:
		record_domain_start(a, answer->domain);
		break;
	case MEMPROF_REFUSED:
		record_refusal(a, answer);
		break;
	case MEMPROF_BUSY:
		return ctx_error(ctx, -EBUSY, "pid %d: %s", (int)pid,
				 answer->text[0] ? "its last profile has not ended yet"
						 : "another tool profiles it");
	case MEMPROF_INVALID:
		return ctx_error(ctx, -EPROTO, "pid %d: has refused: %s", (int)pid, answer->text);
	case MEMPROF_STOPPED:
		a->has_stopped = true;
	}
	return 0;
}

int memprof_answers_take(struct ocp_ctx *ctx, pid_t pid, struct memprof_session *session,
			 struct memprof_answers *a)
{
	struct memprof_answer answer;
	int err = 0;

	while (!err && !a->is_closed && memprof_answer(session, &answer, &a->is_closed))
		err = handle_reply(ctx, pid, a, &answer);
	return err;
}

void memprof_answers_see(struct memprof_answers *a, uint32_t domain)
{
	set(a->seen, domain);
	for (size_t i = 0; i < a->n_refused; i++)
		if (a->refused[i] == domain)
			a->refused[i--] = a->refused[--a->n_refused];
}

bool memprof_answers_started(const struct memprof_answers *a, uint32_t domain)
{
	return is_set(a->started, domain);
}

bool memprof_answers_refuse(const struct memprof_answers *a, int64_t now_ns)
{
	return a->refused_ns && !a->started_ns && now_ns >= a->refused_ns + MEMPROF_REFUSAL_NS;
}

int memprof_answers_refusal(struct ocp_ctx *ctx, pid_t pid, const struct memprof_answers *a)
{
	const int err =
		ctx_error(ctx, -EBUSY, "pid %d: no profile was started: %s", (int)pid, a->refusal);

	if (strstr(a->refusal, "already started"))
		ctx_hint(ctx, "the program runs a profile of its own, which is left alone");
	return err;
}
