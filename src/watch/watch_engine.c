// SPDX-License-Identifier: MIT
/* Choose the engine of a rule. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "measure/meter.h"
#include "watch/watch_rule.h"

/*
 * Return true if everything that RULE requests can be measured inside, in each process separately.
 */
static bool fits_inside(const struct targets *targets, const struct watch_rule *rule)
{
	return !targets->by_process && !measure_request_needs_bpf(rule->request);
}

int watch_rule_choose_engine(struct watch_rule *rule, const struct targets *targets,
			     const struct watch_spec *spec)
{
	const bool is_named = spec->pid || spec->exe;

	rule->engine = spec->engine;
	rule->is_inside = spec->engine == ENGINE_INSIDE;
	if (rule->is_inside && !is_named)
		return ctx_error(targets->ctx, -EINVAL,
				 "the engine `inside` is for programs that are named");
	if (rule->is_inside && targets->by_process)
		return ctx_error(targets->ctx, -EINVAL,
				 "the engine `inside` does not split counts by process");
	if ((spec->engine != ENGINE_AUTO && spec->engine != ENGINE_DEFAULT) || !is_named ||
	    !fits_inside(targets, rule) || !meter_lacks_bpf(targets->ctx))
		return 0;
	rule->is_inside = true;
	ctx_log(targets->ctx, OCP_LOG_INFO, "engine: inside, since BPF is not available: %s",
		ocp_error(targets->ctx));
	return 0;
}

bool watch_rule_falls_back(struct watch_rule *rule, struct ocp_ctx *ctx, const char *why)
{
	char *copy;

	if (rule->engine != ENGINE_AUTO || !rule->is_inside || rule->was_refused)
		return false;
	copy = strdup(why);
	rule->was_refused = true;
	rule->is_inside = ocp_meter_check(ctx) != 0;
	if (!rule->is_inside)
		ctx_log(ctx, OCP_LOG_WARN, "engine: bpf: %s", copy ? copy : "inside is refused");
	else
		ctx_error(ctx, -ENOTSUP, "%s", copy ? copy : "cannot count inside");
	free(copy);
	return !rule->is_inside;
}

bool watch_rule_move_inside(struct watch_rule *rule, struct targets *targets, const char *why,
			    int *err)
{
	if (rule->engine != ENGINE_AUTO || rule->is_inside || rule->was_refused || !rule->exe ||
	    !fits_inside(targets, rule))
		return false;
	ctx_log(targets->ctx, OCP_LOG_WARN, "%s: %s: counted inside from now on",
		rule->target->title, why);
	rule->is_inside = true;
	rule->retry_ns = 0;
	*err = target_end_sources(rule->target, rule, target_end_source);
	if (!*err)
		*err = watch_rule_follow(rule, targets, clock_ns(CLOCK_MONOTONIC));
	return true;
}
