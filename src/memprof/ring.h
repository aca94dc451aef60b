/* SPDX-License-Identifier: MIT */
/*
 * The interface between the tool and the library ocaml-probes.memprof (tools/ocaml/memprof), which
 * runs in the profiled program. Neither of the two trusts what the other has written.
 *
 * A program that links the library has two open files: the signpost, a sealed memfd with a struct
 * memprof_signpost, and the request socket, one end of a socket pair. A thread of the library reads
 * from the other end. The tool copies the request socket into its own process with pidfd_getfd(2)
 * and sends one struct memprof_request over it, with two descriptors: a memfd with a ring, and one
 * end of a second socket pair, which the tool has made and over which the program replies. The
 * profile ends when the tool's end of this second pair is closed.
 *
 * Libraries and tools with the same MEMPROF_VERSION may use structs without FEATURES, FLAGS and the
 * fields after them; a missing field counts as 0.
 */
#ifndef MEMPROF_RING_H
#define MEMPROF_RING_H

#include <stdint.h>

#define MEMPROF_NAME	   "ocaml-probes.memprof"
#define MEMPROF_MAGIC	   UINT64_C(0x31706d656d70636f) /* "ocpmemp1" */
#define MEMPROF_RING_BYTES 4096 /* size of struct memprof_ring; the records follow */

enum {
	/*
	 * The version of this interface. Tool and library refuse each other if their versions
	 * differ.
	 */
	MEMPROF_VERSION = 3,
	MEMPROF_MAX_DEPTH = 1024,
	MEMPROF_MAX_WRITERS = 4096, /* domains that OCaml 5.3 can run at one time */
	MEMPROF_TEXT_BYTES = 112,
	MEMPROF_MIN_DATA = 1 << 16, /* least size of the buffer; must be a power of two */
	MEMPROF_MAX_DATA = 1 << 30,
};

/* Bits of memprof_signpost.features and of memprof_request.flags. */
enum {
	/*
	 * The tool reads the events at the library's probes; no event goes into the ring. The
	 * probes have the arguments of enum memprof_probe_arg, among them the id of the block.
	 */
	MEMPROF_BY_PROBES = 1 << 0,
	/*
	 * Only in `flags`: times are ticks of the time stamp counter. The tool checks that the
	 * counter can serve as a clock (kernel/ticks.h), so the program need not check it.
	 */
	MEMPROF_IN_TICKS = 1 << 1,
};

struct memprof_signpost {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;	/* in the pid namespace of the program */
	uint32_t ocaml; /* version of OCaml: 41301 is 4.13.1 */
	uint32_t socket_fd;
	uint64_t socket_ino;
	uint32_t features;
	uint32_t reserved;
};

struct memprof_request {
	uint64_t magic;
	uint32_t version;
	uint32_t depth; /* maximum number of frames of a call stack */
	double rate;	/* samples per word */
	uint32_t flags;
	uint32_t reserved;
};

enum memprof_answer_kind {
	MEMPROF_BUSY = 1, /* another tool profiles the program */
	MEMPROF_INVALID,  /* the request is invalid; `text` has the reason */
	MEMPROF_STARTED,  /* the profile has started in `domain` */
	MEMPROF_REFUSED,  /* OCaml has refused the profile in `domain`, for the reason `text` */
	MEMPROF_STOPPED,  /* the profile has stopped in all domains */
};

struct memprof_answer {
	uint32_t kind;
	uint32_t domain;
	char text[MEMPROF_TEXT_BYTES]; /* terminated with 0 */
};

/* After the request, any message from the tool means: stop the profile. */

enum memprof_kind {
	MEMPROF_PADDING,
	MEMPROF_ALLOC_MINOR,
	MEMPROF_ALLOC_MAJOR,
	MEMPROF_PROMOTE,
	MEMPROF_DEALLOC_MINOR,
	MEMPROF_DEALLOC_MAJOR,
	MEMPROF_KINDS
};

/*
 * The records are sequences of words in a circular buffer of DATA bytes; HEAD and TAIL count bytes
 * from the start of the session. A writer reserves space for a record by advancing HEAD, fills in
 * the record, and writes its first word last; until then the first word is 0. When the reader has
 * read a record, it fills the space of the record with 0, and then advances TAIL. A record never
 * wraps: a record of the kind MEMPROF_PADDING fills the end of the buffer. LOST counts the events
 * that did not fit.
 */
