// SPDX-License-Identifier: MIT
/*
 * Carry out a measurement for the command line: attach, wait for the time limit, a signal or the
 * end of the processes, detach, and write the exact totals.
 *
 * Every event that can end the session is a descriptor, set up before the attach. So no signal
 * interrupts the time between attach and detach, except SIGKILL. After SIGKILL the kernel detaches;
 * but with the engine `inside`, the process continues to count.
 */
#include "tool/measure_session.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "change/inside/inside.h"
#include "look/proc_file.h"
#include "measure/meter.h"
#include "measure/slower.h"
#include "measure/spending.h"
#include "measure/stacks.h"
#include "tool/measure_asserts.h"
#include "tool/measure_limit.h"
#include "tool/writer.h"

enum {
	PROGRESS_NS = 500 * 1000 * 1000,
	REFRESH_NS = 100 * 1000 * 1000, /* time between two searches for plugins */
	/* time between two searches for processes and plugins, with --exe */
	REFRESH_ALL_NS = 500 * 1000 * 1000,
	BUDGET_NS = 100 * 1000 * 1000, /* time between two checks of the budget */
	PRINT_NS = 20 * 1000 * 1000,   /* the longest delay of a printed hit */
};

/* ---- the engine ----------------------------------------------------------------------------- */

/*
 * Choose the engine of a measurement. BPF disturbs the process least at attach and detach, and
 * needs no code inside the process, but each hit costs a trap. So `auto` chooses BPF if BPF is
 * permitted and hits are few. To find out, it measures with BPF for a moment; this trial ends
 * before the measurement that the user requested begins, so every hit is counted once. If the hits
 * will be caused by a command that the tool starts, a trial is not possible. In this case `auto`
 * chooses `inside`, where many hits cost little.
 */
enum { LOOK_NS = 100 * 1000 * 1000 };

/* The budget of --engine auto without --budget: a share of one core. */
static const double AUTO_BUDGET = 0.05;

static void give_reason(struct chosen_engine *chosen, bool is_inside, const char *before,
			const char *reason)
{
	chosen->is_inside = is_inside;
	snprintf(chosen->reason, sizeof(chosen->reason), "%s%s", before, reason);
}

/*
 * Create and open the meter that OPTIONS describe, with the engine `inside` if IS_INSIDE, otherwise
 * with BPF.
 */
static int open_trial_meter(const struct options *options, struct ocp_process **procs, size_t n,
			    bool is_inside, struct ocp_meter **meter)
{
	int err = 0;

	*meter = ocp_meter_new(options->ctx);
	if (!*meter)
		return -ENOMEM;
	if (is_inside)
		meter_use_inside(*meter);
	meter_count_processes(*meter);
	for (size_t i = 0; !err && i < n; i++)
		err = ocp_meter_add_process(*meter, procs[i]);
	if (!err)
		err = measure_request_apply(&options->request, *meter);
	return err ? err : ocp_meter_open(*meter);
}

/*
 * Check that the engine `inside` can count the processes. Return -ENOTSUP, with the reason in the
 * ctx, if it cannot. Set *N_PAIRS to the number of pairs and functions that are to be timed.
 */
static int check_inside(const struct options *options, struct ocp_process **procs, size_t n,
			size_t *n_pairs)
{
	struct ocp_meter *meter;
	int err = open_trial_meter(options, procs, n, true, &meter);

	if (!err)
		err = meter_check_all_inside(meter);
	*n_pairs = err ? 0 : meter->request.n_pairs;
	ocp_meter_free(meter);
	for (size_t i = 0; !err && i < n; i++)
		err = inside_check(options->ctx, ocp_process_pid(procs[i]),
				   measure_request_has_pairs(&options->request));
	return err;
}

/* What hits cost by BPF, for the choice of --engine auto. */
struct hit_costs {
	double rate;		   /* hits per second */
	double share;		   /* their cost as a share of a core */
	struct cpu_share programs; /* their cost as a share of the CPU time of all processes */
};

