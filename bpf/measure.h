/* SPDX-License-Identifier: MIT */
/*
 * What measure.bpf.c and its user side (src/measure/engine/engine_bpf.c) share: the layout of the maps,
 * which is also what others find who read the maps that `--keep` pins. MEASURE_VERSION changes when
 * the layout does. The includer provides the __u32 and __u64 types: vmlinux.h in BPF programs,
 * linux/types.h elsewhere.
 *
 *	map          type           key                     value
 *	hits         array          see below               u64, hits
 *	site_table   array          site number             struct measure_site
 *	roles        array          number                  struct measure_role
 *	pair_stats   per-CPU array  pair number             struct measure_pair
 *	pair_open    hash           struct measure_open_key struct measure_open
 *	key_open     hash           struct measure_start_key  u64, when the pair began
 *	keyed        hash           struct measure_key      struct measure_keyed
 *	tgids        hash           u32, process id         u32, 1
 *	losses       per-CPU array  0                       struct measure_losses
 *	serials      array          site number             u64, of the link that counts it, 0: none
 *	marks        array          thread id / 64          u64, a bit a thread; see handover below
 *
 * The hits of a site are the sum of those at CPU * stride + site number over all possible CPUs; the
 * stride is the number of entries divided by that of possible CPUs.
 *
 * Where arguments are read (object measure_full) there are, beside these:
 *
 *	site_args    array          number                  struct site_args (args.h)
 *	histograms   per-CPU array  number                  struct measure_histogram
 *	key_users    hash           u32, process id         u32, 1; may have something in key_open
 *	prints       ring buffer                            struct hit_record (args.h)
 */
#ifndef MEASURE_H
#define MEASURE_H

#define MEASURE_VERSION 3

enum {
	MEASURE_DEPTH = 32, /* starts that one thread can have open in one pair; a power of 2 */
	MEASURE_MAX_PAIRS = 64,
	MEASURE_MAX_ROLES = 8, /* pairs that one probe can be a part of */
	MEASURE_BUCKETS = 496, /* see measure_bucket_of */
	MEASURE_NO_ARG = 0xffff,
	MEASURE_MAX_HISTOGRAMS = 1024,
};

/* The id in the keys of `keyed`. */
enum measure_keyed_by { MEASURE_UNKEYED, MEASURE_BY_TID, MEASURE_BY_TGID };

/*
 * The first bytes of the programs' .bss: who counts. `open` is 0 before and after, MEASURE_OPEN
 * normally, so that all sites start and stop counting at one moment, and anything else during a
 * handover.
 *
 * Handover. A uprobe_multi link cannot be changed. To take some sites out of one, a second link is
 * made for the others of that file, while the first is still there, and then the first is closed;
 * for a time one hit runs the program twice, but it must count once. The kernel calls the consumer
 * of a uprobe that was added last first (consumer_add() puts it at the head of the list), so: the
 * program of the new link, known by the serial in its cookie, counts and sets its thread's bit in
 * `marks`; the one of an old link finds the bit and clears it, or counts if there is none, because
 * the new link had not reached that site yet when the hit began. Where the new one is, it always
 * runs first, and nothing comes between the two in their thread; which of both sees an old `open`
 * is no question, because the later of two reads by one thread sees no older value.
 *
 * Closing a link need not end it: whoever has a descriptor of it, as `bpftool link` has of each for
 * a moment, keeps its uprobes where they are. So a link counts a site only while `serials` has its
 * serial for it, which changes when the old link is closed.
 *
 * While the old link is being closed hits leave their bits behind, which does no harm as long as
 * the new link is everywhere. But the next handover must find none: they are cleared before it
 * begins, and a program that sets its bit so late that the handover is over takes it back itself,
 * for it looks at `open` again.
 */
struct measure_gate {
	__u32 open;
	__u32 first, end; /* numbers of the sites of the file that is handed over */
};

enum {
	MEASURE_CLOSED = 0,
	MEASURE_OPEN = 1,
	MEASURE_FIRST_SERIAL = 2,   /* of links; `open` is the new one's during a handover */
	MEASURE_MAX_TIDS = 1 << 22, /* the kernel's PID_MAX_LIMIT */
	MEASURE_MARKS_A_WORD = 64,
	MEASURE_MARK_WORDS = MEASURE_MAX_TIDS / MEASURE_MARKS_A_WORD,
};

