/* SPDX-License-Identifier: MIT */
/*
 * One of the processes that the engine `inside` measures: where its sites lie in its memory, and what
 * counts in it. The children that it forks count with it.
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
	const unsigned int *key_args; /* of each role: its key; NULL: none is keyed */
	size_t n_pairs, max_sites;
	unsigned int depth;
	bool by_process;		/* hits are also rows by process and probe */
	const struct inside_meta *meta; /* its name and text; without a text nothing is left */
};

/*
 * -ENOTSUP if PID has no site of N_SITES to count, or if N_UNFIT of them have no nop and call
 * (engine_site.needs_kernel).
 */
int inside_process_check(struct ocp_ctx *ctx, pid_t pid, size_t n_sites, size_t n_unfit);

/* Make PID count at the sites of those of the N FILES that list it. On failure nothing is changed. */
int inside_process_attach(struct ocp_ctx *ctx, pid_t pid, const struct inside_plan *plan,
			  const struct engine_file *files, size_t n, struct inside_process **out);

/*
 * What inside_find() found in PID, with the numbers of its sites at NUMBERS; both belong to the new
 * struct, also after an error. The process that forked PID, and the other children, end with it.
 */
int inside_process_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside, uint32_t *numbers,
			 struct inside_process **out);

/* Add the hits and pairs to READING. Works after the end of the process, too, unless it was found. */
int inside_process_add(struct inside_process *process, struct engine_reading *reading);

/* Does PID, the process or a child that it has forked, count now? */
bool inside_process_counts_in(const struct inside_process *process, pid_t pid);

/* End the counting, also in children. Not an error: the process has ended, or executed another program. */
int inside_process_detach(struct inside_process *process);
/* After a detach that failed: warn that the process counts on, by the error in the ctx. */
void inside_process_tell_left(const struct inside_process *process);

/* Free PROCESS, which may be NULL. Without a detach it counts on. */
void inside_process_close(struct inside_process *process);

#endif