/* Let METER, which is open, measure for LOOK_NS. SHARES get the hits and CPU times of this time. */
static int look_for_a_while(struct ocp_meter *meter, struct cpu_shares *shares)
{
	const struct timespec a_while = { 0, LOOK_NS };
	int err = ocp_meter_attach(meter);

	if (!err)
		err = cpu_shares_look(shares, meter);
	if (!err) {
		nanosleep(&a_while, NULL);
		err = cpu_shares_look(shares, meter);
	}
	return err ? err : ocp_meter_detach(meter);
}

/* Measure with BPF for LOOK_NS. */
static int measure_hit_costs(const struct options *options, struct ocp_process **procs, size_t n,
			     struct hit_costs *hits)
{
	struct cpu_shares shares = { 0 };
	struct ocp_sample *sample = NULL;
	struct ocp_costs costs;
	struct ocp_meter *meter;
	int err = open_trial_meter(options, procs, n, false, &meter);

	if (!err)
		err = look_for_a_while(meter, &shares);
	if (!err)
		err = ocp_meter_read(meter, &sample);
	if (!err)
		err = ocp_meter_costs(meter, &costs);
	if (!err) {
		hits->rate = (double)ocp_sample_all_hits(sample) * 1e9 /
			     (double)ocp_sample_time_ns(sample);
		hits->share = hits->rate * ocp_sample_cost_per_hit_ns(sample, &costs) / 1e9;
		if (!cpu_shares_total(&shares, &costs, &hits->programs))
			hits->programs = (struct cpu_share){ 0 };
	}
	cpu_shares_free(&shares);
	ocp_sample_free(sample);
	ocp_meter_free(meter);
	return err;
}

/*
 * Check the assertions with a meter that is only opened, if the choice of the engine will measure
 * before the meter of the session is open.
 */
static int check_asserts_first(const struct options *options, struct ocp_process **procs, size_t n)
{
	struct ocp_meter *meter;
	int err;

	if (!options->n_asserts || options->engine != ENGINE_AUTO || options->exe)
		return 0;
	err = open_trial_meter(options, procs, n, meter_lacks_bpf(options->ctx), &meter);
	/* Another error is that of the session, too, or of the other engine. */
	err = err ? 0 : asserts_check(options, meter);
	ocp_meter_free(meter);
	return err;
}

/* Return true if measuring with BPF would end at the limit of the share of CPU time. */
static bool is_over_limit(const struct options *options, const struct cpu_share *share)
{
	const double limit = measure_limit_of(options);

	return limit && cpu_share_of(share) > limit && !cpu_share_is_small(share);
}

static void compare_costs(const struct options *options, struct ocp_process **procs, size_t n,
			  struct chosen_engine *chosen)
{
	const double asked = options->request.budget;
	const double budget = asked > 0 ? asked : AUTO_BUDGET;
	struct hit_costs hits = { 0 };
	int err = measure_hit_costs(options, procs, n, &hits);

	if (err == -ENOTSUP || err == -EPERM || err == -EACCES)
		give_reason(chosen, true, "BPF fails: ", ocp_error(options->ctx));
	if (err)
		return;
	chosen->is_inside = hits.share > budget;
	if (!chosen->is_inside && is_over_limit(options, &hits.programs)) {
		chosen->is_inside = true;
		snprintf(
			chosen->reason, sizeof(chosen->reason),
			"%.0f hits/s take %.0f%% of the program's CPU time with BPF, more than the "
			"limit of %.0f%%",
			hits.rate, 100 * cpu_share_of(&hits.programs),
			100 * measure_limit_of(options));
		return;
	}
	snprintf(chosen->reason, sizeof(chosen->reason),
		 "%.0f hits/s take %.2f%% of a core with BPF, %s the budget of %g%%", hits.rate,
		 100 * hits.share, chosen->is_inside ? "more than" : "within", 100 * budget);
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

/* Choose `inside`: BPF cannot time N_PAIRS functions. */
static void choose_for_many_pairs(size_t n_pairs, struct chosen_engine *chosen)
{
	chosen->is_inside = true;
	snprintf(chosen->reason, sizeof(chosen->reason),
		 "BPF times at most %d of the %zu functions", METER_MAX_PAIRS, n_pairs);
}

static void choose_by_cost(const struct options *options, struct ocp_process **procs, size_t n,
			   struct chosen_engine *chosen)
{
	const char *need = measure_options_need_bpf(options);
	size_t n_pairs = 0;
	int err = 0;

