/* SPDX-License-Identifier: MIT */
/* What measuring costs here and now: measured on sites of our own, in a thread of its own. */
#ifndef MEASURE_CALIBRATE_H
#define MEASURE_CALIBRATE_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

struct calibration;

/*
 * Start to measure what OPS costs when it measures as SPEC says (of which only what matters for the
 * cost is looked at), on sites that start with a nop or are DORMANT. NULL when that cannot even be
 * started.
 */
struct calibration *calibration_start(const struct engine_ops *ops, const struct engine_spec *spec,
				      bool dormant);
/*
 * The result. -EAGAIN if it is not there yet and not to be waited for; -ENODATA if there is none:
 * WHY then says why not.
 */
int calibration_result(struct calibration *calibration, bool wait, struct ocp_costs *costs,
		       const char **why);
/* Waits until its uprobes are gone. Takes NULL. */
void calibration_free(struct calibration *calibration);

#endif
