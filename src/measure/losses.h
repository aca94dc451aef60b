/* SPDX-License-Identifier: MIT */
/* Converts the losses that an engine counts into the losses of a sample. */
#ifndef MEASURE_LOSSES_H
#define MEASURE_LOSSES_H

#include "measure/args/arg_requests.h"
#include "measure/engine/engine.h"
#include "measure/sites/site_table.h"
#include "ocaml_probes.h"

/*
 * Convert READ to LOSSES. REQUESTS has the names of the arguments in the filter. The caller frees
 * LOSSES with losses_free(), also on failure (-ENOMEM).
 */
int losses_make(const struct site_table *table, const struct arg_requests *requests,
		const struct measure_losses *read, struct ocp_losses *losses);
/* Set *LOSSES to LATER minus EARLIER. The caller frees LOSSES, also on failure (-ENOMEM). */
int losses_subtract(struct ocp_ctx *ctx, const struct ocp_losses *later,
		    const struct ocp_losses *earlier, struct ocp_losses *losses);
void losses_free(struct ocp_losses *losses);

#endif
