/* SPDX-License-Identifier: MIT */
/* The engine that counts inside the process. */
#ifndef MEASURE_ENGINE_INSIDE_H
#define MEASURE_ENGINE_INSIDE_H

#include "inside/inside.h"
#include "measure/engine/engine.h"

extern const struct engine_ops engine_inside;

/* What of SPEC this engine does not measure, for a message; NULL: it measures all of it. */
const char *engine_inside_cannot(const struct engine_spec *spec);

/*
 * The engine of INSIDE, which inside_find() found in PID, with the N_SITES numbers at NUMBERS; both belong
 * to the engine, also after an error. It can be read, detached and closed; close alone leaves it
 * measuring. Detach ends the counting of forked children, too, and of the process that forked PID.
 */
int engine_inside_open_found(struct ocp_ctx *ctx, pid_t pid, struct inside *inside,
			     uint32_t *numbers, struct engine **out);
/* Does PID, the measured process or a child that it has forked, count for ENGINE, which is attached? */
bool engine_inside_counts_in(const struct engine *engine, pid_t pid);

#endif
