/* SPDX-License-Identifier: MIT */
/*
 * What the process that speaks HTTP has asked the one that measures, and the last answers. Clients
 * do not wait for long: while the measuring process is busy, they get the answer before, and are
 * told how old it is. Those who want another one, or to switch something, get a ticket for it.
 */
#ifndef SERVE_ASKS_H
#define SERVE_ASKS_H

#include <stdbool.h>
#include <stdint.h>
#include "serve/channel.h"

enum {
	ASKS_WAIT_MS = 50,	  /* for an answer, before the last one is given instead */
	ASKS_MAX_SWITCHES = 8,	  /* requests to switch that wait for their answer */
	ASKS_MAX_AGE_MS = 300000, /* of an answer: later it is no news, but a hung monitor */
};

struct asks {
	int fd;
	bool is_alone; /* nobody answers any more: the other process has ended */
	/* Asked and not answered yet. Answers come in the same order. */
	struct {
		enum ask ask;
		uint64_t ticket;
		int64_t since_ms;
	} waiting[2 * ASK_SWITCH + ASKS_MAX_SWITCHES];
	size_t n_waiting;
	uint64_t last_ticket;
	/* The last answer to all but requests to switch. */
	struct known_answer {
		bool is_there;
		struct strbuf body;
		int64_t made_ms;
	} known[ASK_SWITCH];
	/* Called for each answer, which it may take out of BODY. */
	void (*on_answer)(void *data, enum ask ask, uint64_t ticket, unsigned int status,
			  struct strbuf *body);
	void *data;
};

void asks_free(struct asks *asks);

enum asks_result {
	ASKS_FRESH,   /* of this moment */
	ASKS_OLD,     /* the last one: the other process is busy */
	ASKS_NOTHING, /* it is busy, and there is no answer that is not too old */
};

/*
 * The answer to ASK, which is not ASK_SWITCH, appended to BODY; *AGE_MS says how old it is if
 * that is ASKS_OLD. ASKS_NOTHING also if is_alone.
 */
enum asks_result asks_get(struct asks *asks, enum ask ask, struct strbuf *body, int64_t *age_ms);
/*
 * Ask, with MESSAGE, for an answer of a later moment than this one, and return its ticket; 0: too
 * much waits already, or is_alone.
 */
uint64_t asks_queue(struct asks *asks, enum ask ask, const struct strbuf *message);
/* Take the answers that have come. To be called when there is something to be read at FD. */
void asks_collect(struct asks *asks);

#endif
