/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps that measure.bpf.c shares with its user side (src/measure/engine), and
 * with other readers of the maps that `--keep` pins. MEASURE_VERSION changes with the layout. The
 * includer provides the __u32 and __u64 types: vmlinux.h in BPF programs, linux/types.h elsewhere.
 *
 *	map          type           key                     value
 *	hits         array          see below               u64, hits
 *	site_table   array          site number             struct measure_site
 *	roles        array          number                  struct measure_role
 *	pair_stats   per-CPU array  pair number             struct measure_pair
 *	pair_open    hash           struct measure_open_key struct measure_open
 *	key_open     hash           struct measure_start_key  u64, when the pair began
 *	frame_open   LRU hash           struct measure_frame_key  u64, when the call began
 *	frame_users  hash           u32, owner of a frame   u32, number of its entries in frame_open
 *	keyed        hash           struct measure_key      struct measure_keyed
 *	tgids        hash           u32, process id         u32, 1
 *	process_hits hash           u32, process id         u64, its hits; if config has
 *							    counts_processes
 *	losses       per-CPU array  0                       struct measure_losses
 *	serials      array          site number             u64, serial of the link; 0: none
 *	marks        array          thread id / 64          u64, one bit per thread; see "Handover"
 *
 * To get the hits of a site, add up the entries at CPU * stride + site number for all possible
 * CPUs. The stride is the number of entries divided by the number of possible CPUs.
 *
 * If arguments are read (object measure_full), there are also:
 *
 *	site_args    array          number                  struct site_args (args.h)
 *	histograms   per-CPU array  number                  struct measure_histogram
 *	float_histograms            see measure_floats.h
 *	compared     hash           struct measure_open_key struct measure_compared
 *	key_users    hash           u32, process id         u32, 1: may have entries in key_open
 *	prints       ring buffer                            struct hit_record (args.h)
 *
 * If calls are split by domain (object measure_full), there is also:
 *
 *	domain_pairs hash           struct measure_domain_key  struct measure_pair, its times only
 *
 * If hits are grouped by the value of an argument (object measure_by), there are also the maps of
 * measure_by.h.
 */
#ifndef MEASURE_H
#define MEASURE_H

#define MEASURE_VERSION 8

enum {
	MEASURE_DEPTH = 32, /* starts that one thread can have open in one pair; a power of 2 */
	MEASURE_MAX_PAIRS = 512,
	MEASURE_MAX_ROLES = 8, /* pairs that one probe can belong to */
	MEASURE_BUCKETS = 496, /* see measure_bucket_of() */
	MEASURE_NO_ARG = 0xffff,
	MEASURE_MAX_HISTOGRAMS = 1024,
};

/* Flags of measure_config.matching. */
enum {
	MEASURE_SOME_BY_THREAD = 1 << 0, /* at least one role lacks MEASURE_ROLE_KEYED */
	MEASURE_SOME_BY_KEY = 1 << 1,
	MEASURE_SOME_COMPARED = 1 << 2,
};

/* The meaning of the id in the keys of `keyed`. */
enum measure_keyed_by { MEASURE_UNKEYED, MEASURE_BY_TID, MEASURE_BY_TGID };

/*
 * The gate decides which BPF programs count hits. It is at the beginning of the programs' .bss.
 * `open` is MEASURE_CLOSED before the attach and after the detach, MEASURE_OPEN while the meter
 * counts, and during a handover the serial of the new link. Because one variable opens and closes
 * the gate, all sites start and stop counting at one moment.
 *
 * Handover. A uprobe_multi link cannot be changed. To stop measuring some sites of a link, user
 * space makes a second link for the remaining sites of the file, and then closes the first link.
 * While both exist, a hit runs the program twice, but must count once. The kernel calls the newest
 * consumer of a uprobe first (consumer_add() puts it at the head of the list). The program of the
 * new link, which has the serial of this link in the cookie, counts the hit and sets the bit of the
 * thread in `marks`. The program of the old link clears this bit. If the bit was not set, the
 * program of the old link counts the hit, because the new link was not yet attached to the site
 * when the hit began. If the new link is attached, its program always runs first, and the thread
 * runs nothing else between the two programs. If the handover begins between the two programs, only
 * the old link's program sees the new value of `open`; this program finds no bit set, and counts
 * the hit. It cannot happen that only the new link's program sees the new value: it reads `open`
 * first, and the later of two reads by one thread never returns an older value.
 *
 * A link can continue to exist after it was closed: as long as another process has a descriptor of
 * the link, as `bpftool link` has for a moment, the uprobes of the link stay in place. Therefore a
 * link counts hits of a site only while the entry of the site in `serials` is the serial of the
 * link. User space writes the serial of the new link to `serials` as soon as it has closed the old
 * link.
 *
 * While the old link is being closed, hits leave their bits set. This is harmless while the new
 * link is on all sites, but the next handover must not find any bit set. So all bits are cleared
 * before a handover begins. A program that sets its bit after the end of the handover reads `open`
 * again and clears the bit itself.
 */
