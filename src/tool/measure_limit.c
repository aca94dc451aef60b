// SPDX-License-Identifier: MIT
/*
 * Record the hits and the CPU time of each process together, ten times per second, and compare them
 * over the last second. The cost of a hit is not known at first; once it is known, it applies to
 * the earlier records, too. The records of a process remain after its end, when its CPU clock is
 * gone.
 */
#include "tool/measure_limit.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "measure/meter.h"
#include "measure/spending.h"
#include "tool/measure_session.h"

enum {
	LOOKS = 16,
	SPAN_NS = 1000 * 1000 * 1000,
	MOST_TIMES = 100,
};

/* Costs below this share of a core count as small, see cpu_share_is_small(). */
static const double LEAST_COST = 0.01;
/* Slowdowns below this factor are not reported. */
static const double LEAST_TOLD = 1.5;

struct look {
	int64_t at_ns, cpu_ns;
	uint64_t hits;
};

struct cpu_process {
	pid_t pid;
	uint64_t child_faults;		 /* child_faults() at the first look; see has_forked() */
	struct look first, looks[LOOKS]; /* look I is at I % LOOKS */
	size_t n_looks;
};

static const struct look *last_look(const struct cpu_process *process)
{
	return &process->looks[(process->n_looks - 1) % LOOKS];
}

/* ---- children ------------------------------------------------------------------------------- */

/* Return the number of page faults of the ended children of PID. Each child has at least one. */
static uint64_t child_faults(pid_t pid)
{
	char path[64], line[1024];
	const char *end;
	uint64_t faults = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* the line is: pid (name) state ppid pgrp session tty_nr tpgid flags minflt cminflt ... */
	end = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	if (end)
		sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %" SCNu64, &faults);
	fclose(file);
	return faults;
}

/* Return true if the thread TID of process PID has forked a child that counts for METER. */
static bool has_counting_child(const struct ocp_meter *meter, pid_t pid, const char *tid)
{
	char path[300];
	bool counts = false;
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, tid);
	file = fopen(path, "re");
	while (file && !counts && fscanf(file, "%d", &child) == 1)
		counts = meter_counts_in(meter, child);
	if (file)
		fclose(file);
	return counts;
}

/*
 * Return true if METER counts hits in a running child that PROCESS has forked, or if PROCESS has
 * waited for an ended child since its first look. The engine `inside` adds the hits of forked
 * children to those of the process, and this sum cannot be compared with the CPU time of the
 * process alone.
 */
static bool has_forked(const struct ocp_meter *meter, const struct cpu_process *process)
{
	const struct dirent *entry;
	char path[64];
	bool has = child_faults(process->pid) != process->child_faults;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)process->pid);
	tasks = has ? NULL : opendir(path);
	while (tasks && !has && (entry = readdir(tasks)))
		has = entry->d_name[0] != '.' &&
		      has_counting_child(meter, process->pid, entry->d_name);
	if (tasks)
		closedir(tasks);
	return has;
}

/* ---- noting --------------------------------------------------------------------------------- */

static void note(struct cpu_process *process, const struct look *look)
{
	process->looks[process->n_looks++ % LOOKS] = *look;
}

static struct cpu_process *find_cpu_process(const struct cpu_shares *shares, pid_t pid)
{
	for (size_t i = 0; i < shares->n; i++)
		if (shares->list[i].pid == pid)
			return &shares->list[i];
	return NULL;
}

static int add_cpu_process(struct cpu_shares *shares, pid_t pid, const struct look *first)
{
	struct cpu_process *new = array_add(shares->list, shares->n);

	if (!new)
		return -ENOMEM;
	*new = (struct cpu_process){ .pid = pid,
				     .first = *first,
				     .child_faults = child_faults(pid) };
	note(new, first);
	return 0;
}

/*
 * Add the current processes before their first hits are read: their CPU time is recorded from now
 * on, not from their start.
 */
static int add_first(struct cpu_shares *shares, int64_t now_ns)
{
	const struct ocp_meter *meter = shares->meter;
	int err = 0;

	for (size_t i = 0; !err && i < meter->n_processes; i++) {
		const pid_t pid = meter->processes[i].tgid;
		const struct look look = { now_ns, clock_process_cpu_ns(pid), 0 };

		if (look.cpu_ns >= 0 && !find_cpu_process(shares, pid))
			err = add_cpu_process(shares, pid, &look);
	}
	return err;
}

