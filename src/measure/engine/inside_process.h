/* SPDX-License-Identifier: MIT */
/* One of the processes in which the engine `inside` counts. */
#ifndef MEASURE_INSIDE_PROCESS_H
#define MEASURE_INSIDE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "change/inside/inside.h"
#include "measure/engine/engine.h"
#include "measure/engine/event_matcher.h"
#include "measure/engine/inside_meta.h"

/* What to measure in each process. */
struct inside_plan {
	struct engine_role *roles; /* a copy of the roles in the spec */
	size_t n_pairs, max_sites;
	struct filter filter; /* n_ops 0: all hits match */
	struct tracee *held;  /* see engine_spec; valid until after the attach */
	unsigned int depth;
	bool by_process; /* also count hits by process and probe */
	struct engine_by by;
	/*
	 * If hits and pairs are recorded: what the events of max_sites sites mean, and the size of
	 * the rings in each process. Otherwise NULL.
	 */
	struct event_point *points;
	size_t event_bytes;
	struct inside_meta meta; /* the name and text to store in each process at the attach */
};

struct inside_process;

/*
 * All functions that return an int return 0, or a negative errno with a message in the ctx.
 *
 * inside_process_check() checks that the engine can count in PID. The process has N_SITES sites, of
 * which N_UNFIT cannot be counted inside (engine_site.needs_kernel). Returns -ENOTSUP if N_SITES is
 * 0 or N_UNFIT is not 0.
 */
int inside_process_check(struct ocp_ctx *ctx, pid_t pid, size_t n_sites, size_t n_unfit);

/*
 * Make PID count at the sites of those files in FILES[0..N) that list PID. On failure, the process
 * is unchanged. PLAN must outlive the result.
 */
int inside_process_attach(struct ocp_ctx *ctx, const struct inside_plan *plan, pid_t pid,
			  const struct engine_file *files, size_t n, struct inside_process **out);
/*
 * Make a struct for PID, in which inside_find() has found INSIDE. NUMBERS[0..N) has the numbers of
 * the sites. INSIDE and NUMBERS then belong to the new struct; after an error, they have been
 * freed. A detach also ends the counting in the process that forked PID, and in the other children
 * of that process.
 */
int inside_process_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside,
			 struct inside_number *numbers, size_t n, struct inside_process **out);
/* Free PROCESS, which may be NULL. If it was not detached, the process continues to count. */
void inside_process_close(struct inside_process *process);

/*
 * Add the hits, groups of hits, and pairs of PROCESS to READING. A value may have several groups.
 * This also works after the process has ended, unless PROCESS comes from inside_process_found().
 */
int inside_process_add(struct inside_process *process, struct engine_reading *reading);
/*
 * Add the groups of times of PROCESS to READING, behind inside_process_add(). Their times are put
 * in TIMES, which has room for inside_process_times_room() elements and must live as long as
 * READING. Set *N to the number of these groups.
 */
int inside_process_add_times(const struct inside_process *process, struct engine_reading *reading,
			     struct measure_by_times *times, size_t *n);
size_t inside_process_times_room(const struct inside_process *process);
/* Return true if PID is PROCESS or a child forked from it, and counts now. */
bool inside_process_counts_in(const struct inside_process *process, pid_t pid);
/* Return what reads the events of PROCESS; NULL: it writes none, and counts its pairs itself. */
struct event_matcher *inside_process_events(const struct inside_process *process);

/*
 * End the counting in the process and its forked children. Return 0 also if the process has ended
 * or has executed another program.
 */
int inside_process_detach(struct inside_process *process);
/* Warn that the process still counts after a failed detach. The reason is the error in the ctx. */
void inside_process_tell_left(const struct inside_process *process);

#endif
