/* SPDX-License-Identifier: MIT */
/*
 * Plans: the list of writes that carries out actions, made from a snapshot. These functions neither
 * write to a process nor read from it.
 */
#ifndef PROCESS_PLAN_H
#define PROCESS_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "process/actions.h"
#include "process/process_probes.h"
#include "tracee/patch.h"

/* The action for one probe, and its writes: writes[first_write .. first_write + n_writes). */
struct plan_step {
	size_t probe;
	enum action_verb verb;
	bool leave_disabled; /* disabling a disabled probe is not an error */
	size_t first_write, n_writes;
};

struct plan {
	struct plan_step *steps; /* in the order of execution */
	size_t n_steps;
	struct patch_write *writes;
	size_t n_writes;
};

/* The inputs of a plan, besides the snapshot. */
struct plan_context {
	struct ocp_ctx *ctx;
	const struct image_list *images;
	const struct live *live;
	bool force; /* set counters to 0 or 1, whatever their values are */
};

/*
 * Plan ACTIONS. Every site and semaphore of the probes is verified: a site must have one of the
 * ABI's two forms, and call a wrapper in the program's code or its trampoline (-EILSEQ); a
 * semaphore must not overflow or fall below zero (-ERANGE); and a name must exist (-ENOENT).
 *
 * The writes have an order (see patch.h) in which an interruption leaves a known state: if a
 * semaphore is not 0, all sites are on; if a semaphore is 0 and sites are on, an update was
 * interrupted.
 */
int plan_make(const struct plan_context *context, const struct ocp_actions *actions,
	      const struct snapshot *snapshot, struct plan *plan);

/* Plan the steps [FIRST, FIRST + N) of PLAN again, for SNAPSHOT. The result is RENEWED. */
int plan_renew(const struct plan_context *context, const struct plan *plan, size_t first, size_t n,
	       const struct snapshot *snapshot, struct plan *renewed);

/*
 * Make an empty plan with room for every probe, site and semaphore: each can be in a plan at most
 * once.
 */
int plan_init(struct ocp_ctx *ctx, const struct live *live, struct plan *plan);
/*
 * Add to PLAN the writes that switch SITE on or off, or that set semaphore number SEMAPHORE to
 * VALUE. Leave out a write if SNAPSHOT already has the new value. Returns the number of writes
 * added: at most 2 for a site, and at most 1 for a semaphore.
 */
size_t plan_write_site(struct plan *plan, const struct snapshot *snapshot, const struct live *live,
		       const struct live_site *site, bool on);
size_t plan_write_semaphore(struct plan *plan, const struct snapshot *snapshot,
			    const struct live *live, size_t semaphore, uint16_t value);

void plan_free(struct plan *plan);

#endif
