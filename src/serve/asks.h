/* SPDX-License-Identifier: MIT */
/*
 * The HTTP process's end of the channel: it sends requests to the measuring process, and keeps the
 * latest answers.
 *
 * A client waits only briefly for a new answer. While the measuring process is busy, the client
 * gets the previous answer and its age. A client that needs an answer that was made after its
 * request, or that switches a probe, gets a ticket and waits until the answer with this ticket
 * arrives.
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
 * Wait briefly for a new answer to ASK. Append the latest answer to BODY, and set *AGE_MS to its
 * age. ASK must precede ASK_SWITCH in enum ask. If is_alone, return ASKS_NOTHING.
 */
enum asks_result asks_get(struct asks *asks, enum ask ask, struct strbuf *body, int64_t *age_ms);
/*
 * Send ASK with MESSAGE, and return the ticket of the request. If clients share the answers to ASK,
 * and two requests ASK are unanswered, send nothing and return the ticket of the second one. In
 * both cases the answer is made after this call. Return 0 if too many requests are waiting, or if
 * is_alone.
 */
uint64_t asks_queue(struct asks *asks, enum ask ask, const struct strbuf *message);
/* Take the answers that have arrived. Call this when `fd` is readable. */
void asks_collect(struct asks *asks);
/*
 * Ask the measuring process to end each unanswered profile whose client has gone: IS_AWAITED
 * returns false for DATA and the ticket of the profile.
 */
void asks_end_profiles(struct asks *asks, bool (*is_awaited)(const void *data, uint64_t ticket),
		       const void *data);

#endif