/* A cookie: the number of the site, and above it the serial of the link. */
static inline __attribute__((always_inline)) __u64 measure_cookie(__u32 serial, __u32 site)
{
	return (__u64)serial << 32 | site;
}

/* Set between open and load; the verifier then drops the code of what is off. */
struct measure_config {
	__u32 only_tgids; /* only processes that are in `tgids` */
	__u32 keyed_by;	  /* enum measure_keyed_by */
	__u32 n_pairs;
	__u32 depth;	/* starts that a thread can have open in a pair, 1 to MEASURE_DEPTH */
	__u32 key_arg;	/* pairs match by this argument; MEASURE_NO_ARG: by thread */
	__u32 children; /* forked by a process in `tgids`, a process is in it, too */
	/*
	 * Process ids are those of this namespace (device as the kernel packs it: major << 20 |
	 * minor); 0: of the initial one.
	 */
	__u64 pidns_dev;
	__u64 pidns_ino;
	/* Sites with MEASURE_CHECK_EXE count in processes that run this file. */
	__u64 exe_dev;
	__u64 exe_ino;
	/* The rest is looked at by measure_full only. */
	__u32 args;	   /* nonzero if arguments are read, for whatever is below or key_arg */
	__u32 filters;	   /* there is a filter */
	__u32 hist_arg;	   /* MEASURE_NO_ARG: no histograms */
	__u32 prints;	   /* hits are recorded */
	__u64 print_limit; /* records a second; 0: all */
	/* For all again. */
	__u32 hits_stride; /* from a CPU's slots in `hits` to the next one's: whole pages of them */
	/*
	 * Nonzero: only hits of processes count that a user with these ids, in this user namespace,
	 * with these capabilities may inspect (measure_access.bpf.h).
	 */
	__u32 checks_access;
	__u32 uid, gid;
	__u64 userns_ino;
	__u64 capabilities;
};

/* struct measure_site, flags */
enum {
	MEASURE_CHECK_EXE = 1 << 0,
	MEASURE_KEYED = 1 << 1, /* hits are told apart by thread or process, if that is asked for */
	MEASURE_FILTERED = 1 << 2, /* hits must match the filter; stops of pairs need not */
	MEASURE_PRINTED = 1 << 3,
	MEASURE_HISTOGRAM = 1 << 4,
	MEASURE_STOPS = 1 << 5, /* it ends a pair: the time is taken first of all */
};

struct measure_site {
	__u32 probe_index; /* of its probe */
	__u32 flags;
	__u32 first_role; /* in `roles` */
	__u32 n_roles;
	__u32 args;	 /* in `site_args` */
	__u32 histogram; /* in `histograms` */
};

/* A site begins or ends a pair. */
struct measure_role {
	__u32 pair;
	__u32 is_stop;
};

/* Whose open starts: a pair's and a thread's. */
struct measure_open_key {
	__u32 tid;
	__u32 pair;
};

struct measure_start {
	__u64 ns; /* MEASURE_MARKER: of a start that the filter rejected */
	__u64 sp; /* the stack pointer at its site */
};

/*
 * The open starts of a pair in a thread, the newest at ring[(next - 1) % MEASURE_DEPTH], the one
 * before at the place before, and so on. One more than config.depth drops the oldest.
 *
 * Which start a stop ends. Where an exception skips a stop, its start stays open. What tells the
 * starts apart then is the stack pointer. A function that has both sites passes both with the same
 * one, and what it calls has lower ones. So a stop ends the newest start that has its stack
 * pointer. The starts after that one were made by calls that have ended since: they are orphans. A
 * stop with a stack pointer that no open start has is in another function than its start (one
 * function enters, another one leaves), and ends the newest start.
 *
 * Nothing follows from a stack pointer that is lower or higher. A function that enters returns
 * before the stop, so that a start below the stack pointer may well be open; and fibres have stacks
 * of their own, in no order. Two fibres that are alive never have the same stack pointer. When they
 * take turns within a pair, a stop finds its own start, but the starts of others after it are not
 * over; those are counted as orphans all the same, and so are their stops.
 *
 * A stop whose start was dropped ends the newest start, too, if any is open.
 */
struct measure_open {
	__u32 n;    /* starts that are open */
	__u32 next; /* modulo MEASURE_DEPTH, the place of the next one */
	struct measure_start ring[MEASURE_DEPTH];
};

