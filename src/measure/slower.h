/* SPDX-License-Identifier: MIT */
/* Slow pairs: a meter reports each of them, with the arguments of its start and stop. */
#ifndef MEASURE_SLOWER_PAIRS_H
#define MEASURE_SLOWER_PAIRS_H

#include <stdint.h>
#include "ocaml_probes.h"

/* A slow pair. It is valid as long as the hit of its stop. */
struct slow_pair {
	const char *start, *stop; /* the names of its probes */
	uint64_t ns;		  /* how long it took */
	const struct ocp_hit *stop_hit;
	const struct ocp_hit *start_hit; /* NULL: its arguments were not kept */
	const char *comm;		 /* the name of the thread that stopped it */
	const char *start_comm; /* the name of the thread that started it; NULL if start_hit is */
};

/*
 * Report each pair that takes NS nanoseconds or longer, within the limit of printed hits. Call this
 * before METER is opened. ocp_meter_take_hits() passes on the hit of the stop, for which
 * slow_pair_of() returns the pair. For printed hits, slow_pair_of() returns NULL. Losses are in
 * struct ocp_losses.
 */
void meter_set_slower(struct ocp_meter *meter, uint64_t ns);
const struct slow_pair *slow_pair_of(const struct ocp_hit *hit);

#endif
