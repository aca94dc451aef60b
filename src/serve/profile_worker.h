/* SPDX-License-Identifier: MIT */
/*
 * The two child processes that take profiles for the measuring process, and the loop that they
 * share. `probes-profiler` takes profiles of CPU time and allocation. `probes-memprof` runs
 * Gc.Memprof in the measured programs, and reads the events of Gc.Memprof all the time. Both have
 * the rights of the measuring process. They are separate processes because unwind tables and names
 * of stacks take long to make: the measuring process would be busy for too long. The measuring
 * process sends orders over a channel (serve/channel.h); each answer has the id of its order.
 */
#ifndef SERVE_PROFILE_WORKER_H
#define SERVE_PROFILE_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "base/strbuf.h"
#include "memprof/heaps.h"
#include "profile/recorder.h"
#include "serve/channel.h"

enum {
	PROFILE_SECONDS = 30, /* the default duration of a profile, as in Go */
	PROFILE_MAX_SECONDS = 300,
	PROFILE_HZ = 99,
	PROFILE_MAX_HZ = 10000,
};

/* ---- the messages --------------------------------------------------------------------------- */

/*
 * Orders, sent as the `ask` of a request. channel_take() accepts only numbers below ASKS. Only
 * PROFILING_TAKE is answered, and the id of this order is never 0: an answer with id 0 is a message
 * of heap_figures_write().
 */
enum profiling_order {
	/*
	 * Take a profile. The message is a struct profiling_take, and the path of the executable or
	 * "" (any program).
	 */
	PROFILING_TAKE,
	/*
	 * Replace the list of processes that may be profiled. The message is a pid_t and a path for
	 * each process.
	 */
	PROFILING_FOLLOW,
	/*
	 * Sent with the id of an earlier PROFILING_TAKE: end that profile. The answer to
	 * PROFILING_TAKE then has the status HTTP_CANCELLED.
	 */
	PROFILING_CANCEL,
};

/* The message of PROFILING_TAKE, before the path. */
struct profiling_take {
	enum profile_kind kind;	  /* PROFILE_CPU or PROFILE_WORDS */
	unsigned int seconds, hz; /* 0 seconds: everything since the recorder was opened */
	pid_t pid;
	bool is_flame; /* answer with JSON: a flame graph, or the allocation sites of the heap */
	bool by_leaf;  /* the sites of the heap are the innermost frames */
};

/* Precedes the profile in the body of a successful answer. */
struct profiling_numbers {
	uint64_t samples, truncated, lost;
};

/*
 * `probes-memprof` sends a message to the measuring process every second, as an answer with id 0.
 * For each program, the message has a struct heap_figures and the path of the executable.
 */

/* The figures of one program. Numbers of words are estimates. */
struct heap_figures {
	uint64_t processes; /* number of profiled processes */
	uint64_t live_words;
	/* allocated_words and lost_events never decrease. */
	uint64_t allocated_words, lost_events;
};

/* Append the current figures of all programs of HEAPS to OUT, as a message. */
void heap_figures_write(struct strbuf *out, struct heaps *heaps);

/*
 * Read the figures of the next program from *AT in a message, and advance *AT past these figures.
 * END is the end of the message. *EXE points into the message. Return false if no figures are left,
 * or if the rest of the message is invalid.
 */
bool heap_figures_next(const char **at, const char *end, struct heap_figures *figures,
		       const char **exe);

/* ---- the child processes -------------------------------------------------------------------- */

/*
 * profiling_child() runs as `probes-profiler`, heap_child() as `probes-memprof`, until the other
 * end of FD is closed or PARENT ends. At its end, heap_child() stops Gc.Memprof in the measured
 * programs. RATE, in samples per word, is only for heap_child(). Return an exit status.
 */
int profiling_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);
int heap_child(struct ocp_ctx *ctx, pid_t parent, int fd, double rate);

/* ---- the loop ------------------------------------------------------------------------------- */

enum { PROFILE_WORKER_JOBS = 32, PROFILE_WORKER_MS = 1000 };

/* An order to take a profile. It is answered at end_ms. */
struct profile_job {
	uint64_t id; /* 0: this entry is unused */
	struct profiling_take take;
	struct record_filter filter;
	char *exe; /* owned; filter.exe points to it */
	int64_t end_ms;
	/*
	 * The beginning of the profile: heaps_mark in heap_child(), record_mark in
	 * profiling_child().
	 */
	struct heaps_mark heaps_mark;
	struct record_mark record_mark;
	struct room *room;
};

struct profile_worker {
	struct ocp_ctx *ctx;
	int fd;
	const struct profile_worker_kind *kind;
	double rate;
	struct profile_job jobs[PROFILE_WORKER_JOBS];
	/* the processes that may be profiled */
	struct recorded_process processes[RECORDER_MAX_PROCESSES];
	size_t n_processes;
	char *names; /* owned; processes[i].exe points into it */
	struct asked asked;
	void *own; /* the data that `open` has created */
};

/* What the two processes do differently. `open`, `begin` and `answer` return 0 or -errno. */
struct profile_worker_kind {
	const char *name; /* the name of the child process */
	int (*open)(struct profile_worker *worker);
	void (*close)(struct profile_worker *worker);
	/* Called after the list of processes has changed. */
	void (*follow)(struct profile_worker *worker);
	/* Begin the profile of JOB. end() ends the profile, and is called also if begin() fails. */
	int (*begin)(struct profile_worker *worker, struct profile_job *job);
	void (*end)(struct profile_worker *worker, struct profile_job *job);
	/*
	 * Append the profile of JOB up to now to BODY: a struct profiling_numbers and the profile.
	 */
	int (*answer)(struct profile_worker *worker, const struct profile_job *job,
		      struct strbuf *body);
	/* Return the HTTP status for ERR. */
	unsigned int (*status_of)(int err);
	/*
	 * Called whenever the process has waited, to read events. NULL: there is nothing to read.
	 */
	void (*read)(struct profile_worker *worker);
	/*
	 * Return how long the process may wait, at most PROFILE_WORKER_MS. NULL: it always waits
	 * PROFILE_WORKER_MS.
	 */
	int (*wait_ms)(const struct profile_worker *worker);
	/* Called once every PROFILE_WORKER_MS. */
	void (*refresh)(struct profile_worker *worker);
};

/* Run as a child process of KIND: as profiling_child() or heap_child(), see above. */
int profile_worker_run(const struct profile_worker_kind *kind, struct ocp_ctx *ctx, pid_t parent,
		       int fd, double rate);

/*
 * Append to BODY a struct profiling_numbers with the sums over the N profiles of LIST, and then the
 * profiles in the format of pprof. If TITLE is not NULL, append only the first profile, as the JSON
 * of a flame graph with this title. Frees LIST.
 */
int profile_worker_add(struct profile_worker *worker, struct process_profile *list, size_t n,
		       const char *title, struct strbuf *body);

#endif
