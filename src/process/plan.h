/* SPDX-License-Identifier: MIT */
/*
 * Plans: actions held against a snapshot become the list of writes that carries them out, or an
 * error. Nothing is written here, no process is looked at.
 */
#ifndef PROCESS_PLAN_H
#define PROCESS_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "process/actions.h"
#include "process/live.h"
#include "process/patch.h"

struct plan {
	struct patch_write *writes;
	size_t n;
};

/*
 * Plan ACTIONS. Every site and semaphore of the probes concerned is verified: a site must be one of
 * the ABI's two forms with its wrapper in the program's code (-EILSEQ), a semaphore must not
 * overflow or be disabled below zero (-ERANGE), a name must exist (-ENOENT).
 *
 * Order of the writes: enabling a probe writes its sites, then its semaphores; disabling the other
 * way round. Cut anywhere, a semaphore that is not 0 then means that all sites are on, and sites
 * that are on without a semaphore tell that the work was cut short.
 */
int plan_make(struct ocp_ctx *ctx, const struct image_list *images, const struct live *live,
	      const struct snapshot *snapshot, const struct ocp_actions *actions,
	      struct plan *plan);
void plan_free(struct plan *plan);

#endif
