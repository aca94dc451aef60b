/* SPDX-License-Identifier: MIT */
/*
 * The records that memprof.bpf.c makes of the events of Gc.Memprof, shared with its user side
 * (src/memprof). The kinds of events are defined in src/memprof/ring.h. The includer provides the
 * types __u8 ... __s64.
 *
 *	map      type         key               value
 *	sites    array        number of a site  struct memprof_site
 *	site_args array       as in a site      struct site_args
 *	events   ring buffer                    struct memprof_record
 *	scratch  array                          struct memprof_scratch
 *	losses   array        0                 struct memprof_probe_losses
 */
#ifndef MEMPROF_H
#define MEMPROF_H

#include "args.h"

enum {
	EVENT_KINDS = 6,
	EVENT_ALLOC_MAJOR = 2,	/* events of kinds 1 to EVENT_ALLOC_MAJOR are allocations */
	EVENT_MAX_DEPTH = 1024, /* maximum number of frames of a call stack */
	EVENT_SLOTS = 8,	/* slots of scratch memory per processor */
};

/* The words of a record. */
enum {
	EVENT_HEAD,	   /* kind | number of words of the record << 8 | domain << 32 */
	EVENT_TIME,	   /* the time of the event: CLOCK_MONOTONIC, nanoseconds */
	EVENT_ID,	   /* the id of the block */
	EVENT_COLLECTIONS, /* minor collections so far | major collections so far << 32 */
	EVENT_WORDS,	   /* the number of words of an event that is not an allocation */
	EVENT_SAMPLES = EVENT_WORDS,
	EVENT_SIZE,   /* size of the block in words, without the header */
	EVENT_SOURCE, /* enum memprof_source | number of frames << 8 */
	/* the frames, the innermost first, as in the ring of the library (src/memprof/ring.h) */
	EVENT_STACK,
};

/* The positions of the probes' arguments. */
enum {
	EVENT_ARG_SAMPLES,
	EVENT_ARG_SIZE,
	EVENT_ARG_SOURCE,
	EVENT_ARG_CALLSTACK,
	EVENT_ARG_EVENT,
	EVENT_ARG_ID = 0,
	EVENT_ARG_SESSION,
	EVENT_ARG_MINORS,
	EVENT_ARG_MAJORS,
	EVENT_ARG_DOMAIN,
	EVENT_ARGS,
};

/* User space sets these values before the attach. */
struct memprof_config {
	__u64 pidns_dev, pidns_ino; /* the pid namespace of the process; 0: the initial one */
	__u32 tgid;		    /* the id of the process in this namespace */
	/* the maximum depth of recorded call stacks; at most EVENT_MAX_DEPTH */
	__u32 depth;
	__u64 bytes; /* the size of the ring buffer */
};

struct memprof_site {
	__u32 kind; /* the kind of the events that hits of the site report; 0: ignore the site */
	__u32 args;
};

/*
 * In the ring buffer, a record ends after its last word: after EVENT_COLLECTIONS, or, for an
 * allocation, after the last frame of the call stack.
 */
struct memprof_record {
	__u64 session;
	__u64 words[EVENT_STACK + EVENT_MAX_DEPTH];
};

struct memprof_scratch {
	__u32 is_taken;
	__u32 failed; /* nonzero: a frame could not be read */
	struct memprof_record record;
};

/* Events that were lost, by kind, and how many samples they stand for. */
struct memprof_probe_losses {
	__u64 events[EVENT_KINDS];
	__u64 samples;
};

_Static_assert(sizeof(struct memprof_config) == 32, "shared by two compilers");
_Static_assert(sizeof(struct memprof_scratch) == 16 + 8 * (7 + 1024), "shared by two compilers");
_Static_assert(sizeof(struct memprof_probe_losses) == 56, "shared by two compilers");

#endif
