// SPDX-License-Identifier: MIT
/*
 * Stop counting probes that the user has not named, and whose hits cost more than counting them is
 * worth.
 */
#include <string.h>

#include "base/ctx.h"
#include "watch/watch_state.h"

/* Return true if the probes of TARGET are counted only because all probes are requested. */
static bool counts_all(const struct watch *watch, const struct target *target)
{
	for (size_t i = 0; i < watch->n_rules; i++) {
		const struct watch_rule *rule = watch->rules[i];

		if (rule->exe && rule->target != target)
			continue;
		for (size_t j = 0; j < rule->request->counted.n; j++)
			if (rule->request->counted.list[j].kind != ITEM_ALL_PROBES)
				return false;
	}
	return true;
}

static bool has_inside(const struct target *target)
{
	for (size_t i = 0; i < target->n_sources; i++)
		if (target->sources[i]->is_inside)
			return true;
	return false;
}

void watch_leave_probes(struct watch *watch, const char *prefix)
{
	for (size_t t = 0; t < watch->targets.n; t++) {
		struct target *target = watch->targets.list[t];

		/* Probes that are counted inside cost very little. */
		for (size_t i = 0; i < target->view.n_probes && !has_inside(target); i++) {
			const struct watch_probe *probe = &target->probes[i];
			struct probe_record *record = target->probe_records[i];

			if (record->was_left || !probe->is_counted || probe->is_in_pair ||
			    strncmp(probe->name, prefix, strlen(prefix)) != 0 ||
			    !counts_all(watch, target))
				continue;
			record->was_left = true;
			if (watch_switch_counter(watch, t, probe->name, false))
				ctx_log(watch->ctx, OCP_LOG_WARN, "%s: %s", target->title,
					ocp_error(watch->ctx));
		}
	}
}