struct measure_gate {
	__u32 open;
	/* during a handover: the sites of the file have the numbers `first` to `end` - 1 */
	__u32 first, end;
};

enum {
	MEASURE_CLOSED = 0,
	MEASURE_OPEN = 1,
	/*
	 * The lowest serial of a link. Serials are higher than MEASURE_OPEN, because during a
	 * handover, `open` is a serial.
	 */
	MEASURE_FIRST_SERIAL = 2,
	MEASURE_MAX_TIDS = 1 << 22, /* the kernel's PID_MAX_LIMIT */
	MEASURE_MARKS_A_WORD = 64,
	MEASURE_MARK_WORDS = MEASURE_MAX_TIDS / MEASURE_MARKS_A_WORD,
};

/*
 * Return the cookie of a site: the site's number in the low half, the serial of the link in the
 * high half.
 */
static inline __attribute__((always_inline)) __u64 measure_cookie(__u32 serial, __u32 site)
{
	return (__u64)serial << 32 | site;
}

/*
 * User space sets these values between open and load of the programs. The verifier removes the code
 * of features that are off.
 */
struct measure_config {
	__u32 only_tgids; /* nonzero: hits count only in processes that are in `tgids` */
	__u32 keyed_by;	  /* enum measure_keyed_by */
	__u32 n_pairs;
	__u32 depth;	/* open starts per thread and pair, 1 to MEASURE_DEPTH */
	__u32 matching; /* how pairs are matched: MEASURE_SOME_... */
	__u32 children; /* nonzero: add children of processes in `tgids` to `tgids` */
	/*
	 * The pid namespace of process ids (the device in the kernel's format: major << 20 |
	 * minor); 0: the initial namespace.
	 */
	__u64 pidns_dev;
	__u64 pidns_ino;
	/* Sites with MEASURE_CHECK_EXE count only in processes that run this file. */
	__u64 exe_dev;
	__u64 exe_ino;
	/* The following members are used only by measure_full. */
	__u32 args;	   /* nonzero if arguments are read, for the members below or for a role */
	__u32 filters;	   /* nonzero if there is a filter */
	__u32 hist_arg;	   /* MEASURE_NO_ARG: no histograms */
	__u32 prints;	   /* nonzero if hits are recorded */
	__u64 print_limit; /* records per second; 0: no limit */
	/* The following members are used by all objects. */
	__u32 hits_stride; /* slots per CPU in `hits`: whole pages */
	__u32 frames;	   /* nonzero if a role has MEASURE_ROLE_FRAME */
	__u32 conditions;  /* nonzero if a site has a condition or the flag MEASURE_IF_CONFIRMED */
	/*
	 * For splitting calls of functions by domain (measure_full only). domain_id is the offset
	 * of the id in the state of a domain, or 0 if calls are not split. domain_tls is the
	 * offset, from the FS base, of the pointer to the domain's state.
	 */
	__u32 domain_id;
	__s32 domain_tls;
	/* the maximum number of frames to walk in a stack (measure_stacks only) */
	__u32 stack_depth;
	/*
	 * If nonzero, hits count only in processes that the measuring user may inspect
	 * (measure_access.bpf.h). The next four members describe this user.
	 */
	__u32 checks_access;
	__u32 uid, gid;
	__u64 userns_ino;
	__u64 capabilities;
	/* Record pairs that take at least this time (measure_slower only). */
	__u64 slower_ns;
	/* The following members are used only by measure_by. */
	__u32 by_arg;	    /* the argument by whose value hits and times are grouped */
	__u32 by_max_times; /* the maximum number of groups of times; see measure_by.h */
	/*
	 * Used by all objects. Nonzero: count the hits of each process, including hits that a
	 * filter or condition then rejects.
	 */
	__u32 counts_processes;
	__u32 outermost; /* nonzero: only outermost calls count (measure_stacks only) */
};

