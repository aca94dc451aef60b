/* SPDX-License-Identifier: MIT */
/*
 * One of the processes that the engine `inside` measures: the addresses of its sites, and the
 * counters in its memory. The children that it forks use the same counters.
 *
 * All functions return 0, or a negative errno with a message in the ctx.
 */
#ifndef MEASURE_INSIDE_PROCESS_H
#define MEASURE_INSIDE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "inside/inside.h"
#include "measure/engine/engine.h"
#include "measure/engine/inside_meta.h"

struct inside_process;

/* What all processes of an engine have in common. */
struct inside_plan {
	const struct inside_role *roles;
	const unsigned int *key_args; /* by role: its key argument; NULL: no role is keyed */
	size_t n_pairs, max_sites;
	unsigned int depth;
	bool by_process;		/* also count hits by process and probe */
	const struct inside_meta *meta; /* name and text of the meta bytes; text NULL: none */
};

/*
 * Check that PID can be counted inside. It has N_SITES sites; N_UNFIT of these have no nop and call
 * (engine_site.needs_kernel). Returns -ENOTSUP if N_SITES is 0 or N_UNFIT is not 0.
 */
int inside_process_check(struct ocp_ctx *ctx, pid_t pid, size_t n_sites, size_t n_unfit);

/*
 * Make PID count at the sites of the files in FILES[0..N) that list PID. On failure PID is
 * unchanged.
 */
int inside_process_attach(struct ocp_ctx *ctx, pid_t pid, const struct inside_plan *plan,
			  const struct engine_file *files, size_t n, struct inside_process **out);

/*
 * Create a process from INSIDE, which inside_find() found in PID, and the numbers of its sites in
 * NUMBERS. The new struct then owns INSIDE and NUMBERS, also after an error. A detach also ends the
 * counting in the process that forked PID, and in the other children of that process.
 */
int inside_process_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside, uint32_t *numbers,
			 struct inside_process **out);

/*
 * Add the hits and pairs of PROCESS to READING. This also works after the process has ended, unless
 * PROCESS comes from inside_process_found().
 */
int inside_process_add(struct inside_process *process, struct engine_reading *reading);

/* Return true if PID, the process or a child forked from it, counts now. */
bool inside_process_counts_in(const struct inside_process *process, pid_t pid);

/*
 * End the counting in the process and its forked children. Return 0 also if the process has ended
 * or has executed another program.
 */
int inside_process_detach(struct inside_process *process);
/* Warn that the process still counts after a failed detach. The reason is the error in the ctx. */
void inside_process_tell_left(const struct inside_process *process);

/* Free PROCESS, which may be NULL. Without a detach the process continues to count. */
void inside_process_close(struct inside_process *process);

#endif
