/* SPDX-License-Identifier: MIT */
/*
 * The events of Gc.Memprof as memprof.bpf.c records them, shared with its user side (src/memprof).
 * The kinds of events are defined in src/memprof/ring.h. The includer provides the types __u8 ...
 * __s64.
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
	EVENT_ALLOC_MAJOR = 2,	/* kinds up to this one are allocations */
	EVENT_MAX_DEPTH = 1024, /* frames of a call stack */
	EVENT_SLOTS = 8,	/* slots of scratch memory for each processor */
};

/* The words of a record. */
enum {
	EVENT_HEAD,	   /* kind, words << 8, domain << 32 */
	EVENT_TIME,	   /* CLOCK_MONOTONIC, nanoseconds */
	EVENT_ID,	   /* the id of the block */
	EVENT_COLLECTIONS, /* minor collections so far, major collections so far << 32 */
	EVENT_WORDS,	   /* the number of words of events that are not allocations */
	EVENT_SAMPLES = EVENT_WORDS,
	EVENT_SIZE,   /* size of the block in words, without the header */
	EVENT_SOURCE, /* enum memprof_source, depth << 8 */
	EVENT_STACK,  /* the innermost frame first, as in the ring */
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
	__u32 tgid;		    /* the process, in that namespace */
	/* the maximum depth of recorded call stacks; at most EVENT_MAX_DEPTH */
	__u32 depth;
	__u64 bytes; /* the size of the ring buffer */
};

struct memprof_site {
	__u32 kind; /* the kind of the site's events; 0: the site is ignored */
	__u32 args;
};

/*
 * Only the first of these words are in the ring buffer: the words of the record's kind and, for an
 * allocation, its call stack.
 */
struct memprof_record {
	__u64 session;
	__u64 words[EVENT_STACK + EVENT_MAX_DEPTH];
};

struct memprof_scratch {
	__u32 is_taken;
	__u32 failed; /* a frame could not be read */
	struct memprof_record record;
};

/* Events that are not in the ring buffer. */
struct memprof_probe_losses {
	__u64 events[EVENT_KINDS];
	__u64 samples;
};

_Static_assert(sizeof(struct memprof_config) == 32, "shared by two compilers");
_Static_assert(sizeof(struct memprof_scratch) == 16 + 8 * (7 + 1024), "shared by two compilers");
_Static_assert(sizeof(struct memprof_probe_losses) == 56, "shared by two compilers");

#endif