	if (need)
		give_reason(chosen, false, "inside excludes ", need);
	else if (ocp_meter_check(options->ctx))
		give_reason(chosen, true, "BPF is not available: ", ocp_error(options->ctx));
	else if (measure_request_counts_c(&options->request))
		/* A uprobe of another tool would be dangerous: see tell_of_entries(). */
		give_reason(chosen, false, "", "inside would replace the first instructions of c:");
	else
		err = check_inside(options, procs, n, &n_pairs);
	if (err == -ENOTSUP)
		give_reason(chosen, false, "inside is not possible: ", ocp_error(options->ctx));
	else if (n_pairs > METER_MAX_PAIRS)
		choose_for_many_pairs(n_pairs, chosen);
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
	size_t n_pairs;

	if (measure_options_need_bpf(options) || options->exe || !meter_lacks_bpf(options->ctx))
		return;
	give_reason(chosen, true, "BPF is not available: ", ocp_error(options->ctx));
	if (check_inside(options, procs, n, &n_pairs))
		*chosen = (struct chosen_engine){ 0 };
}

/*
 * Choose the engine that measures the N processes PROCS, according to OPTIONS. `auto` may first
 * measure with BPF for a tenth of a second, and detach again; it does not do so if a command will
 * cause the hits, since the command starts later. Without --engine, the engine is BPF, or `inside`
 * if BPF is not permitted and `inside` supports the request. Print the engine and the reason,
 * unless -quiet is set or the reason is empty.
 */
static void choose_engine(const struct options *options, struct ocp_process **procs, size_t n,
			  struct chosen_engine *chosen)
{
	*chosen = (struct chosen_engine){ .is_inside = options->engine == ENGINE_INSIDE };
	ctx_pause_log(options->ctx, true);
	if (options->engine == ENGINE_DEFAULT)
		choose_default(options, procs, n, chosen);
	else if (options->engine == ENGINE_AUTO)
		choose_by_cost(options, procs, n, chosen);
	ctx_pause_log(options->ctx, false);
	/*
	 * If the choice has failed with an error, the reason is empty, and nothing is printed here:
	 * the measurement, which is started anyway, reports the error.
	 */
	if (!options->quiet && chosen->reason[0])
		say("engine: %s, since %s", chosen->is_inside ? "inside" : "bpf", chosen->reason);
}

/* ---- a program that the tool starts --------------------------------------------------------- */

void measure_choose_for_program(struct options *options)
{
	const bool is_auto = options->engine == ENGINE_AUTO,
		   is_inside = !measure_options_need_bpf(options) && meter_lacks_bpf(options->ctx);

	if (options->engine != ENGINE_DEFAULT && !is_auto)
		return;
	options->engine = is_inside ? ENGINE_INSIDE : ENGINE_BPF;
	if (options->quiet)
		return;
	if (is_inside)
		say("engine: inside, since BPF is not available: %s", ocp_error(options->ctx));
	else if (is_auto)
		say("engine: bpf, since the hits of a program that has not begun are not known");
}

int measure_check_program(const struct options *options)
{
	uint64_t base;
	int err;

	if (options->engine != ENGINE_INSIDE)
		return 0;
	err = auxv_read(options->ctx, options->pid, AT_BASE, &base);
	if (err || base)
		return err;
	ctx_error(options->ctx, -ENOTSUP,
		  "'%s': is linked statically, and cannot be counted inside from its start",
		  options->prog);
	ctx_hint(options->ctx, "start it, then use `attach -pid PID --engine inside`");
	return -ENOTSUP;
}

/* ---- arguments without a value -------------------------------------------------------------- */

static bool is_noted(const struct unread_args *args, const char *probe, size_t arg)
{
	for (size_t i = 0; i < args->n; i++)
		if (args->list[i].arg == arg && strcmp(args->list[i].probe, probe) == 0)
			return true;
	return false;
}

static int note_unread(struct unread_args *args, const struct ocp_meter *meter,
		       const struct ocp_hit *hit, size_t arg)
{
	struct unread_arg *new = array_add(args->list, args->n);

	if (!new)
		return -ENOMEM;
	*new = (struct unread_arg){ strdup(hit->probe), meter_why_unread(meter, hit, arg), arg };
	if (new->probe &&new->why)
		return 0;
	free(new->probe);
	free(new->why);
	args->n--;
	return -ENOMEM;
}

/* Record the arguments without a value in HIT, a hit of METER. Returns 0 or -ENOMEM. */
static int unread_args_note(struct unread_args *args, const struct ocp_meter *meter,
			    const struct ocp_hit *hit)
{
	int err = 0;

	for (size_t i = 0; !err && i < hit->n_args; i++)
		if (ocp_hit_arg(hit, i).kind == OCP_UNSUPPORTED && !is_noted(args, hit->probe, i))
			err = note_unread(args, meter, hit, i);
	return err;
}

/* Print a line for each recorded argument to stderr. */
static void unread_args_say(const struct unread_args *args)
{
	for (size_t i = 0; i < args->n; i++)
		say("%s: ? is arg%zu, %s", args->list[i].probe, args->list[i].arg,
		    args->list[i].why);
}

static void unread_args_free(struct unread_args *args)
{
	for (size_t i = 0; i < args->n; i++) {
		free(args->list[i].probe);
		free(args->list[i].why);
	}
	free(args->list);
	*args = (struct unread_args){ 0 };
}

/* ---- timed events --------------------------------------------------------------------------- */

static int read_sample(struct measure_session *s, struct ocp_sample **sample)
{
	s->err = ocp_meter_read(s->meter, sample);
	return s->err;
}

static void end_progress(struct measure_session *s)
{
	if (s->line_open)
		fputs("\r\033[K", stderr);
	s->line_open = false;
}

static enum ending show_progress(void *data)
{
	struct measure_session *s = data;
	struct ocp_sample *sample;