/* Flags of measure_site.flags. */
enum {
	MEASURE_CHECK_EXE = 1 << 0,
	MEASURE_KEYED = 1 << 1, /* hits are split by thread or process, if config.keyed_by is set */
	MEASURE_FILTERED = 1 << 2, /* hits must match the filter, except stops of pairs */
	MEASURE_PRINTED = 1 << 3,
	MEASURE_HISTOGRAM = 1 << 4,
	MEASURE_STOPS = 1 << 5, /* the site ends a pair: a hit reads the time first */
	/* the frames of the function's calls are on stacks of OCaml 5 */
	MEASURE_OCAML_STACK = 1 << 6,
	/* a call is timed only if MEASURE_ROLE_CONFIRM has confirmed it */
	MEASURE_IF_CONFIRMED = 1 << 7,
	MEASURE_RETURN = 1 << 8,  /* the site returns from a function to its caller */
	MEASURE_GROUPED = 1 << 9, /* hits are grouped by the value of an argument */
};

struct measure_site {
	__u32 probe_index; /* the number of the site's probe */
	__u32 flags;
	__u32 first_role; /* index in `roles` */
	__u32 n_roles;
	__u32 args;	   /* index in `site_args` */
	__u32 histogram;   /* index in `histograms` */
	__s32 frame_depth; /* rsp at the entry of the site's function minus rsp at the site */
	__u32 condition;   /* enum measure_condition */
	__u32 unless;
	/*
	 * If config.outermost is set and calls of a function begin at the site: the size of the
	 * function, and how many bytes it begins before the site.
	 */
	__u32 function_bytes, function_before;
};

/* The condition for a hit to count, like enum site_condition of src/program/program.h. */
enum measure_condition {
	MEASURE_ALWAYS,
	/* edi must differ from `unless`; the next value is for esi, and so on */
	MEASURE_ARGUMENT_1,
	MEASURE_ARGUMENT_6 = MEASURE_ARGUMENT_1 + 5,
	MEASURE_IF_TRUE, /* eax must not be 0 */
};

/* What a hit of a site does to a pair: begin, end or confirm the pair. */
struct measure_role {
	__u32 pair;
	__u32 flags;
	__u32 key_arg; /* the argument that is the key of the pair, or that is compared */
};

/* Flags of measure_role.flags. */
enum {
	MEASURE_ROLE_STOP = 1 << 0,
	MEASURE_ROLE_FRAME = 1 << 1, /* the pair is matched by frame, see measure_frames.bpf.h */
	/* neither start nor stop: a hit confirms that the function's active call is to be timed */
	MEASURE_ROLE_CONFIRM = 1 << 2,
	MEASURE_ROLE_KEYED = 1 << 3, /* the pair is matched by an argument, not by thread */
	/*
	 * The pair is matched by thread. If the argument differs between start and stop, the pair
	 * is also counted in `mismatched`.
	 */
	MEASURE_ROLE_COMPARED = 1 << 4,
};

/* The key of pair_open: the open starts of a pair in a thread. */
struct measure_open_key {
	__u32 tid;
	__u32 pair;
};

struct measure_start {
	__u64 ns; /* when the pair began; MEASURE_MARKER: this start was rejected */
	/* the stack pointer at the site of the start; of a function, at the function's entry */
	__u64 sp;
};

