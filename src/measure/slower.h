/* SPDX-License-Identifier: MIT */
/* Slow pairs: those that a meter reports one by one, with the arguments of their start and stop. */
#ifndef MEASURE_SLOWER_PAIRS_H
#define MEASURE_SLOWER_PAIRS_H

#include <stdint.h>
#include "ocaml_probes.h"

/* A pair that was slow, valid as long as the hit that it is found by. */
struct slow_pair {
	const char *start, *stop; /* the names of its probes */
	uint64_t ns;		  /* how long it took */
	const struct ocp_hit *stop_hit;
	const struct ocp_hit *start_hit; /* NULL: its arguments were not kept */
	const char *comm;		 /* the name of the thread that stopped it */
	const char *start_comm;		 /* and of the one that started it; NULL as start_hit */
};

/*
 * Before METER is opened: report each pair that takes NS nanoseconds or longer, limited as printed hits are.
 * ocp_meter_take_hits() passes on the hit of its stop, for which slow_pair_of() returns the pair. It
 * returns NULL for the hits that are printed. Losses are in struct ocp_losses.
 */
void meter_set_slower(struct ocp_meter *meter, uint64_t ns);
const struct slow_pair *slow_pair_of(const struct ocp_hit *hit);

#endif
