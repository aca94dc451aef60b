/* SPDX-License-Identifier: MIT */
/*
 * The requests that the HTTP process has sent to the measuring process, and the latest answers.
 * Clients do not wait long: while the measuring process is busy, they get the previous answer and
 * its age. A client that needs a newer answer, or switches a probe, gets a ticket and waits.
 */
#ifndef SERVE_ASKS_H
#define SERVE_ASKS_H

#include <stdbool.h>
#include <stdint.h>
#include "serve/channel.h"

enum {
	ASKS_WAIT_MS = 50,	  /* the wait for an answer, before the previous one is sent */
	ASKS_FIRST_MS = 1000,	  /* the same, if there is no previous answer */
	ASKS_MAX_SWITCHES = 8,	  /* switch requests without an answer */
	ASKS_MAX_PROFILES = 24,	  /* requests for profiles without an answer */
	ASKS_MAX_AGE_MS = 300000, /* an older answer means that the measuring process hangs */
};

struct asks {
	int fd;
	bool is_alone; /* the measuring process has exited */
	/* Requests without an answer, in their order. */
	struct {
		enum ask ask;
		uint64_t ticket; /* its id in the channel */
		int64_t since_ms;
		bool is_ended; /* ASK_END_OF_PROFILE has been sent for it */
	} waiting[2 * ASK_SWITCH + ASKS_MAX_SWITCHES + ASKS_MAX_PROFILES];
	size_t n_waiting;
	uint64_t last_ticket;
	/* The latest answer to each kind of request before ASK_SWITCH. */
	struct known_answer {
		bool is_there;
		struct strbuf body;
		int64_t made_ms;
	} known[ASK_SWITCH];
	/* Called for each answer. The callee may take the contents of BODY. */
	void (*on_answer)(void *data, enum ask ask, uint64_t ticket, unsigned int status,
			  struct strbuf *body);
	void *data;
};

void asks_free(struct asks *asks);

enum asks_result {
	ASKS_FRESH,   /* current */
	ASKS_OLD,     /* the previous answer: the measuring process is busy */
	ASKS_NOTHING, /* no recent answer: the measuring process is busy or has exited */
};

/*
 * Append the answer to ASK (before ASK_SWITCH) to BODY. *AGE_MS is the age of an ASKS_OLD answer.
 * Returns ASKS_NOTHING if is_alone.
 */
enum asks_result asks_get(struct asks *asks, enum ask ask, struct strbuf *body, int64_t *age_ms);
/*
 * Send ASK with MESSAGE, and return its ticket. The answer will be made after this call. Return 0
 * if too many requests are waiting, or if is_alone.
 */
uint64_t asks_queue(struct asks *asks, enum ask ask, const struct strbuf *message);
/* Take the answers that have arrived. Call this when FD is readable. */
void asks_collect(struct asks *asks);
/* End the profiles whose clients have gone: IS_AWAITED returns false for their tickets. */
void asks_end_profiles(struct asks *asks, bool (*is_awaited)(const void *data, uint64_t ticket),
		       const void *data);

#endif