/*
 * The open starts of a pair in a thread. The newest start is at ring[(next - 1) % MEASURE_DEPTH],
 * the start before it at the previous place, and so on. If config.depth starts are open, a new
 * start replaces the oldest one.
 *
 * Which start does a stop end? If an exception skips a stop, its start stays open, so the newest
 * start may be the wrong one. The stack pointer distinguishes the starts: if one function contains
 * both sites of the pair, it passes both with the same stack pointer, and the functions that it
 * calls have lower stack pointers. The stack pointer of a function is the one at its entry: so the
 * same holds if one function calls both functions of the pair. So a stop ends the newest start that
 * has the stack pointer of the stop. Starts that are newer than this one were made by calls that
 * have ended since: they are orphans. If no open start has the stack pointer of the stop, then
 * start and stop are in different functions (one function enters, another one leaves), and the stop
 * ends the newest start.
 *
 * Whether a start has a lower or a higher stack pointer than the stop proves nothing. If start and
 * stop are in different functions, the function with the start has returned before the stop, so its
 * lower stack pointer does not mean that the start is an orphan. And each fibre has its own stack;
 * these stacks are at arbitrary addresses. Two live fibres never have the same stack pointer. So if
 * several fibres are between the start and the stop of a pair, a stop finds the start of the fibre
 * that reached the stop. Newer starts of other fibres are counted as orphans, although their calls
 * have not ended. The stops of these calls are later counted as orphans, too.
 *
 * A stop whose start was replaced in the full ring ends the newest open start, if there is one.
 */
struct measure_open {
	__u32 n;    /* starts that are open */
	__u32 next; /* the next start goes to ring[next % MEASURE_DEPTH] */
	struct measure_start ring[MEASURE_DEPTH];
};

/*
 * The compared arguments of the open starts: values[i] belongs to measure_open.ring[i], and is the
 * argument converted to a key, or 0 if it is unknown.
 */
struct measure_compared {
	__u64 values[MEASURE_DEPTH];
};

/*
 * This value, in place of a time, marks a start that the filter or a condition rejected. A rejected
 * start is not counted, but it is stored, so that its stop finds it and is not counted either.
 */
enum { MEASURE_MARKER = 0 };

/* One open start of a pair that is matched by an argument. */
struct measure_start_key {
	__u32 tgid;
	__u32 pair;
	__u64 value;
};

/* One active call of a function whose calls are timed. */
struct measure_frame_key {
	__u32 owner; /* the thread id; the process id if the frame is on a stack of OCaml 5 */
	__u32 pair;
	__u64 frame;
};

/*
 * Offsets of OCaml 5.1 to 5.5, in bytes: STATE_STACK is Caml_state->current_stack, member 5 of
 * runtime/caml/domain_state.tbl; the others are members of struct stack_info, and HANDLER_PARENT of
 * struct stack_handler, in runtime/caml/fiber.h. STACK_SP is the stack pointer when the stack was
 * left, for C or for another fibre.
 */
enum { STATE_STACK = 40, STACK_SP = 0, STACK_HANDLER = 16, STACK_ID = 48, HANDLER_PARENT = 24 };

/*
 * A confirmation is stored as an entry of frame_open: owner and pair are those of the active call,
 * the frame is CONFIRMED_FRAME. A thread has at most one confirmed call per pair. The value of the
 * entry is MEASURE_MARKER, so that the entry does not count as an open call.
 */
#define CONFIRMED_FRAME (~0ULL)

/* The key of domain_pairs: a pair, and the unique id of a domain of OCaml 5. */
struct measure_domain_key {
	__u32 pair;
	__u32 domain;
};

/*
 * A start that is counted in `starts` and is no longer open is also counted in exactly one of
 * count, orphan_starts, map_full and not_keyed. A stop is counted in exactly one of count and
 * orphan_stops, unless it ends a start that was rejected or not confirmed.
 */
struct measure_pair {
	__u64 starts;
	__u64 count;
	__u64 sum_ns;
	/* the bitwise complement of the smallest duration; 0: no pair was timed */
	__u64 min_ns_not;
	__u64 max_ns;
	/*
	 * Starts that no stop ended, because the thread or process ended; because an older start
	 * was stopped first or too many starts were open (pairs by thread); or because a later
	 * start had the same key (pairs by key) or the same frame (calls of functions).
	 */
	__u64 orphan_starts;
	__u64 orphan_stops; /* stops when no start was open */
	__u64 map_full;	    /* starts for which the maps of open starts had no room */
	/* starts whose argument cannot be a key; stops without a key are orphan_stops */
	__u64 not_keyed;
	__u64 mismatched; /* pairs, included in `count`, whose compared arguments differ */
	__u64 buckets[MEASURE_BUCKETS];
};

/*
 * The histogram of the int values of an argument; measure_floats.h defines the histogram of its
 * float values. A value v >= 0 is counted in buckets[measure_bucket_of(v)], a value v < 0 in
 * below_0[measure_bucket_of(-v)].
 */