static void retire(struct cpu_shares *shares, struct cpu_process *process)
{
	shares->past_hits += last_look(process)->hits - process->first.hits;
	shares->past_cpu_ns += last_look(process)->cpu_ns - process->first.cpu_ns;
	*process = shares->list[--shares->n];
}

/*
 * Record the hits of one process. A process that is not in the list yet has started since the last
 * look.
 */
static int note_hits(struct cpu_shares *shares, const struct spending_process *spent,
		     int64_t now_ns)
{
	struct cpu_process *process = find_cpu_process(shares, spent->pid);
	const struct look look = { now_ns, clock_process_cpu_ns(spent->pid), spent->hits },
			  start = { shares->looked_ns, 0, 0 };
	int err = 0;

	if (look.cpu_ns < 0)
		return 0;
	/* A clock or count has gone back: the process id was reused. */
	if (process &&
	    (look.cpu_ns < last_look(process)->cpu_ns || look.hits < last_look(process)->hits)) {
		retire(shares, process);
		process = NULL;
	}
	if (!process)
		err = add_cpu_process(shares, spent->pid, &start);
	if (!err)
		note(find_cpu_process(shares, spent->pid), &look);
	return err;
}

/* Leave out hits before the first look, since the CPU time was not known then. */
static void begin_shares(struct cpu_shares *shares)
{
	for (size_t i = 0; i < shares->n; i++) {
		struct cpu_process *process = &shares->list[i];

		process->first = *last_look(process);
		process->n_looks = 0;
		note(process, &process->first);
	}
}

/* Record the CPU time of processes without hits, and retire processes that have ended. */
static void note_others(struct cpu_shares *shares, int64_t now_ns)
{
	for (size_t i = shares->n; i-- > 0;) {
		struct cpu_process *process = &shares->list[i];
		struct look look = *last_look(process);

		if (look.at_ns == now_ns)
			continue;
		look.at_ns = now_ns;
		look.cpu_ns = clock_process_cpu_ns(process->pid);
		if (look.cpu_ns < last_look(process)->cpu_ns)
			retire(shares, process);
		else
			note(process, &look);
	}
}

int cpu_shares_look(struct cpu_shares *shares, struct ocp_meter *meter)
{
	const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	const bool is_first = !shares->looked_ns;
	struct spending spending;
	int err = meter_read_spending(meter, &spending);

	shares->meter = meter;
	shares->is_unknown |= !spending.n && spending.sums.all;
	shares->sums = spending.sums;
	if (!err && is_first)
		err = add_first(shares, now_ns);
	for (size_t i = 0; !err && i < spending.n; i++)
		err = note_hits(shares, &spending.processes[i], now_ns);
	if (!err)
		note_others(shares, now_ns);
	if (is_first) {
		shares->began_ns = now_ns;
		begin_shares(shares);
	}
	spending_free(&spending);
	shares->looked_ns = now_ns;
	return err;
}

/* ---- comparing ------------------------------------------------------------------------------ */

double cpu_share_of(const struct cpu_share *share)
{
	if (share->cpu_ns <= 0)
		return 0;
	return share->cost_ns < share->cpu_ns ? share->cost_ns / share->cpu_ns : 1;
}

bool cpu_share_is_small(const struct cpu_share *share)
{
	return share->cost_ns <= LEAST_COST * share->span_ns;
}

/*
 * Return the latest look that is at least a second older than the newest one, or NULL if there is
 * none.
 */
static const struct look *second_ago(const struct cpu_process *process)
{
	const int64_t now_ns = last_look(process)->at_ns;

	for (size_t i = 1; i < LOOKS && i < process->n_looks; i++) {
		const struct look *look = &process->looks[(process->n_looks - 1 - i) % LOOKS];

		if (now_ns - look->at_ns >= SPAN_NS)
			return look;
	}
	return NULL;
}

bool cpu_shares_exceed(const struct cpu_shares *shares, const struct ocp_costs *costs, double most,
		       struct cpu_share *worst)
{
	const double hit_ns = hit_sums_cost_ns(&shares->sums, costs);
	bool exceeds = false;

