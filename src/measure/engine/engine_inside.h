/* SPDX-License-Identifier: MIT */
/* The engine that counts inside the process. */
#ifndef MEASURE_ENGINE_INSIDE_H
#define MEASURE_ENGINE_INSIDE_H

#include "measure/engine/engine.h"

extern const struct engine_ops engine_inside;

/* What of SPEC this engine does not measure, for a message; NULL: it measures all of it. */
const char *engine_inside_cannot(const struct engine_spec *spec);

/* Does PID, the measured process or a child that it has forked, count for ENGINE, which is attached? */
bool engine_inside_counts_in(const struct engine *engine, pid_t pid);

#endif
