// SPDX-License-Identifier: MIT
/*
 * Choose the engine of a measurement. BPF disturbs the process least at attach and detach, and
 * needs no code inside the process, but each hit costs a trap. So `auto` chooses BPF if BPF is
 * permitted and hits are few. To find out, it measures with BPF for a moment; this trial ends
 * before the measurement that the user requested begins, so every hit is counted once. If the hits
 * will be caused by a command that the tool starts, a trial is not possible. In this case `auto`
 * chooses `inside`, where many hits cost little.
 */
#include "tool/choose_engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "inside/inside.h"
#include "measure/meter.h"

enum { LOOK_NS = 100 * 1000 * 1000 };

static void give_reason(struct chosen_engine *chosen, bool is_inside, const char *before,
			const char *reason)
{
	chosen->is_inside = is_inside;
	snprintf(chosen->reason, sizeof(chosen->reason), "%s%s", before, reason);
}

/* Create and open the meter that OPTIONS describe. */
static int open_trial_meter(const struct options *options, struct ocp_process **procs, size_t n,
			    bool is_inside, struct ocp_meter **meter)
{
	int err = 0;

	*meter = ocp_meter_new(options->ctx);
	if (!*meter)
		return -ENOMEM;
	if (is_inside)
		meter_use_inside(*meter);
	for (size_t i = 0; !err && i < n; i++)
		err = ocp_meter_add_process(*meter, procs[i]);
	if (!err)
		err = measure_request_apply(&options->request, *meter);
	return err ? err : ocp_meter_open(*meter);
}

/*
 * Check that the engine `inside` can count the processes. Return -ENOTSUP, with the reason in the
 * ctx, if it cannot.
 */
static int check_inside(const struct options *options, struct ocp_process **procs, size_t n)
{
	struct ocp_meter *meter;
	int err = open_trial_meter(options, procs, n, true, &meter);

	if (!err)
		err = meter_check_all_inside(meter);
	ocp_meter_free(meter);
	for (size_t i = 0; !err && i < n; i++)
		err = inside_check(options->ctx, ocp_process_pid(procs[i]),
				   options->request.n_pairs != 0);
	return err;
}

/*
 * Measure with BPF for LOOK_NS. Set *RATE to the hits per second and *SHARE to their cost as a
 * share of a core.
 */
static int measure_hit_rate(const struct options *options, struct ocp_process **procs, size_t n,
			    double *rate, double *share)
{
	const struct timespec a_while = { 0, LOOK_NS };
	struct ocp_sample *sample = NULL;
	struct ocp_costs costs;
	struct ocp_meter *meter;
	int err = open_trial_meter(options, procs, n, false, &meter);

	if (!err)
		err = ocp_meter_attach(meter);
	if (!err) {
		nanosleep(&a_while, NULL);
		err = ocp_meter_detach(meter);
	}
	if (!err)
		err = ocp_meter_read(meter, &sample);
	if (!err)
		err = ocp_meter_costs(meter, &costs);
	if (!err) {
		*rate = (double)ocp_sample_all_hits(sample) * 1e9 /
			(double)ocp_sample_time_ns(sample);
		*share = *rate * ocp_sample_cost_per_hit_ns(sample, &costs) / 1e9;
	}
	ocp_sample_free(sample);
	ocp_meter_free(meter);
	return err;
}

static void compare_costs(const struct options *options, struct ocp_process **procs, size_t n,
			  struct chosen_engine *chosen)
{
	const double asked = options->request.budget;
	const double budget = asked > 0 ? asked : ENGINE_AUTO_BUDGET;
	double rate = 0, share = 0;
	int err = measure_hit_rate(options, procs, n, &rate, &share);

	if (err == -ENOTSUP || err == -EPERM || err == -EACCES)
		give_reason(chosen, true, "BPF fails: ", ocp_error(options->ctx));
	if (err)
		return;
	chosen->is_inside = share > budget;
	snprintf(chosen->reason, sizeof(chosen->reason),
		 "%.0f hits/s take %.2f%% of a core with BPF, %s the budget of %g%%", rate,
		 100 * share, chosen->is_inside ? "more than" : "within", 100 * budget);
}

/*
 * Choose `inside`: the command starts only after the measurement has begun, so its hits cannot be
 * sampled before.
 */
static void choose_for_command(const struct options *options, struct chosen_engine *chosen)
{
	chosen->is_inside = true;
	snprintf(chosen->reason, sizeof(chosen->reason),
		 "the hits that '%s' will cause are not known yet", options->args[0]);
}

static void choose_by_cost(const struct options *options, struct ocp_process **procs, size_t n,
			   struct chosen_engine *chosen)
{
	const char *need = measure_options_need_bpf(options);
	int err = 0;

	if (need)
		give_reason(chosen, false, "inside excludes ", need);
	else if (ocp_meter_check(options->ctx))
		give_reason(chosen, true, "BPF is not available: ", ocp_error(options->ctx));
	else
		err = check_inside(options, procs, n);
	if (err == -ENOTSUP)
		give_reason(chosen, false, "inside is not possible: ", ocp_error(options->ctx));
	else if (!err && !chosen->reason[0] && options->n_args)
		choose_for_command(options, chosen);
	else if (!err && !chosen->reason[0])
		compare_costs(options, procs, n, chosen);
}

/*
 * Choose the engine if the user has not named one: `inside` if BPF is not permitted and `inside`
 * supports the request, otherwise BPF.
 */
static void choose_default(const struct options *options, struct ocp_process **procs, size_t n,
			   struct chosen_engine *chosen)
{
	if (measure_options_need_bpf(options) || options->exe || !meter_lacks_bpf(options->ctx))
		return;
	give_reason(chosen, true, "BPF is not available: ", ocp_error(options->ctx));
	if (check_inside(options, procs, n))
		*chosen = (struct chosen_engine){ 0 };
}

void choose_engine(const struct options *options, struct ocp_process **procs, size_t n,
		   struct chosen_engine *chosen)
{
	*chosen = (struct chosen_engine){ .is_inside = options->engine == ENGINE_INSIDE };
	if (options->engine == ENGINE_DEFAULT)
		choose_default(options, procs, n, chosen);
	else if (options->engine == ENGINE_AUTO)
		choose_by_cost(options, procs, n, chosen);
	/* If the reason is empty after a failure, the measurement itself reports the error. */
	if (!options->quiet && chosen->reason[0])
		say("engine: %s, since %s", chosen->is_inside ? "inside" : "bpf", chosen->reason);
}
