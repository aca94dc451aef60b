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
#include "process/process_probes.h"
#include "process/patch.h"

/*
 * What is to be done to one probe, and its writes: writes[first_write .. first_write + n_writes).
 */
struct plan_step {
	size_t probe;
	enum action_verb verb;
	bool leave_disabled; /* no error if it is to be disabled and is */
	size_t first_write, n_writes;
};

struct plan {
	struct plan_step *steps; /* in the order in which they are to be done */
	size_t n_steps;
	struct patch_write *writes;
	size_t n_writes;
};

/* What plans are made from. */
struct plan_context {
	struct ocp_ctx *ctx;
	const struct image_list *images;
	const struct live *live;
	bool force; /* set states and counters outright */
};

/*
 * Plan ACTIONS. Every site and semaphore of the probes concerned is verified: a site must be one of
 * the ABI's two forms with its wrapper in the program's code (-EILSEQ), a semaphore must not
 * overflow or be disabled below zero (-ERANGE), a name must exist (-ENOENT).
 *
 * The phases of the writes (see patch.h) are such that, cut anywhere, a semaphore that is not 0
 * means that all sites are on, and sites that are on without a semaphore tell that work was cut
 * short.
 */
int plan_make(const struct plan_context *context, const struct ocp_actions *actions,
	      const struct snapshot *snapshot, struct plan *plan);

/* Plan the same steps [first, first + n) of PLAN anew for another snapshot. */
int plan_renew(const struct plan_context *context, const struct plan *plan, size_t first, size_t n,
	       const struct snapshot *snapshot, struct plan *renewed);

/* An empty plan with room for every probe, site and semaphore: each is in a plan at most once. */
int plan_init(struct ocp_ctx *ctx, const struct live *live, struct plan *plan);
/*
 * Add to PLAN the write that switches SITE, or sets semaphore number SEMAPHORE to VALUE, if it is not
 * so in SNAPSHOT. Returns how many writes that are: 0 or 1.
 */
size_t plan_write_site(struct plan *plan, const struct snapshot *snapshot,
		       const struct live_site *site, bool on);
size_t plan_write_semaphore(struct plan *plan, const struct snapshot *snapshot,
			    const struct live *live, size_t semaphore, uint16_t value);

void plan_free(struct plan *plan);

#endif
