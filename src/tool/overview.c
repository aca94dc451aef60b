// SPDX-License-Identifier: MIT
/*
 * Measure what `report` prints. Each part has its own ctx: if it cannot be measured, its message is
 * the reason that the report gives, and the other parts are measured nevertheless.
 *
 * All parts together may cost the process 1 % of a core, on average over the time of the report.
 * Each part that costs time has a share of this budget, and ends when it has used up its share. So
 * none of the parts can leave nothing to another one.
 */
#include "tool/overview.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "cli/session.h"
#include "look/proc_file.h"
#include "measure/calibrate.h"
#include "measure/meter.h"
#include "memprof/session.h"
#include "process/process_kind.h"
#include "tool/likely_pairs.h"
#include "tool/measure_session.h"

enum {
	/* Samples per second and CPU by BPF, and per second and thread by ptrace. */
	BPF_HZ = 99,
	STOPS_HZ = 49,
	MOST_LOOKS = 4000, /* at threads that wait, a second */
	/* The time between two searches for loaded code. */
	RENEW_NS = 100 * 1000 * 1000,
	/*
	 * What a uprobe is taken to cost until that was measured, which takes some 100 ms: more
	 * than on the machines that we know.
	 */
	ASSUMED_NS = 5000,
	ASSUMED_STEPPED_NS = 25000,
};

/*
 * If counting takes a larger part of the program's CPU time than this, the program runs 1.5 times
 * slower.
 */
static const double SLOWED = 1.0 / 3;

/* The budget, as a share of a core. */
static const double BUDGET = 0.01;

/*
 * The parts of the budget. The rest is for what is measured between two checks. Waits cost nothing,
 * see describe_sampler(). If the program has no probes, their part is for allocation.
 */
static const double CPU_PART = 0.4, WORDS_PART = 0.2, HITS_PART = 0.3;

/*
 * A profiler and its error messages. A CPU profile pauses whenever it is ahead of its budget, so
 * that its samples are of all of the time. An allocation profile cannot pause: it ends when its
 * budget is used up.
 */
struct overview_sampler {
	struct ocp_ctx *ctx;
	struct profiler_spec spec;
	struct profiler *profiler; /* NULL: not measured */
	struct frame_names *names;
	struct calibration *calibration; /* only for PROFILE_WORDS */
	struct overview_why why;
	double budget; /* as a share of a core */
	double cost_ns;
	bool is_over_budget; /* it has ended */
	bool is_paused;
	int64_t sampled_ns; /* how long it has sampled before the last start */
	int64_t started_ns; /* the time of the last start */
	struct overview_profile result;
};

struct overview_meters {
	struct options *options;
	struct ocp_process *proc;
	unsigned long threads;
	bool has_memprof;
	struct overview_why no_bpf; /* "": BPF is permitted */
	struct overview_sampler samplers[N_OVERVIEW_PROFILES];
	struct ocp_ctx *gauges_ctx;
	struct gc_reader *reader; /* NULL: not measured */
	struct overview_gauges gauges;
	int64_t first_gauges_ns;
	struct measure_session hits; /* hits.meter is NULL if no probes are counted */
	struct overview_probes probes;
	struct ocp_sample *sample; /* the newest one */
	double hits_cost_ns;
	int64_t hits_start_cpu_ns; /* the CPU time of the process at the attach */
	int64_t start_ns, stop_ns, renewed_ns;
	int64_t wall_ns; /* the start, since 1970 */
	int64_t start_cpu_ns, cpu_ns;
};

static void set_why(struct overview_why *why, const char *text)
{
	snprintf(why->text, sizeof(why->text), "%s", text);
}

/* ---- profiles ------------------------------------------------------------------------------- */

static int prepare_sampler(struct overview_sampler *s)
{
	const struct engine_spec counting = { 0 };
	int err = profiler_open(s->ctx, &s->spec, &s->profiler);

	/* Adding a process of PROFILE_WORDS begins to sample it. */
	if (!err && s->spec.kind != PROFILE_WORDS)
		err = profiler_add_process(s->profiler, s->spec.pid);
	if (!err)
		err = frame_names_open(s->ctx, profiler_walker(s->profiler), &s->names);
	if (!err && s->spec.kind == PROFILE_WORDS)
		s->calibration = calibration_start(&engine_bpf, &counting, true);
	return err;
}

