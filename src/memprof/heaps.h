/* SPDX-License-Identifier: MIT */
/*
 * Keeps Gc.Memprof profiles of many processes that start and end, for a server or a screen. There
 * is a session, with statistics, for each process that is linked with the library. When a process
 * ends or executes another program, its statistics are dropped, but its allocations stay in the
 * sums of the program that it was executing (struct heap_program).
 */
#ifndef MEMPROF_HEAPS_H
#define MEMPROF_HEAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "memprof/heap_profile.h"
#include "profile/recorder.h"

enum {
	HEAPS_MAX = 32, /* maximum number of processes that are profiled at one time */
	/* Limits for each process, in addition to those of memprof/heap.h: */
	HEAPS_RING = 8 << 20, /* size of the ring, in bytes */
	/* how many events of a process one call of heaps_read() takes, at most */
	HEAPS_EVENTS = 1 << 16,
	HEAPS_DEPTH = 64, /* maximum number of frames of a call stack */
	HEAPS_TEXT_BYTES = 256,
};

struct heaps;

/* RATE: samples per word, as in struct memprof_spec. */
int heaps_new(struct ocp_ctx *ctx, double rate, struct heaps **out);
/* End the profiles and free HEAPS, which may be NULL. */
void heaps_free(struct heaps *heaps);
double heaps_rate(const struct heaps *heaps);

/*
 * Profile the N processes of LIST and no others. Open sessions for the new processes; if a process
 * cannot be profiled yet, later calls try again. Call this about once a second. Return 0 or
 * -ENOMEM.
 */
int heaps_follow(struct heaps *heaps, const struct recorded_process *list, size_t n);

/*
 * Take events of all sessions. Set *MORE to true if more events may be waiting. Return 0 or
 * -ENOMEM.
 */
int heaps_read(struct heaps *heaps, bool *more);

enum heap_state {
	HEAP_NONE, /* no session; `problem` says why */
	/*
	 * the profile was requested, but has not started: the process waits, or runs no OCaml code
	 */
	HEAP_ASKED,
	HEAP_RUNS,
};

/* A process whose profile was requested with heaps_follow(). */
struct watched_heap {
	pid_t pid;
	const char *exe;
	enum heap_state state;
	int err; /* for HEAP_NONE: negative errno; 0: the process has ended */
	char problem[HEAPS_TEXT_BYTES], hint[HEAPS_TEXT_BYTES]; /* "": none */
	uint64_t since_ns;	 /* CLOCK_REALTIME: start of the profile */
	const struct heap *heap; /* NULL for HEAP_NONE */
	struct memprof_losses losses;
};

size_t heaps_count(const struct heaps *heaps);
/*
 * Return how many processes are not profiled because HEAPS_MAX processes are being profiled
 * already.
 */
size_t heaps_above(const struct heaps *heaps);
const struct watched_heap *heaps_at(const struct heaps *heaps, size_t number);

/* The sums over all processes of a program. */
struct heap_program {
	const char *exe;
	size_t n_processes; /* processes that are profiled now */
	/*
	 * For the processes that are profiled now: the samples of live blocks, and the number of
	 * live blocks.
	 */
	uint64_t live, live_blocks;
	/* The following members include processes that have ended, and never decrease. */
	uint64_t samples, blocks;
	uint64_t lost_allocations, lost_samples, lost_frees;
	uint64_t left_out; /* blocks that were not recorded because of HEAP_BLOCKS */
};

/*
 * Return the programs that have or had a profile, in the order of their first profiles. The list is
 * valid until the next call.
 */
const struct heap_program *heaps_programs(struct heaps *heaps, size_t *n);

/*
 * List the sites of the processes that match FILTER, sorted by live words. If BY_LEAF, the sites
 * are the innermost frames; see struct heap_sites_order. The caller frees *SITES; the names are
 * valid until the next call of heaps_follow() or heaps_read().
 */
int heaps_sites(struct heaps *heaps, const struct record_filter *filter, bool by_leaf,
		struct heap_site **sites, size_t *n);

/* ---- as files of pprof ----------------------------------------------------------------------- */

/* The start of an interval, with a mark for each process that had a session at that time. */
struct heaps_mark {
	struct {
		uint64_t number; /* the number of the session */
		struct heap_mark mark;
	} of[HEAPS_MAX];
	size_t n;
	uint64_t start_ns; /* since 1970; 0: no mark, so take everything since the sessions began */
};

int heaps_mark(const struct heaps *heaps, struct heaps_mark *mark);
void heaps_mark_free(struct heaps_mark *mark);

/*
 * Make a profile of the time since MARK for each process that matches FILTER and has a session. If
 * there is no such process, make one empty profile; but if processes match FILTER and none of them
 * can be profiled, return the error of the first of these. The comments of the first profile say
 * what is missing in the profiles. Free the list with process_profiles_free(). The names are valid
 * until the next call of heaps_follow() or heaps_read().
 */
int heaps_take(struct heaps *heaps, const struct record_filter *filter,
	       const struct heaps_mark *mark, struct process_profile **list, size_t *n);

#endif
