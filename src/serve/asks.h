/* SPDX-License-Identifier: MIT */
/*
 * The requests that the HTTP process has sent to the measuring process, and the latest answers.
 * Clients do not wait long: while the measuring process is busy, they get the previous answer and
 * its age. A client that needs a newer answer, or switches a probe, gets a ticket for its request
 * and waits.
 */
#ifndef SERVE_ASKS_H
#define SERVE_ASKS_H

#include <stdbool.h>
#include <stdint.h>
#include "serve/channel.h"

enum {
	/* How long a client waits for an answer before it gets the previous answer. */
	ASKS_WAIT_MS = 50,
	ASKS_FIRST_MS = 1000,	  /* how long a client waits if there is no previous answer */
	ASKS_MAX_SWITCHES = 8,	  /* maximum number of unanswered requests ASK_SWITCH */
	ASKS_MAX_PROFILES = 24,	  /* maximum number of unanswered requests for profiles */
	ASKS_MAX_AGE_MS = 300000, /* an older answer is not sent: the measuring process hangs */
};

struct asks {
	int fd;
	bool is_alone; /* the channel has failed: the measuring process has exited */
	/* Unanswered requests, in the order of sending. */
	struct {
		enum ask ask;
		uint64_t ticket; /* the id of the request in the channel */
		int64_t since_ms;
		bool is_ended; /* ASK_END_OF_PROFILE has been sent for this request */
	} waiting[2 * ASK_SWITCH + ASKS_MAX_SWITCHES + ASKS_MAX_PROFILES];
	size_t n_waiting;
	uint64_t last_ticket;
	/* The latest answer to each kind of request before ASK_SWITCH in enum ask. */
	struct known_answer {
		bool is_there;
		struct strbuf body;
		int64_t made_ms;
	} known[ASK_SWITCH];
	/* Called for each answer. The callee may take over the contents of BODY. */
	void (*on_answer)(void *data, enum ask ask, uint64_t ticket, unsigned int status,
			  struct strbuf *body);
	void *data;
};

void asks_free(struct asks *asks);

enum asks_result {
	ASKS_FRESH,   /* made during this call */
	ASKS_OLD,     /* the previous answer: the measuring process is busy */
	ASKS_NOTHING, /* no answer: the measuring process is busy, hangs or has exited */
};

/*
 * Append the latest answer to ASK to BODY, and set *AGE_MS to its age. ASK must precede ASK_SWITCH
 * in enum ask. Wait briefly for a new answer. If is_alone, return ASKS_NOTHING.
 */
enum asks_result asks_get(struct asks *asks, enum ask ask, struct strbuf *body, int64_t *age_ms);
/*
 * Send ASK with MESSAGE, or use an equal request that has not been started. Return the ticket of
 * the request; its answer will be made after this call. Return 0 if too many requests are waiting,
 * or if is_alone.
 */
uint64_t asks_queue(struct asks *asks, enum ask ask, const struct strbuf *message);
/* Take the answers that have arrived. Call this when `fd` is readable. */
void asks_collect(struct asks *asks);
/* End each unanswered profile for whose ticket IS_AWAITED returns false: its client has gone. */
void asks_end_profiles(struct asks *asks, bool (*is_awaited)(const void *data, uint64_t ticket),
		       const void *data);

#endif
