/* SPDX-License-Identifier: MIT */
/* Slow pairs: a meter reports each slow pair, with the arguments of the pair's start and stop. */
#ifndef MEASURE_SLOWER_PAIRS_H
#define MEASURE_SLOWER_PAIRS_H

#include <stdint.h>
#include "ocaml_probes.h"

/* A slow pair. The struct is valid as long as the hit of the pair's stop. */
struct slow_pair {
	const char *start, *stop; /* the names of its probes */
	uint64_t ns;		  /* the time from start to stop */
	const struct ocp_hit *stop_hit;
	const struct ocp_hit *start_hit; /* NULL: the arguments of the start were not kept */
	const char *comm;		 /* the name of the thread that stopped it */
	/* the name of the thread that started it; NULL if start_hit is NULL */
	const char *start_comm;
};

/*
 * If the request has_slower, each pair that takes slower_ns or longer is reported; these count
 * towards the limit of printed hits. For each such pair, ocp_meter_take_hits() passes on the hit of
 * its stop, for which slow_pair_of() returns the pair; for printed hits, slow_pair_of() returns
 * NULL. Losses are in struct ocp_losses.
 */
const struct slow_pair *slow_pair_of(const struct ocp_hit *hit);

#endif