	if (read_sample(s, &sample))
		return ENDED_BY_ERROR;
	fprintf(stderr, "\r\033[K%.1f s: %" PRIu64 " hits",
		(double)ocp_sample_time_ns(sample) / 1e9, ocp_sample_all_hits(sample));
	fflush(stderr);
	s->line_open = true;
	ocp_sample_free(sample);
	return NOT_ENDED;
}

/*
 * Return the time of day at AT_NS after the start. If somebody has set the clock since then, the
 * result is the time that the clock would have shown with its present setting.
 */
static int64_t day_time(const struct measure_session *s, int64_t at_ns)
{
	return clock_ns(CLOCK_REALTIME) - session_now_ns() + meter_start_ns(s->meter) + at_ns;
}

/* Return the time of day at AT_NS if the user requested it, else 0. */
static int64_t wall_time(const struct measure_session *s, int64_t at_ns)
{
	return s->options->time_of_day ? day_time(s, at_ns) : 0;
}

static void write_report(struct measure_session *s, const struct ocp_sample *sample, int64_t at_ns,
			 bool is_total, const struct stack_rows *stacks)
{
	struct cpu_share share;
	const bool has_share =
		is_total && !s->lacks_costs && cpu_shares_total(&s->shares, &s->costs, &share);
	const struct report report = {
		.sample = sample,
		.at_ns = at_ns,
		.is_total = is_total,
		.is_first = !s->has_written,
		.split = s->options->request.split,
		.view = &s->options->view,
		.counted = &s->options->request.counted,
		.wall_ns = wall_time(s, at_ns),
		.costs = &s->costs,
		.share = has_share ? &share : NULL,
		.engine = s->engine.is_inside ? "inside" : "bpf",
		.engine_reason = s->engine.reason[0] ? s->engine.reason : NULL,
		.prints = s->options->request.printed.n != 0,
		.n_printed = s->n_printed,
		.has_slow = s->options->request.has_slower,
		.is_outermost = s->options->request.is_outermost,
		.n_slow = s->n_slow,
		.stacks = stacks,
		.data = s->writer_data,
	};

	if (s->take && !s->options->json)
		return;
	s->has_written = true;
	s->writer->write(&report);
}

/*
 * Return true if standard output is closed or the disk is full. main() reports the error, unless
 * SIGPIPE ends the process.
 */
static bool is_output_lost(void)
{
	return fflush(stdout) != 0 || ferror(stdout);
}

static enum ending write_interval(void *data)
{
	struct measure_session *s = data;
	struct ocp_sample *now, *since = NULL;