static void give_up_sampler(struct overview_sampler *s)
{
	set_why(&s->why, ocp_error(s->ctx));
	frame_names_close(s->names);
	profiler_close(s->profiler);
	s->names = NULL;
	s->profiler = NULL;
}

static void start_sampler(struct overview_sampler *s)
{
	int err = 0;

	if (!s->profiler)
		return;
	if (s->spec.kind == PROFILE_WORDS)
		err = profiler_add_process(s->profiler, s->spec.pid);
	if (!err)
		err = profiler_start(s->profiler);
	if (err)
		give_up_sampler(s);
	else
		s->started_ns = profiler_start_ns(s->profiler);
}

/*
 * Describe the sampler of KIND. Waits are always sampled from /proc, even where BPF is permitted:
 * this costs the process nothing, while BPF programs would run at each switch of threads. The fewer
 * looks, the more threads there are: each look costs this tool time.
 */
static int describe_sampler(struct overview_meters *m, enum profile_kind kind)
{
	struct overview_sampler *s = &m->samplers[kind];
	const bool by_ptrace = kind == PROFILE_WAITS || (kind == PROFILE_CPU && m->no_bpf.text[0]);
	const double parts[] = { [PROFILE_CPU] = CPU_PART,
				 [PROFILE_WAITS] = 1,
				 [PROFILE_WORDS] = WORDS_PART + (m->probes.n ? 0 : HITS_PART) };
	unsigned int hz = by_ptrace ? STOPS_HZ : BPF_HZ;

	s->ctx = ocp_ctx_new();
	if (!s->ctx)
		return ctx_no_memory(m->options->ctx);
	if (kind == PROFILE_WAITS && m->threads * hz > MOST_LOOKS)
		hz = m->threads < MOST_LOOKS ? (unsigned int)(MOST_LOOKS / m->threads) : 1;
	s->spec = (struct profiler_spec){ .kind = kind,
					  .hz = kind == PROFILE_WORDS ? 0 : hz,
					  .max_processes = 1,
					  .counts_cost = true,
					  .by_ptrace = by_ptrace,
					  .keeps_idle = true,
					  .pid = m->options->pid };
	s->budget = BUDGET * parts[kind];
	return 0;
}

static void *open_sampler(void *data)
{
	struct overview_sampler *s = data;

	if (prepare_sampler(s))
		give_up_sampler(s);
	return NULL;
}

/*
 * Call RUN for all samplers at the same time: for a large program, each takes a second. The
 * samplers have nothing in common.
 */
static void for_each_sampler(struct overview_meters *m, void *(*run)(void *))
{
	pthread_t threads[N_OVERVIEW_PROFILES];
	bool is_running[N_OVERVIEW_PROFILES];

	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++) {
		is_running[kind] =
			pthread_create(&threads[kind], NULL, run, &m->samplers[kind]) == 0;
		if (!is_running[kind])
			run(&m->samplers[kind]);
	}
	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++)
		if (is_running[kind])
			pthread_join(threads[kind], NULL);
}

/* Return what the samples have cost so far. */
static double sampler_cost_ns(struct overview_sampler *s)
{
	struct ocp_costs costs;
	struct profiler_cost cost;

	if (!s->calibration || !calibration_so_far(s->calibration, &costs))
		costs = (struct ocp_costs){ .cost_per_hit_ns = ASSUMED_NS,
					    .cost_per_stepped_hit_ns = ASSUMED_STEPPED_NS };
	return profiler_cost(s->profiler, &costs, &cost) ? s->cost_ns : cost.ns;
}

static void pause_sampler(struct overview_sampler *s)
{
	profiler_pause(s->profiler);
	s->is_paused = true;
	s->sampled_ns += session_now_ns() - s->started_ns;
}

static void resume_sampler(struct overview_sampler *s)
{
	s->is_paused = false;
	start_sampler(s);
}