struct memprof_ring {
	uint64_t magic;
	uint64_t data;
	/* The number that the program gave to this session; 0: the session has not begun. */
	uint64_t session;
	uint64_t reserved[5];
	uint64_t head __attribute__((aligned(64)));
	uint64_t tail __attribute__((aligned(64)));
	uint64_t lost[MEMPROF_KINDS] __attribute__((aligned(64)));
	uint64_t lost_samples; /* sum of n_samples over the lost allocations */
	uint64_t forks;	       /* number of forks of the program since the start of the profile */
};

/*
 * A record omits fields that are the same as in the previous record that this writer has written
 * into the ring in this session. The first record of a writer contains everything. A writer writes
 * for one domain at a time.
 *
 *	head      see memprof_head()
 *	id        of the block
 *	2 words   with MEMPROF_HAS_CONTEXT: the collections so far (minor | major << 32); the domain
 *	time      with MEMPROF_HAS_TIME: CLOCK_MONOTONIC, nanoseconds, or ticks if MEMPROF_IN_TICKS
 *	          is a flag of the request
 *
 * Allocations always have a time, and continue with:
 *
 *	samples   n_samples
 *	size      words without the header, source << MEMPROF_SOURCE_SHIFT
 *	frames    the innermost first. The outermost KEPT frames are omitted: they are the same as
 *	          in the writer's last allocation
 */
enum {
	MEMPROF_HAS_CONTEXT = 1 << 0,
	MEMPROF_HAS_TIME = 1 << 1,
	MEMPROF_CONTEXT_WORDS = 2,
	MEMPROF_LEAST_WORDS = 2,
	MEMPROF_ALLOC_WORDS = 5, /* number of words of an allocation, without context and frames */
	MEMPROF_MOST_WORDS = MEMPROF_ALLOC_WORDS + MEMPROF_CONTEXT_WORDS + MEMPROF_MAX_DEPTH,
	MEMPROF_SOURCE_SHIFT = 56,
};

/*
 * The known sources of allocations: memprof.c of OCaml's runtime numbers them so. OCaml 5.4 added
 * the source for mapped files. Later versions may add more.
 */
enum memprof_source {
	MEMPROF_NORMAL,
	MEMPROF_MARSHAL,
	MEMPROF_CUSTOM,
	MEMPROF_MAP_FILE,
	MEMPROF_SOURCES
};

/*
 * A frame is the return address of a call. But if this bit is set, the remaining bits are the
 * address of debug information for one of several allocations that the compiler has combined.
 */
#define MEMPROF_DEBUGINFO (UINT64_C(1) << 63)

/*
 * The arguments of the probes. All are OCaml ints, except for the call stack. The arguments before
 * MEMPROF_ARG_EVENT exist only for allocations. The arguments from MEMPROF_ARG_ID on exist for all
 * events. For allocations they come after the others: add MEMPROF_ARG_EVENT to their numbers.
 */
enum memprof_probe_arg {
	MEMPROF_ARG_SAMPLES,
	MEMPROF_ARG_SIZE,
	MEMPROF_ARG_SOURCE,
	MEMPROF_ARG_CALLSTACK, /* a block with OCaml's raw backtrace */
	MEMPROF_ARG_EVENT,     /* number of the first argument that all events have */
	MEMPROF_ARG_ID = 0,
	MEMPROF_ARG_SESSION,
	MEMPROF_ARG_MINORS,
	MEMPROF_ARG_MAJORS,
	MEMPROF_ARG_DOMAIN,
	MEMPROF_EVENT_ARGS
};

/* The first word of a record. */
struct memprof_head {
	unsigned int kind;  /* enum memprof_kind */
	unsigned int flags; /* MEMPROF_HAS_... */
	unsigned int words; /* size of the record in words */
	unsigned int writer;
	unsigned int kept; /* how many of the outermost frames are omitted */
};

static inline uint64_t memprof_pack(struct memprof_head head)
{
	return (uint64_t)head.kind | (uint64_t)head.flags << 4 | (uint64_t)head.words << 8 |
	       (uint64_t)head.writer << 24 | (uint64_t)head.kept << 40;
}

static inline struct memprof_head memprof_unpack(uint64_t word)
{
	return (struct memprof_head){ .kind = word & 0xf,
				      .flags = word >> 4 & 0xf,
				      .words = word >> 8 & 0xffff,
				      .writer = word >> 24 & 0xffff,
				      .kept = (unsigned int)(word >> 40) };
}

#endif