	if (read_sample(s, &now))
		return ENDED_BY_ERROR;
	if (s->last)
		s->err = ocp_sample_difference(now, s->last, &since);
	if (!s->err)
		write_report(s, since ? since : now, ocp_sample_time_ns(now), false, NULL);
	ocp_sample_free(since);
	ocp_sample_free(s->last);
	s->last = now;
	if (s->err)
		return ENDED_BY_ERROR;
	return is_output_lost() ? ENDED_BY_SIGNAL : NOT_ENDED;
}

static void print_slow(struct measure_session *s, const struct slow_pair *pair)
{
	if (unread_args_note(&s->unread, s->meter, pair->stop_hit) ||
	    (pair->start_hit && unread_args_note(&s->unread, s->meter, pair->start_hit)))
		s->print_err = -ENOMEM;
	end_progress(s);
	s->writer->write_slow(pair, day_time(s, pair->stop_hit->time_ns));
	s->has_written = true;
	s->n_slow++;
}

static void print_hit(void *data, const struct ocp_hit *hit)
{
	struct measure_session *s = data;
	const bool has_stack = s->options->request.stack_depth != 0;
	const struct slow_pair *slow = slow_pair_of(hit);
	struct named_frames frames = { 0 };

	if (slow) {
		print_slow(s, slow);
		return;
	}
	/* Print the hit even if some frames have no names. */
	if (has_stack && meter_name_hit(s->meter, hit, &frames))
		s->print_err = -ENOMEM;
	if (unread_args_note(&s->unread, s->meter, hit))
		s->print_err = -ENOMEM;
	end_progress(s);
	s->writer->write_hit(hit, has_stack ? &frames : NULL, wall_time(s, hit->time_ns),
			     !s->has_written);
	free(frames.list);
	s->has_written = true;
	s->n_printed++;
}

/* Return true if hits or pairs are to be printed one by one. */
static bool has_records(const struct measure_session *s)
{
	return s->options->request.printed.n || s->options->request.has_slower;
}

static enum ending print_hits(void *data)
{
	struct measure_session *s = data;
	const uint64_t n_before = s->n_printed + s->n_slow;

	s->err = s->take ? ocp_meter_take_hits(s->meter, s->take, s->taker)
			 : ocp_meter_take_hits(s->meter, print_hit, s);
	if (!s->err)
		s->err = s->print_err;
	if (s->err)
		return ENDED_BY_ERROR;
	if (s->take)
		return s->after_hits(s->taker);
	if (s->n_printed + s->n_slow != n_before && is_output_lost())
		return ENDED_BY_SIGNAL;
	return NOT_ENDED;
}

static enum ending refresh(void *data)
{
	struct measure_session *s = data;
	size_t n_new;

	s->err = ocp_meter_refresh(s->meter, &n_new);
	/*
	 * -ESTALE: a file was overwritten. The counts up to now are valid, so end the session, but
	 * print them.
	 */
	if (s->err == -ESTALE) {
		s->is_stale = true;
		end_progress(s);
		say_error(s->options->ctx, s->err);
		return ENDED_BY_TIME;
	}
	if (s->err)
		return ENDED_BY_ERROR;
	if (n_new && !s->options->quiet) {
		end_progress(s);
		say("now measuring %zu more site%s, of newly loaded files", n_new, plural(n_new));
	}
	return NOT_ENDED;
}

static int find_costs(struct measure_session *s)
{
	int err = s->has_costs ? 0 : ocp_meter_costs(s->meter, &s->costs);

	s->has_costs = true;
	s->lacks_costs |= err != 0;
	return err;
}

/*
 * Check the budget. The first call waits for the cost per hit, until about 100 ms after the attach.
 */
static enum ending check_budget(void *data)
{
	struct measure_session *s = data;
	struct ocp_sample *sample;
	double share;