struct measure_histogram {
	__u64 count;
	/* how often the argument was neither an int nor a float, or could not be read */
	__u64 not_number;
	__u64 sum[2]; /* 128 bits in two's complement, the lower half first */
	/* measure_ordered() of the largest value */
	__u64 max;
	__u64 min_not; /* bitwise complement of measure_ordered() of the smallest value */
	__u64 buckets[MEASURE_BUCKETS];
	__u64 below_0[MEASURE_BUCKETS];
};

struct measure_key {
	__u32 id; /* the id of the thread or process, see enum measure_keyed_by */
	__u32 probe_index;
};

struct measure_keyed {
	__u64 hits;
	__u32 tgid;
	__u32 reserved;
	char comm[16];
};

struct measure_losses {
	__u64 passed_over;   /* hits in processes that are not measured */
	__u64 rows_full;     /* hits that are in `hits` but not in `keyed` */
	__u64 children_full; /* child processes for which `tgids` had no room */
	/* hits that the filter rejected; with config.outermost, calls that are not outermost */
	__u64 filtered;
	__u64 prints_dropped; /* hits that were not printed because the ring buffer had no room */
	__u64 prints_limited; /* hits that were not printed because of print_limit */
	/* Hits in which an argument has another type than the filter compares it with. */
	__u64 filter_mismatches;
	/* measure_mismatch() of the last hit in filter_mismatches; 0: no such hit */
	__u64 last_mismatch;
	/*
	 * The number of slow pairs. A slow pair was recorded, unless it is counted in slow_limited
	 * or slow_dropped.
	 */
	__u64 slow;
	__u64 slow_limited; /* slow pairs that were not recorded because of print_limit */
	__u64 slow_dropped; /* slow pairs that were not recorded because the ring buffer was full */
	__u64 slow_unkept;  /* slow pairs whose record lacks the arguments of the start */
};

/*
 * Combine the index of a probe (low half) and a result of filter_mismatch() of args.h (high half).
 */
static inline __attribute__((always_inline)) __u64 measure_mismatch(__u32 probe_index,
								    __u32 mismatch)
{
	return (__u64)mismatch << 32 | probe_index;
}

_Static_assert(sizeof(struct measure_config) == 160, "shared by two compilers");
_Static_assert(sizeof(struct measure_site) == 44, "shared by two compilers");
_Static_assert(sizeof(struct measure_open) == 8 + 16 * MEASURE_DEPTH, "shared by two compilers");
_Static_assert(sizeof(struct measure_pair) == 80 + 8 * MEASURE_BUCKETS, "shared by two compilers");
_Static_assert(sizeof(struct measure_histogram) == 48 + 16 * MEASURE_BUCKETS,
	       "shared by two compilers");
_Static_assert(sizeof(struct measure_keyed) == 32, "shared by two compilers");

/*
 * Return the bucket of VALUE. Histograms are log-linear: from one power of 2 to the next there are
 * 8 buckets of equal width; each value below 16 has its own bucket. The last bucket, 495, ends at
 * 2^64 - 1.
 */
static inline __attribute__((always_inline)) __u32 measure_bucket_of(__u64 value)
{
	__u32 log2 = 0;
	__u64 rest = value;

	if (value < 8)
		return (__u32)value;
	for (__u32 step = 32; step; step >>= 1) {
		if (rest >> step) {
			rest >>= step;
			log2 += step;
		}
	}
	return ((log2 - 3) << 3) + (__u32)(value >> (log2 - 3));
}

/*
 * Return the smallest value of BUCKET. If BUCKET is MEASURE_BUCKETS, return 0, because 2^64 does
 * not fit.
 */
static inline __attribute__((always_inline)) __u64 measure_bucket_start(__u32 bucket)
{
	if (bucket < 8)
		return bucket;
	return (__u64)((bucket & 7) + 8) << ((bucket >> 3) - 1);
}

/*
 * Map signed numbers to unsigned numbers that have the same order; the lowest signed number becomes
 * 0. The function is its own inverse.
 */
static inline __attribute__((always_inline)) __u64 measure_ordered(__u64 number)
{
	return number ^ 1ULL << 63;
}

#endif
