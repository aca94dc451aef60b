/* SPDX-License-Identifier: MIT */
/* Find which probes of a process the requested actions refer to. */
#ifndef PROCESS_RESOLVE_H
#define PROCESS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "process/actions.h"
#include "process/image.h"
#include "process/process_probes.h"

/*
 * The action for one probe. In a plan, its writes are writes[first_write .. first_write + n_writes).
 */
struct plan_step {
	size_t probe;
	enum action_verb verb;
	bool leave_disabled; /* not named by the user: disabling a disabled probe is no error */
	size_t first_write, n_writes;
};

/*
 * Find the probes of LIVE to which ACTIONS refer, each once, in the order in which to switch them.
 * That is the order of the actions; the matches of one regular expression or predicate are sorted
 * by name. A pair is enabled stop first and disabled start first, so that each start has a stop.
 *
 * Returns -ENOENT if no probe has the name of an action, or matches its regular expression; -EINVAL
 * if a probe is to be both enabled and disabled. The caller frees *CHOSEN, which is NULL on error.
 */
int actions_resolve(struct ocp_ctx *ctx, const struct live *live, const struct ocp_actions *actions,
		    struct plan_step **chosen, size_t *n);

#endif