/*
 * Keep S within its budget. The report takes FOR_NS, of which the part ELAPSED is over.
 */
static void check_sampler(struct overview_sampler *s, double elapsed, double for_ns, bool renews)
{
	/* The samples of the first tenth of the time may come at once. */
	const double budget_ns = s->budget * for_ns;
	const double allowed_ns = budget_ns * (elapsed < 0.1 ? 0.1 : elapsed);

	if (!s->profiler || s->is_over_budget)
		return;
	if (renews)
		profiler_refresh(s->profiler);
	s->cost_ns = sampler_cost_ns(s);
	if (s->spec.kind == PROFILE_CPU && s->is_paused != (s->cost_ns > allowed_ns)) {
		if (s->is_paused)
			resume_sampler(s);
		else
			pause_sampler(s);
	} else if (s->spec.kind == PROFILE_WORDS && s->cost_ns > budget_ns) {
		profiler_stop(s->profiler);
		s->is_over_budget = true;
		s->sampled_ns = profiler_stop_ns(s->profiler) - s->started_ns;
	}
}

static void stop_sampler(struct overview_sampler *s)
{
	if (!s->profiler || s->is_over_budget)
		return;
	profiler_stop(s->profiler);
	if (!s->is_paused)
		s->sampled_ns += session_now_ns() - s->started_ns;
	s->cost_ns = sampler_cost_ns(s);
}

static int read_profile(struct overview_sampler *s, struct overview_profile *out)
{
	struct profile_reading reading;
	int err = profiler_read(s->profiler, &reading);

	if (err)
		return err;
	err = profile_make(s->ctx, &reading, s->names, &s->spec, &out->profile);
	profile_reading_free(&reading);
	if (err)
		return err;
	out->profile.duration_ns = (uint64_t)s->sampled_ns;
	return own_functions_find(s->ctx, &out->profile, &out->own);
}

static void *read_sampler(void *data)
{
	struct overview_sampler *s = data;

	s->result.is_over_budget = s->is_over_budget;
	if (s->profiler && read_profile(s, &s->result))
		set_why(&s->why, ocp_error(s->ctx));
	s->result.why = s->why;
	return NULL;
}

/* ---- the collector -------------------------------------------------------------------------- */

static void open_gauges(struct overview_meters *m)
{
	m->gauges_ctx = ocp_ctx_new();
	if (!m->gauges_ctx)
		set_why(&m->gauges.why, "out of memory");
	else if (gc_reader_open(m->gauges_ctx, m->options->pid, &m->reader))
		set_why(&m->gauges.why, ocp_error(m->gauges_ctx));
}

static void note_gauges(struct overview_meters *m, const struct gc_gauges *now)
{
	struct overview_gauges *g = &m->gauges;
	const uint64_t heap = now->words.heap;

	if (!g->runtime) {
		*g = (struct overview_gauges){ .runtime = gc_reader_runtime(m->reader),
					       .first = *now,
					       .least_heap = heap,
					       .most_heap = heap };
		m->first_gauges_ns = session_now_ns();
	}
	g->now = *now;
	g->span_ns = session_now_ns() - m->first_gauges_ns;
	g->least_heap = heap < g->least_heap ? heap : g->least_heap;
	g->most_heap = heap > g->most_heap ? heap : g->most_heap;
}

/* Read the figures. Keep the last ones if the process has ended. */
static void read_gauges_now(struct overview_meters *m)
{
	struct gc_gauges now;

	if (!m->reader)
		return;
	if (gc_reader_read(m->reader, &now) == 0)
		note_gauges(m, &now);
	else if (!m->gauges.runtime)
		set_why(&m->gauges.why, ocp_error(m->gauges_ctx));
}

/* ---- probes --------------------------------------------------------------------------------- */

static int prepare_hits(struct overview_meters *m)
{
	struct options *options = m->options;
	const bool quiet = options->quiet;
	int err;

	options->quiet = true; /* the report has the engine and the reasons */
	err = measure_prepare(&m->hits, options, &m->proc, 1);
	options->quiet = quiet;
	return err;
}

/*
 * Leave out the pairs of the request if starts and stops of several requests may be mixed up, as
 * where one thread serves many.
 */
