/* SPDX-License-Identifier: MIT */
/*
 * The times of function calls, split by the domain of OCaml 5 that makes the call. They are a part
 * of a sample.
 */
#ifndef MEASURE_DOMAIN_PAIRS_H
#define MEASURE_DOMAIN_PAIRS_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

/*
 * Also split the calls that METER times by the domain of OCaml 5 that makes the call. METER must
 * time C functions of the runtime in one process. Call this before ocp_meter_open().
 */
void meter_split_by_domain(struct ocp_meter *meter, const struct engine_domains *domains);

/* Return the calls in SAMPLE, split by domain. */
const struct domain_pairs *sample_domain_pairs(const struct ocp_sample *sample);

/*
 * Set the minimum and maximum of PAIR from its histogram, which has only the precision of the
 * buckets.
 */
void pair_find_extremes(struct ocp_pair *pair);

#endif