/*
 * In the place of a time: a start that the filter rejected was here. It counts as nothing, however
 * it ends, but its stop shall find it and count as nothing too.
 */
enum { MEASURE_MARKER = 0 };

/* One open start of a pair that is matched by an argument. */
struct measure_start_key {
	__u32 tgid;
	__u32 pair;
	__u64 value;
};

/*
 * Every start ends up in exactly one of count, orphan_starts, map_full, not_keyed, or is still
 * open; every stop in count or orphan_stops, or it ends a start that the filter rejected.
 */
struct measure_pair {
	__u64 starts;
	__u64 count;
	__u64 sum_ns;
	__u64 min_ns_not; /* ~ of the smallest, so that a map full of 0 means none */
	__u64 max_ns;
	/*
	 * By thread: one before them ended, or they were the oldest of too many. By key: a later
	 * one came. Or what they belong to, a thread or process, ended.
	 */
	__u64 orphan_starts;
	__u64 orphan_stops; /* no start was open */
	__u64 map_full;	    /* starts for which `pair_open` or `key_open` had no room */
	__u64 not_keyed;    /* the argument is nothing to match by; such a stop is an orphan */
	__u64 buckets[MEASURE_BUCKETS];
};

/*
 * The values of an argument. Buckets are those of measure_bucket_of; a negative value is in the one
 * of its absolute value in `below_0`.
 */
struct measure_histogram {
	__u64 count;
	__u64 not_int; /* the argument was no integer, or could not be read */
	__u64 sum[2];  /* of 128 bits in two's complement, the lower half first */
	__u64 max;     /* as measure_ordered has it, which makes 0 the lowest */
	__u64 min_not; /* ~ of the smallest, likewise */
	__u64 buckets[MEASURE_BUCKETS];
	__u64 below_0[MEASURE_BUCKETS];
};

struct measure_key {
	__u32 id; /* of the thread or process */
	__u32 probe_index;
};

struct measure_keyed {
	__u64 hits;
	__u32 tgid;
	__u32 reserved;
	char comm[16];
};

struct measure_losses {
	__u64 passed_over;    /* hits that cost their time but were none of those asked for */
	__u64 rows_full;      /* hits that are in `hits` but not in `keyed` */
	__u64 children_full;  /* processes that are not followed */
	__u64 filtered;	      /* hits that the filter rejected */
	__u64 prints_dropped; /* records for which the ring buffer had no room */
	__u64 prints_limited; /* records above print_limit */
	/* Hits with an argument of another type than the filter compares it with. */
	__u64 filter_mismatches;
	__u64 last_mismatch; /* of the last of them: measure_mismatch(); 0: none */
};

/* Its probe, and above it filter_mismatch() of args.h. */
static inline __attribute__((always_inline)) __u64 measure_mismatch(__u32 probe_index,
								    __u32 mismatch)
{
	return (__u64)mismatch << 32 | probe_index;
}

_Static_assert(sizeof(struct measure_config) == 112, "shared by two compilers");
_Static_assert(sizeof(struct measure_site) == 24, "shared by two compilers");
_Static_assert(sizeof(struct measure_open) == 8 + 16 * MEASURE_DEPTH, "shared by two compilers");
_Static_assert(sizeof(struct measure_pair) == 72 + 8 * MEASURE_BUCKETS, "shared by two compilers");
_Static_assert(sizeof(struct measure_histogram) == 48 + 16 * MEASURE_BUCKETS,
	       "shared by two compilers");
_Static_assert(sizeof(struct measure_keyed) == 32, "shared by two compilers");

/*
 * Histograms are log-linear: an octave (powers of 2) is 8 buckets of equal width; below 16 each
 * value has its own. Bucket 495 ends at 2^64 - 1.
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

/* The smallest value of BUCKET; of MEASURE_BUCKETS it would be 2^64 and is 0. */
static inline __attribute__((always_inline)) __u64 measure_bucket_start(__u32 bucket)
{
	if (bucket < 8)
		return bucket;
	return (__u64)((bucket & 7) + 8) << ((bucket >> 3) - 1);
}

/* Of signed numbers what orders them as unsigned ones; its own inverse. */
static inline __attribute__((always_inline)) __u64 measure_ordered(__u64 number)
{
	return number ^ 1ULL << 63;
}

#endif
