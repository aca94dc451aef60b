/* SPDX-License-Identifier: MIT */
/* Actions, which describe probes, held against the probes of a process. */
#ifndef PROCESS_RESOLVE_H
#define PROCESS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "process/actions.h"
#include "process/image.h"
#include "process/process_probes.h"

/* One probe that is to be switched. */
struct chosen_probe {
	size_t probe;
	enum action_verb verb;
	bool leave_disabled; /* to be disabled, but no error if it is: nobody named it */
};

/*
 * Which probes of LIVE the ACTIONS mean, each once, in the order in which they are to be switched:
 * as listed; of a pair the stop first when enabling, the start first when disabling, so that
 * nothing is ever started that is not stopped; what one regular expression or predicate matches by
 * name.
 *
 * -ENOENT: a name that no probe has, a regular expression that matches none. -EINVAL: one probe in
 * both directions. *TARGETS is freed by the caller; NULL on error.
 */
int actions_resolve(struct ocp_ctx *ctx, const struct live *live, const struct image_list *images,
		    const struct ocp_actions *actions, struct chosen_probe **targets, size_t *n);

#endif