	for (size_t i = 0; !shares->is_unknown && i < shares->n; i++) {
		const struct cpu_process *process = &shares->list[i];
		const struct look *now = last_look(process), *then = second_ago(process);
		struct cpu_share share;

		if (!then)
			continue;
		share = (struct cpu_share){ .pid = process->pid,
					    .cost_ns = (double)(now->hits - then->hits) * hit_ns,
					    .cpu_ns = (double)(now->cpu_ns - then->cpu_ns),
					    .span_ns = (double)(now->at_ns - then->at_ns) };
		if (share.cost_ns <= most * share.cpu_ns || cpu_share_is_small(&share) ||
		    (exceeds && cpu_share_of(&share) <= cpu_share_of(worst)) ||
		    (meter_is_inside(shares->meter) && has_forked(shares->meter, process)))
			continue;
		*worst = share;
		exceeds = true;
	}
	return exceeds;
}

bool cpu_shares_total(const struct cpu_shares *shares, const struct ocp_costs *costs,
		      struct cpu_share *total)
{
	uint64_t hits = shares->past_hits;
	int64_t cpu_ns = shares->past_cpu_ns;

	for (size_t i = 0; i < shares->n; i++) {
		const struct cpu_process *process = &shares->list[i];

		hits += last_look(process)->hits - process->first.hits;
		cpu_ns += last_look(process)->cpu_ns - process->first.cpu_ns;
		if (meter_is_inside(shares->meter) && has_forked(shares->meter, process))
			return false;
	}
	*total = (struct cpu_share){
		.cost_ns = (double)hits * hit_sums_cost_ns(&shares->sums, costs),
		.cpu_ns = (double)cpu_ns,
		.span_ns = (double)(shares->looked_ns - shares->began_ns),
	};
	return !shares->is_unknown && cpu_ns > 0;
}

const char *slowdown_text(char text[SLOWDOWN_BYTES], const char *runs, double share)
{
	const double times = share < 1 ? 1 / (1 - share) : MOST_TIMES;

	if (times >= MOST_TIMES)
		snprintf(text, SLOWDOWN_BYTES, "%s more than %d times slower", runs, MOST_TIMES);
	else if (times >= LEAST_TOLD)
		snprintf(text, SLOWDOWN_BYTES, "%s at least %.*f times slower", runs, times < 10,
			 times);
	else
		text[0] = '\0';
	return text;
}

const char *share_text(char text[SHARE_BYTES], const struct cpu_share *share)
{
	const double its = share ? cpu_share_of(share) : 0;
	char slower[SLOWDOWN_BYTES];

	text[0] = '\0';
	if (share)
		snprintf(text, SHARE_BYTES, ", %.2f%% of the program's CPU time%s%s", 100 * its,
			 *slowdown_text(slower, "it runs", its) ? ": " : "", slower);
	return text;
}

void cpu_shares_free(struct cpu_shares *shares)
{
	free(shares->list);
	*shares = (struct cpu_shares){ 0 };
}

/* ---- the limit ------------------------------------------------------------------------------ */

/*
 * Limits of the share of CPU time. The limit for probes is higher, since the authors of the program
 * have chosen the places of the probes. The lower limit applies to functions and lines, and to all
 * measurements with --stack.
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
		return "leave out --stack, name rarer events, or use `ocaml-probes profile`";
	if (measure_request_has_code(&options->request))
		return "name fewer or rarer events, or use `ocaml-probes profile`";
	if (!is_inside && !measure_options_need_bpf(options))
		return "use --engine inside, or name rarer probes";
	return "name rarer probes";
}

/* ---- before the attach ---------------------------------------------------------------------- */

enum {
	MANY_PLACES = 1000,
	PARTS = 4,
	PART_NS = 25 * 1000 * 1000,
};

/* Above this share, measuring is refused: the program would run more than twice as long. */
static const double REFUSED = 0.5;

/* Record the hits of the part that is switched on now, over a time of PART_NS. */
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
 * Return the CPU time that the hits of all parts would take together, divided by the CPU time of
 * the program without hits. For one part, this quotient is S / (1 - S), where S is the share of the
 * hits in the CPU time.
 */
static double add_parts(const struct cpu_shares shares[PARTS], const struct ocp_costs *costs)
{
	/* assume that at least this share of the CPU time is left to the program */
	const double least = 0.01;
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
