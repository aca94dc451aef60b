/* SPDX-License-Identifier: MIT */
/* The engine that counts inside of processes. */
#ifndef MEASURE_ENGINE_INSIDE_H
#define MEASURE_ENGINE_INSIDE_H

#include "inside/inside.h"
#include "measure/engine/engine.h"

extern const struct engine_ops engine_inside;

/* What of SPEC this engine does not measure, for a message; NULL: it measures all of it. */
const char *engine_inside_cannot(const struct engine_spec *spec);

/*
 * An engine of what earlier tools have left in processes: it can be read, detached and closed; close alone
 * leaves it measuring. engine_inside_add_found() adds INSIDE, which inside_find() found in PID, with the
 * numbers of its sites at NUMBERS; both belong to the engine, also after an error. Detach ends the counting of
 * forked children, too, and of the process that forked PID.
 */
int engine_inside_new_found(struct ocp_ctx *ctx, struct engine **out);
int engine_inside_add_found(struct engine *engine, pid_t pid, struct inside *inside,
			    uint32_t *numbers);

/* How many of the processes that were to be attached to count, or counted. */
size_t engine_inside_n_processes(const struct engine *engine);
/* Does PID, a measured process or a child that one has forked, count for ENGINE, which is attached? */
bool engine_inside_counts_in(const struct engine *engine, pid_t pid);

#endif
