/* SPDX-License-Identifier: MIT */
/*
 * Room record: what happened, as a timeline.
 * In: hits and pairs of a meter, figures of the collector.
 * Out: the events of a trace; files in the format of Perfetto.
 * Callers: tool.
 */
/*
 * The events of a timeline, in a buffer of a fixed size. When the buffer is full, the oldest events
 * are dropped and counted, so a recorder can run for days and keep the last seconds.
 *
 * Each event belongs to a track: a thread, a lane of a process for pairs that are matched by a key,
 * or a counter. Events are added when they have ended, in any order of their beginnings.
 */
#ifndef RECORD_TRACE_H
#define RECORD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"

enum trace_event_kind {
	TRACE_SLICE,   /* something that has a beginning and an end */
	TRACE_INSTANT, /* a moment */
	TRACE_COUNTER, /* a new value of a counter */
};

enum trace_track_kind {
	TRACE_PROCESS,	/* has a name, but no events */
	TRACE_THREAD,	/* slices nest, as calls of functions do */
	TRACE_GROUP,	/* slices that overlap, such as requests */
	TRACE_COUNTERS, /* the values of a counter */
	TRACE_SAMPLES,	/* the samples of the CPU of a thread */
};

/* What an event tells of. */
enum trace_category {
	TRACE_PROBE,
	TRACE_PAIR,
	TRACE_CALL,
	TRACE_GC,
	TRACE_WAIT,   /* a thread waits */
	TRACE_READY,  /* a thread could run, but has no CPU */
	TRACE_SAMPLE, /* a thread runs */
	TRACE_CATEGORIES
};

/* Return the name of CATEGORY in files. */
const char *trace_category_name(enum trace_category category);

struct trace_track {
	enum trace_track_kind kind;
	pid_t pid;
	pid_t tid; /* of TRACE_THREAD and TRACE_SAMPLES; otherwise 0 */
	/* the name of the thread at its last event; the name of the program, group or counter */
	char *name;
};

struct trace_event {
	enum trace_event_kind kind;
	uint32_t track; /* from trace_track() */
	uint32_t name;	/* from trace_name(); not used by TRACE_COUNTER */
	enum trace_category category;
	/* Times are of CLOCK_MONOTONIC. The duration is 0 except for slices. */
	int64_t begin_ns, duration_ns;
	int64_t value; /* of TRACE_COUNTER */
	bool is_open;  /* of TRACE_SLICE: it has no end, and the duration is 0 */
	/* 1 + the number of the argument that says to which request it belongs; 0: none */
	uint8_t key;
	/* of TRACE_WAIT and TRACE_SAMPLE: the number of the stack, see record/moments.h */
	uint64_t stack;
	const struct trace_arg *args;
	size_t n_args; /* at most TRACE_MAX_ARGS */
};

enum { TRACE_MAX_ARGS = 64 };

/* The forms of the value of an argument. */
enum trace_arg_kind { TRACE_INT, TRACE_REAL, TRACE_TEXT };

struct trace_arg {
	enum trace_arg_kind kind;
	uint32_t name; /* from trace_name() */
	int64_t number;
	double real;
	const char *text; /* ends with NUL */
};

struct trace;

/* The smallest buffer: one event with all its arguments must fit. */
enum { TRACE_MIN_BYTES = 1 << 20 };

/* Make an empty trace with a buffer of BYTES bytes. Returns 0 or -ENOMEM. */
int trace_new(struct ocp_ctx *ctx, size_t bytes, struct trace **out);
void trace_free(struct trace *trace);

/*
 * Set *NUMBER to the number of the text NAME. Names are never removed, so use this only for names
 * of probes, functions, arguments and the like. Returns 0 or -ENOMEM.
 */
int trace_name(struct trace *trace, const char *name, uint32_t *number);
const char *trace_name_text(const struct trace *trace, uint32_t number);
size_t trace_name_count(const struct trace *trace);

/*
 * Set *NUMBER to the number of a track, which is made if it does not exist. Processes and threads
 * are found by their ids, and have the name of the latest NAMED_NS, since events come in any
 * order; other tracks are found by NAME, too. NAMED_NS: when NAME was the name. Make the
 * track of a process before other tracks of this process. The number is valid until a track is
 * made: a track whose events were all dropped is removed when many tracks exist. Returns 1 if the
 * track was made, 0 if it existed, or -ENOMEM. trace_find_track() makes no track, and returns
 * whether it exists.
 */
int trace_track(struct trace *trace, enum trace_track_kind kind, pid_t pid, pid_t tid,
		const char *name, int64_t named_ns, uint32_t *number);
bool trace_find_track(const struct trace *trace, enum trace_track_kind kind, pid_t pid, pid_t tid,
		      const char *name, uint32_t *number);
/*
 * Tracks are numbered from 0 to trace_track_count() - 1. trace_track_get() returns NULL if the
 * number is not in use. trace_track_process() returns the number of the track of the process to
 * which a track belongs; UINT32_MAX: the process has no track.
 */
const struct trace_track *trace_track_get(const struct trace *trace, uint32_t number);
uint32_t trace_track_process(const struct trace *trace, uint32_t number);
size_t trace_track_count(const struct trace *trace);

/*
 * Add a copy of EVENT. If there is no room, drop the oldest events first. Returns 0. An EVENT that
 * needs more than a quarter of the buffer, or has a text of 64 KB, is not added: returns -E2BIG.
 */
int trace_add(struct trace *trace, const struct trace_event *event);

/*
 * Events for one file only: trace_mark() returns where the trace ends, and trace_rewind() removes
 * the events that were added since then. If these events were too many for the buffer, older ones
 * have been dropped.
 */
struct trace_mark {
	size_t next, end;
	uint64_t n_ever; /* the number of events that were added */
};
struct trace_mark trace_mark(const struct trace *trace);
void trace_rewind(struct trace *trace, const struct trace_mark *mark);

/* Return true if any event that was ever added has a key. */
bool trace_has_keys(const struct trace *trace);

/* The numbers of events that the buffer has, and of those that were dropped. */
uint64_t trace_event_count(const struct trace *trace);
uint64_t trace_dropped(const struct trace *trace);

/*
 * The events, in the order in which they were added. A position is valid until the next
 * trace_add(). trace_next() sets *PLACE to the position of the first event if *PLACE is
 * TRACE_START, otherwise to the next one; it returns false if there is no other event. trace_read()
 * sets *EVENT to the event at PLACE. The arguments of the event are in ARGS; their texts belong to
 * TRACE.
 */
#define TRACE_START SIZE_MAX
bool trace_next(const struct trace *trace, size_t *place);
void trace_read(const struct trace *trace, size_t place, struct trace_arg args[TRACE_MAX_ARGS],
		struct trace_event *event);

#endif