	s->err = find_costs(s);
	if (s->err || read_sample(s, &sample))
		return ENDED_BY_ERROR;
	share = report_cost(&(struct report){ .sample = sample, .costs = &s->costs });
	ocp_sample_free(sample);
	if (share <= s->options->request.budget)
		return NOT_ENDED;
	s->is_over_budget = true;
	end_progress(s);
	say("measuring stopped: CPU overhead %.2f%% exceeds the budget of %g%%", 100 * share,
	    100 * s->options->request.budget);
	return ENDED_BY_TIME;
}

/* Record the hits and CPU time of the processes up to now. */
static enum ending look_at_shares(struct measure_session *s)
{
	s->err = cpu_shares_look(&s->shares, s->meter);
	return s->err ? ENDED_BY_ERROR : NOT_ENDED;
}

/*
 * Check the limit, without waiting for the cost of a hit. As soon as the cost is known, the hits of
 * the last second are checked, including hits that were recorded before it was known.
 */
static enum ending check_limit(void *data)
{
	struct measure_session *s = data;
	const double limit = s->has_limit ? measure_limit_of(s->options) : 0;
	struct cpu_share share = { 0 };
	struct ocp_costs costs;

	if (look_at_shares(s))
		return ENDED_BY_ERROR;
	if (!limit || !meter_costs_so_far(s->meter, &costs) ||
	    !cpu_shares_exceed(&s->shares, &costs, limit, &share))
		return NOT_ENDED;
	s->is_over_budget = true;
	end_progress(s);
	measure_limit_say(s, &share);
	return ENDED_BY_TIME;
}

/* ---- the session ---------------------------------------------------------------------------- */

static enum ending measure_until_end(struct measure_session *s, struct session *session)
{
	const struct options *o = s->options;
	struct session_timer timers[] = {
		session_every(s->start_ns, has_records(s) ? PRINT_NS : 0, print_hits),
		session_every(s->start_ns, o->interval_ns, write_interval),
		session_every(s->start_ns, o->for_ns, NULL),
		session_every(s->start_ns, s->progress ? PROGRESS_NS : 0, show_progress),
		session_every(s->start_ns, o->exe ? REFRESH_ALL_NS : REFRESH_NS, refresh),
		session_every(s->start_ns, o->request.budget > 0 ? BUDGET_NS : 0, check_budget),
		session_every(s->start_ns, BUDGET_NS, check_limit),
	};

	return session_run(session, &(struct session_events){
					    .timers = timers,
					    .n_timers = sizeof(timers) / sizeof(timers[0]),
					    .data = s,
				    });
}

static int finish_measuring(struct measure_session *s)
{
	struct ocp_sample *sample = NULL;
	struct stack_rows stacks = { 0 };
	const bool has_stacks = s->options->request.stack_depth != 0;
	int code = EXIT_DONE;

	/* If this fails, the share that is reported is the share at the previous call. */
	look_at_shares(s);
	if (s->take)
		s->err = s->before_detach(s->taker);
	if (!s->err)
		s->err = ocp_meter_detach(s->meter);
	if (!s->err && has_records(s))
		print_hits(s);
	if (!s->err && meter_remained_foreign(s->meter)) {
		say("%s: not an OCaml program, and it has loaded no file with probes",
		    s->options->prog);
		return EXIT_FAILED;
	}
	/* If the costs cannot be found, only warn: the counts are valid without them. */
	if (!s->err && find_costs(s) && !s->options->quiet)
		say("warning: %s", ocp_error(s->options->ctx));
	if (s->err || read_sample(s, &sample))
		return say_error(s->options->ctx, s->err);
	if (has_stacks || s->options->request.is_outermost)
		s->err = meter_read_stacks(s->meter, &stacks);
	if (stacks.unknown_calls)
		say("warning: %" PRIu64 " call%s not counted: the stack lacks callers, so it is "
		    "unknown whether the call is outermost",
		    stacks.unknown_calls, stacks.unknown_calls == 1 ? " is" : "s are");
	if (!s->err)
		write_report(s, sample, ocp_sample_time_ns(sample), true,
			     has_stacks ? &stacks : NULL);
	if (!s->err)
		code = asserts_report(s->options, sample);
	stack_rows_free(&stacks);
	ocp_sample_free(sample);
	if (s->err)
		return say_error(s->options->ctx, s->err);
	if (!s->options->quiet)
		unread_args_say(&s->unread);
	if (s->is_stale)
		return EXIT_FAILED;
	return s->is_over_budget ? EXIT_OVER_BUDGET : code;
}

/* Add the program or the processes that OPTIONS name to METER. */
static int fill_meter(const struct options *options, struct ocp_process **procs, size_t n,
		      struct ocp_meter *meter)
{
	int err = 0;

