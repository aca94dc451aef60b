/* SPDX-License-Identifier: MIT */
/*
 * A profile by Gc.Memprof that a thread of C reads for Probes_lib.Memprof, so that the program's
 * ring does not fill while nobody asks. Errors are messages that the caller frees.
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

/* As OCaml gives it: nothing is checked. */
struct recorder_spec {
	long pid;
	double rate;	 /* samples per word */
	long depth;	 /* of call stacks */
	long max_events; /* that wait to be taken */
};

enum recorder_state {
	RECORDER_WAITING, /* the program has not answered */
	RECORDER_LATE,	  /* for so long that it may wait for something */
	RECORDER_RUNNING,
	RECORDER_STOPPED,
	RECORDER_ENDED, /* the program has ended, or executes another one */
	RECORDER_FAILED,
};

enum { NO_STACK = UINT32_MAX };

struct recorded_event {
	uint64_t id, time_ns, n_samples, size;
	uint32_t domain, minors, majors;
	uint32_t stack; /* its number; NO_STACK: unknown */
	enum memprof_kind kind;
	enum memprof_source source;
};

/* What a recorder has, at one moment. */
struct recorder_summary {
	double seconds; /* that the profile runs, or has run */
	struct memprof_losses losses;
	uint64_t unread;   /* events that were not kept */
	uint64_t left_out; /* blocks that are not followed */
	bool has_stopped;  /* the program has said so */
	uint32_t refused[MEMPROF_MAX_REFUSED];
	size_t n_refused; /* domains that have refused */
};

struct recorder;

/* NULL, or why it is not possible. */
char *recorder_open(const struct recorder_spec *spec, struct recorder **out);

/* Does not wait: the thread ends the profile and frees the recorder. */
void recorder_drop(struct recorder *recorder);

/*
 * Wait for at most MS milliseconds until there is news. IN_DOMAIN: is the profile running there,
 * and not only somewhere? (-1: somewhere.) *WHY is NULL, or the reason of RECORDER_FAILED.
 */
enum recorder_state recorder_await(struct recorder *recorder, int64_t in_domain, int ms,
				   char **why);

/* Ask the program to stop. It has, if recorder_await says so. */
void recorder_stop(struct recorder *recorder);

/* Take the events that are there: the caller frees the array. NULL: there are none, or *WHY. */
struct recorded_event *recorder_take(struct recorder *recorder, size_t *n, char **why);

/* The frames of stack NUMBER, the innermost first: the caller frees the array. */
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
