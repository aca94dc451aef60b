// SPDX-License-Identifier: MIT
#include "serve/asks.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"

void asks_free(struct asks *asks)
{
	for (size_t i = 0; i < ASK_SWITCH; i++)
		strbuf_free(&asks->known[i].body);
}

/* ---- answers -------------------------------------------------------------------------------- */

/*
 * Keep BODY, the answer to ASK, for other clients, unless it is an error. Takes over the memory of
 * BODY.
 */
static void keep_answer(struct asks *asks, enum ask ask, unsigned int status, struct strbuf *body)
{
	struct known_answer *known = &asks->known[ask];

	if (status || body->is_short) {
		strbuf_free(body);
		return;
	}
	strbuf_free(&known->body);
	*known = (struct known_answer){ true, *body, clock_ms() };
}

/*
 * Return true if each answer to ASK is for one client only. Answers to other requests are kept and
 * shared.
 */
static bool is_private(enum ask ask)
{
	return ask >= ASK_SWITCH;
}

static bool is_profile(enum ask ask)
{
	return ask > ASK_SWITCH;
}

/*
 * Take one answer from the channel. Return false if no answer has arrived, or if the channel has
 * failed.
 */
static bool take_one(struct asks *asks)
{
	struct strbuf body = { 0 };
	unsigned int status = 0;
	uint64_t ticket = 0;
	const int err = channel_receive(asks->fd, &ticket, &status, &body);
	enum ask ask;
	size_t at = 0;

	if (err == -EAGAIN)
		return false;
	while (at < asks->n_waiting && asks->waiting[at].ticket != ticket)
		at++;
	if (err || at == asks->n_waiting) {
		asks->is_alone = true;
		strbuf_free(&body);
		return false;
	}
	ask = asks->waiting[at].ask;
	asks->n_waiting--;
	memmove(asks->waiting + at, asks->waiting + at + 1,
		(asks->n_waiting - at) * sizeof(asks->waiting[0]));
	asks->on_answer(asks->data, ask, ticket, status, &body);
	if (is_private(ask))
		strbuf_free(&body);
	else
		keep_answer(asks, ask, status, &body);
	return true;
}

void asks_collect(struct asks *asks)
{
	while (!asks->is_alone && take_one(asks))
		;
}

/* ---- asking --------------------------------------------------------------------------------- */

/*
 * Return the number of unanswered requests ASK, and set *LAST to the ticket of the newest one if
 * there is any.
 */
static size_t count_waiting(const struct asks *asks, enum ask ask, uint64_t *last)
{
	size_t n = 0;

	for (size_t i = 0; i < asks->n_waiting; i++) {
		if (asks->waiting[i].ask != ask)
			continue;
		*last = asks->waiting[i].ticket;
		n++;
	}
	return n;
}

static uint64_t send_ask(struct asks *asks, enum ask ask, const struct strbuf *message)
{
	const uint64_t ticket = asks->last_ticket + 1;
	const int err = channel_ask(asks->fd, ask, ticket, message->bytes, message->n);

	asks->is_alone |= err && err != -EAGAIN;
	if (err)
		return 0;
	asks->waiting[asks->n_waiting].ask = ask;
	asks->waiting[asks->n_waiting].ticket = asks->last_ticket = ticket;
	asks->waiting[asks->n_waiting].is_ended = false;
	asks->waiting[asks->n_waiting++].since_ms = clock_ms();
	return ticket;
}

static size_t count_profiles(const struct asks *asks)
{
	size_t n = 0;

	for (size_t i = 0; i < asks->n_waiting; i++)
		n += is_profile(asks->waiting[i].ask);
	return n;
}

uint64_t asks_queue(struct asks *asks, enum ask ask, const struct strbuf *message)
{
	uint64_t last = 0;
	size_t n;

	asks_collect(asks);
	if (asks->is_alone)
		return 0;
	n = count_waiting(asks, ask, &last);
	if (ask == ASK_SWITCH && n == ASKS_MAX_SWITCHES)
		return 0;
	if (is_profile(ask) && count_profiles(asks) == ASKS_MAX_PROFILES)
		return 0;
	/*
	 * The measuring process executes one request after the other. Two requests ASK are
	 * unanswered, so it has not started the second one, whose answer will be current.
	 */
	if (!is_private(ask) && n == 2)
		return last;
	return send_ask(asks, ask, message);
}

void asks_end_profiles(struct asks *asks, bool (*is_awaited)(const void *data, uint64_t ticket),
		       const void *data)
{
	for (size_t i = 0; i < asks->n_waiting; i++) {
		const uint64_t ticket = asks->waiting[i].ticket;

		if (is_profile(asks->waiting[i].ask) && !asks->waiting[i].is_ended &&
		    !is_awaited(data, ticket))
			asks->waiting[i].is_ended =
				channel_ask(asks->fd, ASK_END_OF_PROFILE, ticket, "", 0) == 0;
	}
}

/*
 * Return when the oldest unanswered request was sent, or the current time if no request is waiting.
 * Requests for profiles do not count, since profiles take long.
 */
static int64_t oldest_ms(const struct asks *asks)
{
	for (size_t i = 0; i < asks->n_waiting; i++)
		if (!is_profile(asks->waiting[i].ask))
			return asks->waiting[i].since_ms;
	return clock_ms();
}

/*
 * Wait briefly for the answer to ASK. The deadline counts from the oldest unanswered request, so
 * that the waits of several clients do not add up while the measuring process is busy.
 */
static void await(struct asks *asks, enum ask ask)
{
	const int64_t deadline_ms =
		oldest_ms(asks) + (asks->known[ask].is_there ? ASKS_WAIT_MS : ASKS_FIRST_MS);
	struct pollfd fd = { .fd = asks->fd, .events = POLLIN };
	uint64_t last;

	while (!asks->is_alone && count_waiting(asks, ask, &last)) {
		const int64_t left_ms = deadline_ms - clock_ms();

		if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) == 0)
			break;
		take_one(asks);
	}
}

enum asks_result asks_get(struct asks *asks, enum ask ask, struct strbuf *body, int64_t *age_ms)
{
	const struct known_answer *known = &asks->known[ask];
	const int64_t begin_ms = clock_ms();
	uint64_t last;

	asks_collect(asks);
	if (!asks->is_alone && !count_waiting(asks, ask, &last))
		send_ask(asks, ask, &(struct strbuf){ 0 });
	if (asks->n_waiting)
		await(asks, ask);
	*age_ms = clock_ms() - known->made_ms;
	if (asks->is_alone || !known->is_there || *age_ms > ASKS_MAX_AGE_MS)
		return ASKS_NOTHING;
	strbuf_add(body, known->body.bytes, known->body.n);
	return known->made_ms >= begin_ms ? ASKS_FRESH : ASKS_OLD;
}