static int drop_unsafe_pairs(struct overview_meters *m)
{
	struct measure_request *request = &m->options->request;
	char *threads = request->n_pairs ? meter_threads_text(m->hits.meter) : NULL;

	if (!threads)
		return 0;
	set_why(&m->probes.pairs_why, threads);
	free(threads);
	measure_close(&m->hits);
	measure_request_free(request);
	*request = (struct measure_request){ 0 };
	return measure_options_count_all(m->options) == EXIT_DONE ? prepare_hits(m) : -ENOMEM;
}

static int open_hits(struct overview_meters *m)
{
	int err;

	m->probes.n = ocp_process_probe_count(m->proc);
	for (size_t i = 0; i < m->probes.n; i++)
		m->has_memprof |= strncmp(ocp_process_probe_name(m->proc, i), MEMPROF_PROBES,
					  sizeof(MEMPROF_PROBES) - 1) == 0;
	if (!m->probes.n)
		return 0;
	if (measure_options_count_all(m->options) != EXIT_DONE)
		return ctx_no_memory(m->options->ctx);
	err = likely_pairs_add(m->proc, &m->options->request);
	if (err)
		return ctx_no_memory(m->options->ctx);
	err = prepare_hits(m);
	if (!err)
		err = drop_unsafe_pairs(m);
	if (!err)
		meter_start_calibration(m->hits.meter);
	return err;
}

static void give_up_hits(struct overview_meters *m)
{
	set_why(&m->probes.why, ocp_error(m->options->ctx));
	measure_close(&m->hits);
	m->hits = (struct measure_session){ 0 };
}

static void read_hits(struct overview_meters *m)
{
	const int64_t cpu_ns = clock_process_cpu_ns(m->options->pid);
	struct ocp_sample *now;
	struct ocp_costs costs;

	if (ocp_meter_read(m->hits.meter, &now))
		return;
	ocp_sample_free(m->sample);
	m->sample = now;
	if (!meter_costs_so_far(m->hits.meter, &costs))
		costs = (struct ocp_costs){ .cost_per_hit_ns = ASSUMED_NS,
					    .cost_per_stepped_hit_ns = ASSUMED_STEPPED_NS };
	else
		m->probes.costs = costs;
	m->hits_cost_ns =
		(double)ocp_sample_all_hits(now) * ocp_sample_cost_per_hit_ns(now, &costs);
	/* After the detach, the program uses CPU time without hits. */
	if (!m->probes.is_over_budget && cpu_ns >= 0)
		m->probes.is_slowed =
			m->hits_cost_ns > SLOWED * (double)(cpu_ns - m->hits_start_cpu_ns);
}

static void check_hits(struct overview_meters *m, bool renews)
{
	size_t n_new;

	if (!m->hits.meter || m->probes.is_over_budget)
		return;
	if (renews)
		ocp_meter_refresh(m->hits.meter, &n_new);
	read_hits(m);
	if (m->hits_cost_ns <= BUDGET * HITS_PART * (double)m->options->for_ns)
		return;
	m->probes.is_over_budget = true;
	ocp_meter_detach(m->hits.meter);
}

/* ---- the report ----------------------------------------------------------------------------- */

static int open_process(struct overview_meters *m)
{
	const struct options *options = m->options;
	struct proc_status status = { 0 };
	int err = ocp_process_open(options->ctx, options->pid, &m->proc);

	if (!err && !ocp_process_probe_count(m->proc))
		err = process_need_native(options->ctx, options->pid);
	if (!err)
		err = proc_status_read(options->ctx, options->pid, &status);
	if (!err)
		m->threads = status.threads;
	return err;
}

int overview_open(struct options *options, struct overview_meters **out)
{
	struct overview_meters *m = calloc(1, sizeof(*m));
	int err;

	*out = m;
	if (!m)
		return ctx_no_memory(options->ctx);
	m->options = options;
	err = open_process(m);
	if (err)
		return err;
	if (open_hits(m))
		give_up_hits(m);
	open_gauges(m);
	if (meter_lacks_bpf(options->ctx))
		set_why(&m->no_bpf, ocp_error(options->ctx));
	for (int kind = 0; kind < N_OVERVIEW_PROFILES && !err; kind++)
		err = describe_sampler(m, (enum profile_kind)kind);
	if (!err)
		for_each_sampler(m, open_sampler);
	return err;
}

