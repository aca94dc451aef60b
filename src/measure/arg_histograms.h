/* SPDX-License-Identifier: MIT */
/*
 * The histograms of an argument's values: a part of a sample. ocp_meter_histogram() requests them.
 */
#ifndef MEASURE_ARG_HISTOGRAMS_H
#define MEASURE_ARG_HISTOGRAMS_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

struct histogram_values;

/* Histograms, sorted by the name of the probe. If all members are 0, there are none. */
struct arg_histograms {
	struct ocp_histogram *list;
	struct histogram_values *values; /* by histogram: the memory that list[i] points to */
	size_t n;
};

/*
 * Convert the histograms in READING. The caller frees OUT with arg_histograms_free(), also on
 * failure (-ENOMEM).
 */
int arg_histograms_make(const struct ocp_meter *meter, const struct engine_reading *reading,
			struct arg_histograms *out);
/* Set *OUT to LATER minus EARLIER. The caller frees OUT, also on failure (-ENOMEM). */
int arg_histograms_subtract(struct ocp_ctx *ctx, const struct arg_histograms *later,
			    const struct arg_histograms *earlier, struct arg_histograms *out);
void arg_histograms_free(struct arg_histograms *histograms);

#endif
