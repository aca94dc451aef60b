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
#include "process/resolve.h"
#include "tracee/patch.h"

struct plan {
	struct ocp_ctx *ctx;
	const struct snapshot *snapshot; /* what the writes change; must outlive planning */
	bool force;			 /* set counters to 0 or 1, whatever their values are */
	struct plan_step *steps;	 /* in the order of execution */
	size_t n_steps;
	struct patch_write *writes;
	size_t n_writes;
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
int plan_make(struct ocp_ctx *ctx, const struct ocp_actions *actions,
	      const struct snapshot *snapshot, bool force, struct plan *plan);

/*
 * Plan the steps [FIRST, FIRST + N) of PLAN again, for what the snapshot of PLAN holds now. The
 * result is RENEWED.
 */
int plan_renew(const struct plan *plan, size_t first, size_t n, struct plan *renewed);

/*
 * Make an empty plan with room for every probe, site and semaphore: each can be in a plan at most
 * once.
 */
int plan_init(struct ocp_ctx *ctx, const struct snapshot *snapshot, bool force, struct plan *plan);
/*
 * Add to PLAN the writes that switch SITE on or off, or that set semaphore number SEMAPHORE to
 * VALUE. Leave out a write if the snapshot already has the new value. Returns the number of writes
 * added: at most 2 for a site, and at most 1 for a semaphore.
 */
size_t plan_write_site(struct plan *plan, const struct live_site *site, bool on);
size_t plan_write_semaphore(struct plan *plan, size_t semaphore, uint16_t value);

void plan_free(struct plan *plan);

#endif
