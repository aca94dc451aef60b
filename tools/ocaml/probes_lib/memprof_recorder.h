/* SPDX-License-Identifier: MIT */
/*
 * A profile by Gc.Memprof that a C thread reads for Probes_lib.Memprof, so that the ring does not
 * fill between two calls of the OCaml program. Errors are messages that the caller frees.
 */
#ifndef MEMPROF_RECORDER_H
#define MEMPROF_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "memprof/heap_sites.h"
#include "memprof/session.h"

enum { RECORDER_MAX_EVENTS = 10000000 };

/* The parameters from OCaml, not checked yet. */
struct recorder_spec {
	long pid;
	double rate;	 /* samples per word */
	long depth;	 /* of call stacks */
	long max_events; /* events that are kept for recorder_take() */
};

enum recorder_state {
	RECORDER_WAITING, /* the program has not answered */
	RECORDER_LATE,	  /* no answer for so long that the program may be waiting */
	RECORDER_RUNNING,
	RECORDER_STOPPED,
	RECORDER_ENDED, /* the program has ended, or executes another program */
	RECORDER_FAILED,
};

enum { NO_STACK = UINT32_MAX };

struct recorded_event {
	uint64_t id, time_ns, n_samples, size;
	uint32_t domain, minors, majors;
	uint32_t stack; /* the number of the call stack; NO_STACK: unknown */
	enum memprof_kind kind;
	enum memprof_source source;
};

/* The state of a recorder at one moment. */
struct recorder_summary {
	double seconds; /* the duration of the profile so far */
	struct memprof_losses losses;
	uint64_t unread;   /* events that were not kept */
	uint64_t left_out; /* blocks that are not followed */
	bool has_stopped;  /* the program has confirmed it, or has closed the session */
	uint32_t refused[MEMPROF_MAX_REFUSED];
	size_t n_refused; /* the number of domains that have refused */
};

struct recorder;

/* Start a profile. Returns NULL, or the reason why this is not possible. */
char *recorder_open(const struct recorder_spec *spec, struct recorder **out);

/* Return at once: the thread then ends the profile and frees the recorder. */
void recorder_drop(struct recorder *recorder);

/*
 * Wait for news, at most MS milliseconds. The state is RECORDER_WAITING until the profile runs in
 * the domain IN_DOMAIN (-1: in any domain), for at most MEMPROF_LATE_NS. *WHY is NULL, or the
 * reason of RECORDER_FAILED.
 */
enum recorder_state recorder_await(struct recorder *recorder, int64_t in_domain, int ms,
				   char **why);

/* Request the end of the profile. recorder_await() returns when the program has stopped it. */
void recorder_stop(struct recorder *recorder);

/* Take the events so far. The caller frees the array. NULL: no events, or an error in *WHY. */
struct recorded_event *recorder_take(struct recorder *recorder, size_t *n, char **why);

/* The frames of stack NUMBER, the innermost first. The caller frees the array. */
const struct named_frame **recorder_frames(struct recorder *recorder, size_t number, size_t *n,
					   char **why);

struct recorder_report {
	struct heap_site *sites;
	size_t n_sites;
	struct heap_stack *stacks; /* by number, without frames */
	size_t n_stacks;
	struct recorder_summary summary;
};

/* The caller frees the arrays. */
char *recorder_report(struct recorder *recorder, bool by_live, struct recorder_report *report);

struct recorder_summary recorder_summary(struct recorder *recorder);

#endif
