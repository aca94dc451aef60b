/* SPDX-License-Identifier: MIT */
/*
 * Room change/switch: switching the probes of a process on and off.
 * In: actions: names of probes and what to do with them.
 * Out: all of them done, or none; a journal while they are done.
 * Callers: only the public C API: ocp_process_update(), ocp_trace(), ocp_process_repair().
 */
/*
 * Plans: the list of writes that carries out actions, made from a snapshot. These functions neither
 * write to a process nor read from it.
 */
#ifndef CHANGE_SWITCH_PLAN_H
#define CHANGE_SWITCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/switch/actions.h"
#include "process/image.h"
#include "process/process_probes.h"
#include "change/stop/patch.h"

/* ---- steps ----------------------------------------------------------------------------------- */

/* Find which probes of a process the requested actions refer to. */

/*
 * What to do with one probe. The writes of a step of a plan are writes[first_write] to
 * writes[first_write + n_writes - 1].
 */
struct plan_step {
	size_t probe;
	enum action_verb verb;
	/* the user did not name the probe: if it is off already, it is left off without an error */
	bool leave_disabled;
	size_t first_write, n_writes;
};

/*
 * Find the probes of LIVE to which ACTIONS refer. List each probe once, in the order of the
 * actions: the probes are switched in this order. The matches of one regular expression or
 * predicate are sorted by name. The stop of a pair is enabled before the start, and disabled after
 * it, so that each start has a stop.
 *
 * Returns -ENOENT if no probe has the name of an action, or matches its regular expression; -EINVAL
 * if a probe is to be both enabled and disabled. The caller frees *CHOSEN, which is NULL on error.
 */
int actions_resolve(struct ocp_ctx *ctx, const struct live *live, const struct ocp_actions *actions,
		    struct plan_step **chosen, size_t *n);

struct plan {
	struct ocp_ctx *ctx;
	/* the state that the writes change; must outlive planning */
	const struct snapshot *snapshot;
	bool force;		 /* set counters to 0 or 1, whatever their present values are */
	struct plan_step *steps; /* the steps, in the order of their execution */
	size_t n_steps;
	struct patch_write *writes;
	size_t n_writes;
};

/*
 * Plan ACTIONS. Verify every site and semaphore of their probes: a site must have one of the ABI's
 * two forms, and call its trampoline or a wrapper in the program's code (-EILSEQ); a semaphore must
 * not overflow or fall below zero (-ERANGE); and the names in ACTIONS must exist (-ENOENT).
 *
 * The writes have an order (see patch.h) in which an interruption leaves a known state: if a
 * semaphore is not 0, all sites are on; if a semaphore is 0 and sites are on, an update was
 * interrupted.
 */
int plan_make(struct ocp_ctx *ctx, const struct ocp_actions *actions,
	      const struct snapshot *snapshot, bool force, struct plan *plan);

/*
 * Plan the steps [FIRST, FIRST + N) of PLAN again, for the state that the snapshot of PLAN has now.
 * Set RENEWED to the new plan.
 */
int plan_renew(const struct plan *plan, size_t first, size_t n, struct plan *renewed);

/*
 * Make an empty plan with room for every probe, site and semaphore: each can be in a plan at most
 * once.
 */
int plan_init(struct ocp_ctx *ctx, const struct snapshot *snapshot, bool force, struct plan *plan);
/*
 * Add to PLAN the writes that switch SITE on or off, or (the second function) that set semaphore
 * number SEMAPHORE to VALUE. Leave out a write if the snapshot already has the new value. Return
 * the number of writes added: at most 2 for a site, and at most 1 for a semaphore.
 */
size_t plan_write_site(struct plan *plan, const struct live_site *site, bool on);
size_t plan_write_semaphore(struct plan *plan, size_t semaphore, uint16_t value);

void plan_free(struct plan *plan);

/* ---- pages of 1 GiB -------------------------------------------------------------------------- */

/*
 * Refuse writes to code on 1 GiB pages, unless the user allows them: see ocp_ctx_allow_gigatext().
 */

/*
 * Return -EOVERFLOW if PLAN writes to code of PID on 1 GiB pages and CTX does not allow that; else
 * 0.
 */
int gigatext_check(struct ocp_ctx *ctx, pid_t pid, const struct plan *plan);

/*
 * Return true if one of the 1-byte writes in WRITES[0..N) is on a 1 GiB page, according to TEXT in
 * the format of /proc/PID/smaps. In this case set *ADDR to the address of such a write.
 */
bool gigatext_in_smaps(const char *text, const struct patch_write *writes, size_t n,
		       uint64_t *addr);

#endif
