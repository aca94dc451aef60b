/* SPDX-License-Identifier: MIT */
/* Measures what a hit costs on this machine, in a separate thread, on sites in this library. */
#ifndef MEASURE_CALIBRATE_H
#define MEASURE_CALIBRATE_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

struct calibration;

/*
 * Start to measure what a hit costs with the engine OPS and the settings SPEC: at a site whose
 * instruction the kernel emulates and, if HAS_STEPPED, also at a site whose instruction the kernel
 * single-steps. Only the members of SPEC that affect the cost are used. Return NULL if the
 * measurement cannot be started.
 */
struct calibration *calibration_start(const struct engine_ops *ops, const struct engine_spec *spec,
				      bool has_stepped);
/*
 * Set *COSTS to the result. If the result is not known yet, wait for it if WAIT is true; otherwise
 * return -EAGAIN. Return -ENODATA, with the reason in *WHY, if the cost could not be measured.
 * After an error, all members of *COSTS are 0.
 */
int calibration_result(struct calibration *calibration, bool wait, struct ocp_costs *costs,
		       const char **why);
/*
 * Wait, usually for less than 30 ms, for a first, rough measurement, and set *COSTS to its result.
 * Return false if the measurement failed.
 */
bool calibration_estimate(struct calibration *calibration, struct ocp_costs *costs);
/*
 * Set *COSTS to the result or, if the result is not known yet, to the first, rough measurement. Do
 * not wait. Return false if neither is known, or if measuring failed.
 */
bool calibration_so_far(struct calibration *calibration, struct ocp_costs *costs);
/* Wait until the calibration has removed its uprobes, and free CALIBRATION. Accepts NULL. */
void calibration_free(struct calibration *calibration);

#endif
