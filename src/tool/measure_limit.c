// SPDX-License-Identifier: MIT
#include "tool/measure_limit.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "measure/meter.h"
#include "tool/cpu_shares.h"
#include "tool/measure_session.h"

/*
 * Limits of the share of CPU time. The limit for probes is higher, since somebody chose their
 * places. The lower limit applies to functions and lines, and to all measurements with --stack.
 */
static const double LIMIT_OF_PROBES = 0.5, LIMIT_OF_CODE = 0.2;

static bool is_of_code(const struct measure_request *request)
{
	return measure_request_has_code(request) || request->stack_depth;
}

double measure_limit_of(const struct options *options)
{
	const struct measure_request *request = &options->request;

	if (request->budget > 0 || request->has_no_budget)
		return 0;
	return is_of_code(request) ? LIMIT_OF_CODE : LIMIT_OF_PROBES;
}

/* Return advice on cheaper ways to measure. */
static const char *cheaper_ways(const struct options *options, bool is_inside)
{
	if (options->request.stack_depth)
		return "leave out --stack, name rarer ones, or take `ocaml-probes profile`";
	if (measure_request_has_code(&options->request))
		return "name fewer or rarer ones, or take `ocaml-probes profile`";
	if (!is_inside && !measure_options_need_bpf(options))
		return "take --engine inside, or name rarer probes";
	return "name rarer probes";
}

/* ---- before the attach ---------------------------------------------------------------------- */

enum {
	MANY_PLACES = 1000,
	PARTS = 4,
	PART_NS = 25 * 1000 * 1000,
};

/* From this share on, measuring is refused: the program would run twice as long. */
static const double REFUSED = 0.5;

/* Record the hits within PART_NS. */
static int look_at_part(struct ocp_meter *meter, struct cpu_shares *shares)
{
	const struct timespec a_while = { 0, PART_NS };
	int err = cpu_shares_look(shares, meter);

	if (err)
		return err;
	nanosleep(&a_while, NULL);
	return cpu_shares_look(shares, meter);
}

/* Measure the parts one after another, so that each disturbs the process little. */
static int look_at_parts(struct ocp_meter *meter, struct cpu_shares shares[PARTS])
{
	int err = meter_switch_part(meter, 0, PARTS);

	if (!err)
		err = ocp_meter_attach(meter);
	for (size_t i = 0; !err && i < PARTS; i++) {
		if (i)
			err = meter_switch_part(meter, i, PARTS);
		if (!err)
			err = look_at_part(meter, &shares[i]);
	}
	return err ? err : ocp_meter_detach(meter);
}

/*
 * Return the CPU time that the hits of all parts would take together, for each nanosecond that the
 * program needs for itself. While a part is measured, the program has the CPU time that the hits
 * leave.
 */
static double add_parts(const struct cpu_shares shares[PARTS], const struct ocp_costs *costs)
{
	const double least = 0.01; /* least share of CPU time left to the program */
	double times = 0;

	for (size_t i = 0; i < PARTS; i++) {
		struct cpu_share part;
		double own;

		if (!cpu_shares_total(&shares[i], costs, &part) || cpu_share_is_small(&part))
			continue;
		own = 1 - cpu_share_of(&part);
		times += cpu_share_of(&part) / (own > least ? own : least);
	}
	return times;
}

/* Estimate the share that measuring would take; 0 after an error. */
static double sample_share(const struct options *options, struct ocp_process **procs, size_t n)
{
	struct cpu_shares shares[PARTS] = { 0 };
	/*
	 * Messages go to a separate ctx: the measurement itself reports problems of the processes.
	 */
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_meter *meter = NULL;
	struct ocp_costs costs;
	double times = 0;
	int err = ctx ? measure_open_meter(ctx, options, procs, n, &meter) : -ENOMEM;

	if (!err)
		err = look_at_parts(meter, shares);
	if (!err)
		err = ocp_meter_costs(meter, &costs);
	if (!err)
		times = add_parts(shares, &costs);
	for (size_t i = 0; i < PARTS; i++)
		cpu_shares_free(&shares[i]);
	ocp_meter_free(meter);
	ocp_ctx_free(ctx);
	return times / (1 + times);
}

int measure_limit_sample(const struct measure_session *s, struct ocp_process **procs, size_t n)
{
	const double limit = measure_limit_of(s->options);
	const size_t n_places = ocp_meter_site_count(s->meter);
	char slower[SLOWDOWN_BYTES];
	double share;

	if (!limit || s->options->keep || s->engine.is_inside || n_places < MANY_PLACES ||
	    !s->meter->n_processes)
		return EXIT_DONE;
	share = sample_share(s->options, procs, n);
	if (share <= limit || (share <= REFUSED && s->options->quiet))
		return EXIT_DONE;
	slowdown_text(slower, "it would run", share);
	say("%s: a sample of 0.1 s says that hits of %zu places would take %.0f%% of the program's CPU "
	    "time, the limit is %.0f%%%s%s; cheaper: %s; --budget none lifts the limit",
	    share > REFUSED ? "not measured" : "warning", n_places, 100 * share, 100 * limit,
	    slower[0] ? ": " : "", slower, cheaper_ways(s->options, false));
	return share > REFUSED ? EXIT_OVER_BUDGET : EXIT_DONE;
}

/* ---- while it is measured ------------------------------------------------------------------- */

void measure_limit_say(const struct measure_session *s, const struct cpu_share *share)
{
	const double taken = cpu_share_of(share);
	char slower[SLOWDOWN_BYTES];

	slowdown_text(slower, "it runs", taken);
	say("measuring stopped: pid %d: the hits take %.0f%% of its CPU time, the limit is %.0f%%%s%s; "
	    "cheaper: %s; --budget none lifts the limit",
	    (int)share->pid, 100 * taken, 100 * measure_limit_of(s->options), slower[0] ? ": " : "",
	    slower, cheaper_ways(s->options, s->engine.is_inside));
}
