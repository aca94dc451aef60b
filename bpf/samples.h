/* SPDX-License-Identifier: MIT */
/*
 * The layout of the maps that profile.bpf.c shares with its user side (src/profile). The includer
 * provides the __u32 and __u64 types. The maps of stacks are in stacks.h.
 *
 *	map      type           key                     value
 *	counts   hash           struct profile_key      struct profile_count
 *	waits    hash           u32, global thread id   struct profile_wait
 *	losses   per-CPU array  0                       struct profile_losses
 *	paces    per-CPU array  0                       struct profile_pace
 *	sampled  hash           u32, process id         struct profile_sampled
 *	releases hash           struct profile_release  struct profile_count
 *	moments  ring buffer                            struct profile_moment
 */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "stacks.h"

enum {
	PROFILE_MAX_COUNTS = 1 << 15,
	PROFILE_MAX_WAITS = 1 << 14,
	PROFILE_MAX_RELEASES = 1 << 14,
};

struct profile_config {
	/*
	 * The pid namespace of process ids (the device as major << 20 | minor); 0: the initial one.
	 */
	__u64 pidns_dev, pidns_ino;
	/* Processes that execute this file are profiled, too. Inode 0: no file. */
	__u64 exe_dev, exe_ino;
	/*
	 * If nonzero, a process that executes this file is profiled only if the user may inspect
	 * it, as in struct measure_config.
	 */
	__u64 checks_access;
	__u32 uid, gid;
	__u64 userns_ino;
	__u64 capabilities;
	__u64 counts_cost;    /* nonzero: measure the cost, see struct profile_losses */
	__u64 heaps_hz;	      /* the maximum number of samples of minor heaps per second and CPU */
	__u64 names_threads;  /* nonzero: profile_key.comm is set */
	__u64 finds_releases; /* nonzero: `releases` is filled */
	__u64 keeps_moments;  /* nonzero: samples go to `moments`, not to `counts` */
	/*
	 * Which programs are attached. The others are empty, since the kernel checks each program
	 * when it is loaded, and the check of one that walks stacks takes some 30 ms.
	 */
	__u64 samples_cpu, samples_waits, samples_words;
};

struct profile_key {
	__u64 stack;
	__u32 tgid;
	__u32 tid;
	char comm[16]; /* the name of the thread at the sample; empty unless config.names_threads */
};

struct profile_count {
	__u64 n;
	__u64 sum;   /* for waits: nanoseconds; for large blocks: words */
	__u64 heaps; /* minor heaps that ran out: the sum of the weights of the samples */
};

/* One sample, with its time: of the CPU, or a wait that has ended. Times are of CLOCK_MONOTONIC. */
struct profile_moment {
	struct profile_key key;
	__u64 begin_ns;
	__u64 end_ns;	/* for a sample of the CPU: begin_ns */
	__u64 woken_ns; /* for a wait: when the thread could run again; 0: not seen */
};

/* A thread that waits now. */
struct profile_wait {
	struct profile_key key;
	__u64 since_ns;
	__u64 woken_ns; /* when the thread was woken, and could run again; 0: not seen yet */
	__u64 cpu_ns;	/* CPU time of the thread in nanoseconds when it began to wait */
	__u64 is_first; /* nonzero: the thread waited already when the profile began */
	/* the address that the thread gave to futex(2); 0: the thread is in another call */
	__u64 futex;
};

/*
 * A wait for a futex that a thread of the same process has ended by waking this futex: that thread,
 * and its stack at this moment. `stack` has no frames in the kernel.
 */
struct profile_release {
	__u64 wait;  /* the stack of the wait */
	__u64 stack; /* the stack of the thread that has ended the wait */
	__u32 tgid;
	__u32 tid;
	char comm[16];
};

/*
 * For large blocks, a stack is sampled each time this many words have been allocated on a CPU. All
 * these words count for the stack.
 */
enum { PROFILE_LARGE_WORDS = 1 << 16 };

/*
 * The number of samples of minor heaps is limited on each CPU, however often minor heaps run out.
 * For this, minor heaps that run out one after the other form groups of 1 << shift. One minor heap
 * of each group is chosen at random, sampled, and counts for the whole group. `shift` depends on
 * how many minor heaps ran out in the last tenth of a second.
 */
enum {
	PROFILE_HEAPS_HZ = 99, /* the usual heaps_hz */
	PROFILE_INTERVALS_HZ = 10,
	PROFILE_INTERVAL_NS = 1000000000 / PROFILE_INTERVALS_HZ,
	PROFILE_MAX_SHIFT = 15,
};

struct profile_pace {
	__u64 since_ns; /* when the interval began */
	__u32 heaps;	/* minor heaps that ran out in the interval */
	__u32 shift;	/* a group has 1 << shift heaps */
	__u32 place;	/* how many heaps of the current group have run out */
	__u32 chosen;	/* the value of `place` at which a heap is sampled */
};

/*
 * The allocation of a process is sampled only while the process has an entry in `sampled`. Making
 * the entry starts the samples of small and of large blocks at the same moment, although the
 * uprobes for small and for large blocks are attached one after the other.
 */
struct profile_sampled {
	__u64 heaps; /* minor heaps that ran out */
};

/*
 * The cookie of the uprobe on caml_alloc_small_dispatch() says where the program finds the state of
 * the domain. For OCaml 4, the cookie is the link-time address of the variable Caml_state. For
 * OCaml 5, it is PROFILE_STATE_IN_RDI: the function's first argument is the state.
 */
#define PROFILE_STATE_IN_RDI 0ULL

struct profile_losses {
	__u64 counts_full; /* samples that were lost because `counts` had no room */
	__u64 waits_full;
	/* waits that were not added to `releases`, which was full; they are no lost samples */
	__u64 releases_full;
	__u64 moments_full;
	/*
	 * The following members are costs, not losses. run_ns is 0 unless config.counts_cost is
	 * set.
	 */
	__u64 large_hits; /* how often large_block() ran for a profiled process */
	__u64 small_hits;
	__u64 run_ns; /* time that the BPF programs ran for profiled processes */
};

#endif
