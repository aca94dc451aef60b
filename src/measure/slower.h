/* SPDX-License-Identifier: MIT */
/* Slow pairs: a meter reports each slow pair, with the arguments of the pair's start and stop. */
#ifndef MEASURE_SLOWER_PAIRS_H
#define MEASURE_SLOWER_PAIRS_H

#include <stdbool.h>
#include <stdint.h>
#include "ocaml_probes.h"

/*
 * A slow pair, or a slow call of a function. The struct is valid as long as its hits. The stop of a
 * call has no arguments.
 */
struct slow_pair {
	/* the names of the two probes; of a call: the name of the function, and "" */
	const char *start, *stop;
	uint64_t ns;   /* the time from start to stop */
	bool is_call;  /* the call of a function, or a phase of the collector */
	bool is_keyed; /* matched by an argument, so that pairs of one thread can overlap */
	bool is_open;  /* has not ended: ns is 0, and there is only the hit of the start */
	const struct ocp_hit *stop_hit;	 /* NULL: is_open */
	const struct ocp_hit *start_hit; /* NULL: the arguments of the start were not kept */
};

/*
 * If request.has_slower is set, a meter reports each pair that takes request.slower_ns or longer:
 * ocp_meter_take_hits() passes the hit of the pair's stop to the caller, and slow_pair_of() returns
 * the pair for this hit. For printed hits, slow_pair_of() returns NULL. Slow pairs count towards
 * the limit of printed hits. Losses are in struct ocp_losses.
 */
const struct slow_pair *slow_pair_of(const struct ocp_hit *hit);

#endif
