/* SPDX-License-Identifier: MIT */
/* The times of function calls, by the domain of OCaml 5 that makes the call: a part of a sample. */
#ifndef MEASURE_DOMAIN_PAIRS_H
#define MEASURE_DOMAIN_PAIRS_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

struct domain_pair {
	size_t pair; /* index of the pair in the sample */
	uint32_t domain;
	struct ocp_pair times; /* of completed calls; `starts` equals `count` */
	uint64_t buckets[OCP_BUCKETS];
};

/* Rows, sorted by pair, then by domain. If all members are 0, there are none. */
struct domain_pairs {
	struct domain_pair *list;
	size_t n;
};

/*
 * Also split the calls that METER times by the domain of OCaml 5 that makes the call. METER must
 * time C functions of the runtime in one process. Call this before ocp_meter_open().
 */
void meter_split_by_domain(struct ocp_meter *meter, const struct engine_domains *domains);

/* Return the calls by domain of SAMPLE. */
const struct domain_pairs *sample_domain_pairs(const struct ocp_sample *sample);

/* Set the minimum and maximum of PAIR from its histogram, with the precision of its buckets. */
void pair_find_extremes(struct ocp_pair *pair);

#endif