/* Begin with what takes longest to start, so that all parts measure about the same time. */
void overview_start(struct overview_meters *m)
{
	start_sampler(&m->samplers[PROFILE_WORDS]);
	m->hits_start_cpu_ns = clock_process_cpu_ns(m->options->pid);
	if (m->hits.meter && ocp_meter_attach(m->hits.meter))
		give_up_hits(m);
	start_sampler(&m->samplers[PROFILE_CPU]);
	start_sampler(&m->samplers[PROFILE_WAITS]);
	m->start_ns = session_now_ns();
	m->wall_ns = clock_ns(CLOCK_REALTIME);
	m->start_cpu_ns = m->cpu_ns = clock_process_cpu_ns(m->options->pid);
	m->stop_ns = m->start_ns;
	read_gauges_now(m);
}

/* Read the CPU time and the number of threads, unless the process has ended. */
static void read_cpu(struct overview_meters *m)
{
	const int64_t cpu_ns = clock_process_cpu_ns(m->options->pid);
	struct proc_status status;

	if (cpu_ns < 0)
		return;
	m->cpu_ns = cpu_ns;
	m->stop_ns = session_now_ns();
	if (proc_status_read(m->options->ctx, m->options->pid, &status) == 0 && status.threads)
		m->threads = status.threads;
}

void overview_check(struct overview_meters *m)
{
	const double for_ns = (double)m->options->for_ns;
	const double elapsed = (double)(session_now_ns() - m->start_ns) / for_ns;
	const bool renews = session_now_ns() - m->renewed_ns >= RENEW_NS;

	if (renews)
		m->renewed_ns = session_now_ns();
	check_hits(m, renews);
	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++)
		check_sampler(&m->samplers[kind], elapsed, for_ns, renews);
	if (!renews)
		return;
	read_cpu(m);
	read_gauges_now(m);
}

void overview_stop(struct overview_meters *m)
{
	read_cpu(m);
	read_gauges_now(m);
	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++)
		stop_sampler(&m->samplers[kind]);
	if (!m->hits.meter)
		return;
	if (!m->probes.is_over_budget)
		ocp_meter_detach(m->hits.meter);
	read_hits(m);
}

void overview_read(struct overview_meters *m, struct overview *overview)
{
	*overview = (struct overview){
		.pid = m->options->pid,
		.exe = ocp_process_exe(m->proc),
		.threads = m->threads,
		.wall_ns = m->wall_ns,
		.span_ns = m->stop_ns - m->start_ns,
		.cpu_ns = m->start_cpu_ns < 0 ? -1 : m->cpu_ns - m->start_cpu_ns,
		.cost_ns = m->hits_cost_ns,
		.has_memprof = m->has_memprof,
		.no_bpf = m->no_bpf,
		.gauges = m->gauges,
		.probes = m->probes,
	};
	for_each_sampler(m, read_sampler);
	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++) {
		overview->profiles[kind] = m->samplers[kind].result;
		overview->cost_ns += m->samplers[kind].cost_ns;
	}
	overview->probes.sample = m->sample;
	overview->probes.engine = m->hits.engine.is_inside ? "inside" : "bpf";
}

void overview_close(struct overview_meters *m)
{
	if (!m)
		return;
	for (int kind = 0; kind < N_OVERVIEW_PROFILES; kind++) {
		struct overview_sampler *s = &m->samplers[kind];

		own_functions_free(&s->result.own);
		profile_free(&s->result.profile);
		frame_names_close(s->names);
		calibration_free(s->calibration);
		profiler_close(s->profiler);
		ocp_ctx_free(s->ctx);
	}
	ocp_sample_free(m->sample);
	measure_close(&m->hits);
	gc_reader_free(m->reader);
	ocp_ctx_free(m->gauges_ctx);
	ocp_process_free(m->proc);
	free(m);
}
