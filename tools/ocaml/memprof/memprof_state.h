/* SPDX-License-Identifier: MIT */
/*
 * The parts of the library: memprof_server.c has a thread that waits for tools; memprof_events.c
 * writes events into a tool's ring; memprof_stubs.c is called by OCaml's signal handler, which
 * starts and stops profiles.
 *
 * A session is one profile of one tool. Its number, the epoch, marks everything that belongs to it.
 */
#ifndef MEMPROF_STATE_H
#define MEMPROF_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memprof/ring.h"

/* ---- memprof_events.c: for any thread that runs OCaml code ----------------------------------- */

/*
 * From now on, write the events of EPOCH to RING, which has DATA bytes for records. FLAGS are the
 * flags of the request.
 */
void memprof_events_open(struct memprof_ring *ring, uint64_t data, uint64_t epoch, uint32_t flags);
/* Write no more events. When the function returns, no thread is writing an event. */
void memprof_events_close(void);
/* The same for a child after fork, which has no other threads to wait for. */
void memprof_events_forget(void);
void memprof_events_count_fork(void);

/* ---- memprof_stubs.c: what the domains have done --------------------------------------------- */

enum memprof_phase { PHASE_IDLE, PHASE_RUNNING, PHASE_STOPPING };

/* Return the number of a new session. */
uint64_t memprof_next_epoch(void);
void memprof_begin(double rate, uint32_t depth);
void memprof_end(void);
/* Make OCaml call its handler soon. */
void memprof_ring_bell(void);
/* Let the handler make a new server. */
void memprof_want_server(void);
bool memprof_wants_server(void);

struct memprof_news {
	bool all_seen;	  /* each running domain has run the handler since memprof_new_round() */
	bool all_stopped; /* no domain has a profile of this library */
};

void memprof_new_round(void);
struct memprof_news memprof_news(void);
/* Take an answer that was not sent yet. Returns false if there is none. */
bool memprof_take_answer(struct memprof_answer *answer);

/* ---- memprof_server.c ------------------------------------------------------------------------ */

/* Make the signpost, the socket and the thread. If this fails, tools cannot start profiles. */
void memprof_server_open(uint32_t ocaml);
/* Close the descriptors of an earlier server, unless their numbers now belong to other files. */
void memprof_server_close(void);

#endif