	if (!options->keep)
		meter_count_processes(meter);
	if (options->exe)
		err = ocp_meter_add_program(meter, options->exe);
	for (size_t i = 0; !err && !options->exe && i < n; i++)
		err = ocp_meter_add_process(meter, procs[i]);
	return err;
}

int measure_open_meter(struct ocp_ctx *ctx, const struct options *options,
		       struct ocp_process **procs, size_t n, struct ocp_meter **meter)
{
	int err;

	*meter = ocp_meter_new(ctx);
	if (!*meter)
		return -ENOMEM;
	err = fill_meter(options, procs, n, *meter);
	if (!err)
		err = measure_request_apply(&options->request, *meter);
	return err ? err : ocp_meter_open(*meter);
}

static int prepare_meter(struct measure_session *s, struct ocp_process **procs, size_t n)
{
	const struct options *options = s->options;
	int err = check_asserts_first(options, procs, n);

	if (err)
		return err;
	s->meter = ocp_meter_new(options->ctx);
	if (!s->meter)
		return -ENOMEM;
	choose_engine(options, procs, n, &s->engine);
	if (s->engine.is_inside)
		meter_use_inside(s->meter);
	if (!options->quiet)
		ocp_meter_expect_estimate(s->meter);
	err = fill_meter(options, procs, n, s->meter);
	if (!err && options->keep)
		err = s->engine.is_inside ? meter_name_inside(s->meter, options->keep)
					  : ocp_pinned_check(options->ctx, options->keep);
	if (!err)
		err = measure_request_apply(&options->request, s->meter);
	/*
	 * Do not require OCaml now from a program that is just starting: it has not loaded its
	 * libraries.
	 */
	meter_need_ocaml(s->meter, options->prog ? METER_NOT_BYTECODE : METER_OCAML_NOW);
	if (!err)
		err = ocp_meter_open(s->meter);
	return err ? err : asserts_check(options, s->meter);
}

int measure_find_processes(struct options *options)
{
	const bool quiet = options->quiet;
	pid_t *pids;
	size_t n;
	int code = EXIT_DONE, err;

	/*
	 * If something is to be measured, be quiet here: the meter searches, too, and then warns of
	 * the processes that it cannot inspect.
	 */
	options->quiet = quiet || options_measure(options);
	err = ocp_find_processes(options->ctx, options->exe, &pids, &n);
	options->quiet = quiet;
	/* Continue even if no process runs the file yet: processes may start later. */
	if (err == -ESRCH && options_measure(options) && !options->actions_flag)
		return EXIT_DONE;
	if (err)
		return say_error(options->ctx, err);
	for (size_t i = 0; code == EXIT_DONE && i < n; i++)
		code = options_add_pid(options, pids[i]);
	free(pids);
	return code;
}

int measure_prepare(struct measure_session *s, struct options *options, struct ocp_process **procs,
		    size_t n)
{
	*s = (struct measure_session){
		.options = options,
		.progress = isatty(STDERR_FILENO) && !options->quiet && !options->interval_ns,
		.writer = options->json	 ? &json_writer
			  : options->csv ? &csv_writer
					 : &table_writer,
	};
	return prepare_meter(s, procs, n);
}

int measure_open(struct measure_session *s, struct options *options, struct ocp_process **procs,
		 size_t n)
{
	int err = measure_prepare(s, options, procs, n);

	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

/* Print the estimated cost of the hits, before the attach. */
static void say_estimate(struct measure_session *s)
{
	struct ocp_estimate estimate;
	char text[OCP_ESTIMATE_BYTES];

	if (ocp_meter_estimate(s->meter, &estimate) == 0 && ocp_estimate_text(&estimate, text))
		say("%s", text);
}

/*
 * Say what joins a start to its stop (an argument or the thread), if the user has not chosen that.
 */
static void say_matching(struct measure_session *s)
{
	char *keys = meter_keys_text(s->meter), *threads = meter_threads_text(s->meter);

	if (keys)
		say("%s", keys);
	if (threads)
		say("warning: %s", threads);
	free(keys);
	free(threads);
}

int measure_attach(struct measure_session *s)
{
	const struct options *options = s->options;
	size_t n_asked, n_probes, n_sites;
	char whose[64];
	int err;

	if (!options->quiet)
		say_estimate(s);
	/* Start the calibration now: the limit needs the cost of a hit within a second. */
	if (s->has_limit && measure_limit_of(options))
		meter_start_calibration(s->meter);
	err = ocp_meter_attach(s->meter);
	if (err)
		return say_error(options->ctx, err);
	progress_end();
	s->start_ns = session_now_ns();
	if (!options->keep && look_at_shares(s) != NOT_ENDED) {
		ocp_meter_detach(s->meter);
		return say_error(options->ctx, s->err);
	}
	if (options->quiet)
		return EXIT_DONE;
	say_matching(s);
	n_asked = ocp_meter_process_count(s->meter);
	n_probes = ocp_meter_probe_count(s->meter);
	n_sites = ocp_meter_site_count(s->meter);
	if (options->exe)
		snprintf(whose, sizeof(whose), "every process that runs it%s",
			 options->n_pids ? "" : " (none now; waiting)");
	else if (n_asked == 1)
		snprintf(whose, sizeof(whose), "pid %d", (int)options->pid);
	else if (meter_n_counted(s->meter) < n_asked)
		snprintf(whose, sizeof(whose), "%zu of %zu processes", meter_n_counted(s->meter),
			 n_asked);
	else
		snprintf(whose, sizeof(whose), "%zu processes", n_asked);
	say("%s %zu %s%s (%zu %s%s) of %s",
	    measure_request_has_pairs(&options->request) || options->request.printed.n ? "measuring"
										       : "counting",
	    n_probes, s->has_lines ? "line" : "probe", plural(n_probes), n_sites,
	    s->has_lines ? "place" : "site", plural(n_sites), whose);
	return EXIT_DONE;
}

static void say_ended(const struct options *options)
{
	if (options->quiet)
		return;
	if (options->n_pids == 1)
		say("pid %d has ended", (int)options->pid);
	else
		say("all %zu processes have ended", options->n_pids);
}

/* Return true if the session had processes, and all of them have ended before the command. */
static bool has_outlived(const struct session *session)
{
	return session->n_fds > 1 && session->n_alive == 0;
}

int measure_wait(struct measure_session *s, struct session *session)
{
	enum ending ending = measure_until_end(s, session);

	end_progress(s);
	if (ending == ENDED_BY_ERROR) {
		ocp_meter_detach(s->meter);
		return session->err ? EXIT_FAILED : say_error(s->options->ctx, s->err);
	}
	if (ending == ENDED_WITH_PROCESS || (ending == ENDED_WITH_COMMAND && has_outlived(session)))
		say_ended(s->options);
	return finish_measuring(s);
}

int measure_keep(struct measure_session *s)
{
	const struct options *options = s->options;
	int err = ocp_meter_pin(s->meter, options->keep);

	if (err)
		return say_error(options->ctx, err);
	if (!options->quiet)
		say("kept: ocaml-probes read %s | ocaml-probes detach %s", options->keep,
		    options->keep);
	return EXIT_DONE;
}

void measure_close(struct measure_session *s)
{
	ocp_sample_free(s->last);
	unread_args_free(&s->unread);
	cpu_shares_free(&s->shares);
	ocp_meter_free(s->meter);
}
