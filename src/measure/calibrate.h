/* SPDX-License-Identifier: MIT */
/* Measures the cost of measuring on this machine, on sites of our own and in a separate thread. */
#ifndef MEASURE_CALIBRATE_H
#define MEASURE_CALIBRATE_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

struct calibration;

/*
 * Start to measure the cost of OPS with SPEC, on sites that the kernel emulates and, if HAS_STEPPED,
 * also on sites that it single-steps. Only the members of SPEC that affect the cost are used. Returns NULL if it cannot be started.
 */
struct calibration *calibration_start(const struct engine_ops *ops, const struct engine_spec *spec,
				      bool has_stepped);
/*
 * Read the result. -EAGAIN if it is not known yet and WAIT is false; -ENODATA if it could not be
 * measured: *WHY is the reason.
 */
int calibration_result(struct calibration *calibration, bool wait, struct ocp_costs *costs,
		       const char **why);
/* Wait for a first, rough measurement, 30 ms at most. False: it failed. */
bool calibration_estimate(struct calibration *calibration, struct ocp_costs *costs);
/* The result, or the first measurement, whatever is known. Does not wait. False: neither, or it failed. */
bool calibration_so_far(struct calibration *calibration, struct ocp_costs *costs);
/* Wait until the uprobes are removed, and free CALIBRATION. Accepts NULL. */
void calibration_free(struct calibration *calibration);

#endif
