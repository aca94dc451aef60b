/* SPDX-License-Identifier: MIT */
/* The engine that counts inside of processes. */
#ifndef MEASURE_ENGINE_INSIDE_H
#define MEASURE_ENGINE_INSIDE_H

#include "measure/engine/inside_meta.h"
#include "change/inside/inside.h"
#include "measure/engine/engine.h"

extern const struct engine_ops engine_inside;

/*
 * Return the first feature in SPEC that this engine lacks, as text for an error message, or NULL if
 * the engine supports all of SPEC.
 */
const char *engine_inside_cannot(const struct engine_spec *spec);

/*
 * engine_inside_new_found() creates an engine for counters that earlier tools left in processes.
 * The engine can be read, detached and closed. If it is closed without a detach, the processes
 * continue to count. engine_inside_add_found() adds the counters INSIDE, which inside_find() found
 * in PID; NUMBERS[0..N) has the numbers of their sites. The engine then owns INSIDE and NUMBERS,
 * also after an error. A detach also ends the counting in the process that forked PID, and in all
 * forked children of that process and of PID.
 */
int engine_inside_new_found(struct ocp_ctx *ctx, struct engine **out);
int engine_inside_add_found(struct engine *engine, pid_t pid, struct inside *inside,
			    struct inside_number *numbers, size_t n);

/* inside_costs.c: see engine_ops.costs. */
int inside_costs(struct ocp_ctx *ctx, const struct engine_spec *spec, struct ocp_costs *costs);

/* Return how many processes were attached. */
size_t engine_inside_n_processes(const struct engine *engine);
/* Return true if PID, a measured process or a child forked from one, counts for ENGINE now. */
bool engine_inside_counts_in(const struct engine *engine, pid_t pid);

#endif
