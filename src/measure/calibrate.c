// SPDX-License-Identifier: MIT
/*
 * Measures the cost of a hit and the time of an empty pair. This file contains two sites, one after
 * the other. We attach an engine with the settings of the meter to these sites, and run their code
 * some thousand times, in batches. The result is computed from the median of the batches' times,
 * since other load on the machine hardly affects the median.
 *
 * This takes about 40 ms, or 80 ms if sites that the kernel single-steps are measured, too. Most of
 * this time is spent on waiting for the kernel to attach and detach the uprobes, and on pauses
 * between the rounds. So a separate thread calibrates while the meter measures. Callers that need
 * the cost before they measure get the result of the first round as an estimate.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/search.h"
#include "measure/calibrate.h"
#include "measure/meter.h"
#include "look/maps.h"
#include "args.h"

enum {
	IDLE_MS = 2000,
	N_ROUNDS = 4,
	ROUND_GAP_NS = 4000000,
	N_BATCHES = 13,
	PASSES_A_BATCH = 40,
	STEPPED_PASSES_A_BATCH = 6, /* a hit takes some 10 us where it is single-stepped */
	SITES = 2,
	KINDS = 2, /* kinds of sites: emulated, single-stepped */
	PATH_BYTES = 4200,
	INT3 = 0xcc,
};

/*
 * Two disabled sites, as in OCaml code. Each site is in a function that returns, because a hit also
 * makes this return slower: after a trap, the processor cannot predict the return, which costs a
 * quarter of a hit. A program has this cost only while it is traced, so it is part of the cost of a
 * hit.
 */
#define TWO_SITES(name, site)                                                                      \
	__asm__(".pushsection .text\n"                                                             \
		".hidden " #name "_sites\n"                                                        \
		".type " #name "_sites, @function\n" #name "_sites:\n"                             \
		"	call first_" #name "_site\n"                                               \
		"	call second_" #name "_site\n"                                              \
		"	ret\n"                                                                           \
		".globl first_" #name "_site\n"                                                    \
		".hidden first_" #name "_site\n"                                                   \
		"first_" #name "_site:\n" site "second_" #name "_site:\n" site ".size " #name      \
		"_sites, . - " #name "_sites\n"                                                    \
		".popsection\n");                                                                  \
	void name##_sites(void);                                                                   \
	void first_##name##_site(void)

TWO_SITES(calibration, "	.byte 0x90, 0x3d\n	.long 0\n	ret\n");
/* A uprobe on a dormant site replaces a lea instruction. */
TWO_SITES(dormant_calibration, "	.byte 0x48, 0x8d, 0x05\n	.long 0\n	ret\n");

/* The code that runs the two sites. */
struct code {
	void (*pass)(void), (*first_site)(void);
	size_t site_bytes;
	int passes_a_batch;
};

/* The sites of one kind, the engine attached to them, and the smallest times over all rounds. */
struct timed_run {
	const struct code *code;
	struct engine *engine;
	double idle_ns;		       /* time of a pass without uprobes */
	uint64_t buckets[OCP_BUCKETS]; /* histogram of the times of all pairs so far */
	double cost_per_hit_ns, empty_pair_ns;
	bool was_timed;
};

struct calibration {
	struct ocp_ctx *ctx;
	const struct engine_ops *ops;
	struct engine_spec spec;
	struct timed_run runs[KINDS];
	size_t n_runs;
	double cost_per_paired_hit_ns; /* 0: hits of pairs cost the same as other hits */
	struct engine_role roles[SITES];
	struct site_args args; /* the arguments of our sites */
	struct filter filter;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_done; /* `costs` and `err` are set */
	bool is_estimated, is_cancelled;
	bool is_joined;
	int err;
	struct ocp_costs costs, estimate;
};

/*
 * Set PATH and *OFF to the file that contains our sites, and the offset of the first site. Use
 * /proc/self/exe for our executable, since this path works even if the executable was replaced.
 */
static int find_sites(struct ocp_ctx *ctx, const struct code *code, char *path, uint64_t *off)
{
	const uint64_t addr = (uintptr_t)code->first_site;
	const struct mapping *m;
	struct stat exe;
	struct maps maps;
	int err = maps_read(ctx, getpid(), &maps);

	if (err)
		return err;
	m = maps_find(&maps, addr);
	if (m && m->inode) {
		*off = addr - m->start + m->off;
		if (stat("/proc/self/exe", &exe) == 0 && exe.st_ino == m->inode)
			snprintf(path, PATH_BYTES, "/proc/self/exe");
		else
			snprintf(path, PATH_BYTES, "%s", m->path);
	} else {
		err = ctx_error(ctx, -ENOENT, "the calibration code is not mapped from a file");
	}
	maps_free(&maps);
	return err;
}

static int compare_times(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return COMPARE(x, y);
}

/*
 * Return how long it takes to run both sites once, in nanoseconds of CPU time. (Elapsed time would
 * include waiting for a processor.)
 */
static double time_passes(const struct code *code)
{
	int64_t times[N_BATCHES];
	const int64_t *median = &times[N_BATCHES / 2];

	for (int i = 0; i < N_BATCHES; i++) {
		int64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		for (int j = 0; j < code->passes_a_batch; j++)
			code->pass();
		times[i] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	}
	qsort(times, N_BATCHES, sizeof(times[0]), compare_times);
	return (double)*median / code->passes_a_batch;
}

/*
 * Set *NS to the median of the times of the pairs that ended since the previous call. A mean would
 * be useless: a single context switch would dominate it.
 */
static int read_pair(struct calibration *c, struct timed_run *run, double *ns)
{
	uint64_t hits[SITES], buckets[1][OCP_BUCKETS] = { 0 }, since[OCP_BUCKETS];
	struct ocp_pair pair = { 0 };
	struct engine_histogram *histogram = calloc(1, sizeof(*histogram));
	struct engine_reading reading = {
		.hits = hits, .pairs = &pair, .pair_buckets = buckets, .histograms = histogram
	};
	int err = histogram ? c->ops->read(run->engine, &reading) : ctx_no_memory(c->ctx);

	for (size_t i = 0; !err && i < OCP_BUCKETS; i++) {
		since[i] = buckets[0][i] - run->buckets[i];
		run->buckets[i] = buckets[0][i];
	}
	if (!err)
		*ns = (double)ocp_bucket_quantile(since, 0.5);
	free(reading.keyed);
	free(histogram);
	return err;
}

/*
 * Time one round. Keep the smallest times over all rounds: on a busy machine, the round that was
 * least disturbed is the best measurement.
 */
static int time_round(struct calibration *c, struct timed_run *run)
{
	double hit_ns = (time_passes(run->code) - run->idle_ns) / SITES, pair_ns = 0;
	int err = c->spec.request.n_pairs ? read_pair(c, run, &pair_ns) : 0;

	/* If the cost is close to 0, the difference of two measured times may be negative. */
	if (hit_ns < 0)
		hit_ns = 0;
	if (!run->was_timed || hit_ns < run->cost_per_hit_ns)
		run->cost_per_hit_ns = hit_ns;
	if (!run->was_timed || pair_ns < run->empty_pair_ns)
		run->empty_pair_ns = pair_ns;
	run->was_timed = true;
	return err;
}

/*
 * Wait until no uprobe is on our sites. Closing a link does not remove its uprobes while another
 * process has a descriptor of the link, and a program that lists all links (`bpftool link`) opens
 * each of them for a moment. If uprobes of the previous calibration were still on the sites, the
 * time without uprobes would be wrong, and a hit would seem to cost nothing.
 */
static int await_idle_sites(struct calibration *c, const struct code *code)
{
	const struct timespec ms = { 0, 1000000 };
	const volatile unsigned char *site =
		(const volatile unsigned char *)(uintptr_t)code->first_site;
	int waited = 0;

	for (size_t i = 0; i < SITES; i++, site += code->site_bytes) {
		for (; *site == INT3; waited++) {
			if (waited == IDLE_MS)
				return ctx_error(
					c->ctx, -EBUSY,
					"another program has uprobes on the calibration code");
			nanosleep(&ms, NULL);
		}
	}
	return 0;
}

static int attach_run(struct calibration *c, struct timed_run *run)
{
	const pid_t self = getpid();
	struct engine_site sites[SITES] = {
		{ .first_role = 0, .n_roles = c->spec.n_roles != 0, .is_keyed = true },
		{ .first_role = 1, .n_roles = c->spec.n_roles != 0, .is_keyed = true },
	};
	char path[PATH_BYTES];
	const struct engine_file file = { .path = path,
					  .name = "ocaml-probes itself",
					  .pids = &self,
					  .n_pids = 1,
					  .sites = sites,
					  .n_sites = SITES,
					  .args = &c->args,
					  .n_args = c->spec.max_args };
	uint64_t off;
	int err = find_sites(c->ctx, run->code, path, &off);

	if (!err)
		err = await_idle_sites(c, run->code);
	if (err)
		return err;
	run->idle_ns = time_passes(run->code);
	for (size_t i = 0; i < SITES; i++) {
		sites[i].nop_off = off + i * run->code->site_bytes;
		sites[i].is_filtered = c->spec.filter != NULL;
		sites[i].has_histogram = c->spec.n_histograms != 0;
		sites[i].is_grouped = c->spec.by.is_on;
		sites[i].is_printed = c->spec.request.printed.n;
	}
	return c->ops->attach(run->engine, &file, 1);
}

static struct ocp_costs costs_so_far(const struct calibration *c)
{
	return (struct ocp_costs){ .cost_per_hit_ns = c->runs[0].cost_per_hit_ns,
				   .empty_pair_ns = c->runs[0].empty_pair_ns,
				   .cost_per_paired_hit_ns = c->cost_per_paired_hit_ns,
				   .cost_per_stepped_hit_ns = c->runs[1].cost_per_hit_ns,
				   .empty_stepped_pair_ns = c->runs[1].empty_pair_ns };
}

static void publish_estimate(struct calibration *c)
{
	pthread_mutex_lock(&c->lock);
	c->estimate = costs_so_far(c);
	c->is_estimated = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static bool is_cancelled(struct calibration *c)
{
	bool cancelled;

	pthread_mutex_lock(&c->lock);
	cancelled = c->is_cancelled;
	pthread_mutex_unlock(&c->lock);
	return cancelled;
}

/* Get the costs from an engine that measures them itself. */
static int ask_engine(struct calibration *c)
{
	struct ocp_costs costs;
	int err = c->ops->costs(c->ctx, &c->spec, &costs);

	c->runs[0].cost_per_hit_ns = costs.cost_per_hit_ns;
	c->runs[0].empty_pair_ns = costs.empty_pair_ns;
	c->cost_per_paired_hit_ns = costs.cost_per_paired_hit_ns;
	if (!err)
		publish_estimate(c);
	return err;
}

static int calibrate(struct calibration *c)
{
	const struct timespec gap = { 0, ROUND_GAP_NS };
	int err = 0;

	if (c->ops->costs)
		return ask_engine(c);
	for (size_t i = 0; !err && i < c->n_runs; i++) {
		err = c->ops->open(c->ctx, &c->spec, &c->runs[i].engine);
		if (!err)
			err = attach_run(c, &c->runs[i]);
	}
	for (int round = 0; !err && !is_cancelled(c) && round < N_ROUNDS; round++) {
		for (size_t i = 0; !err && i < c->n_runs; i++)
			err = time_round(c, &c->runs[i]);
		if (!err && round == 0)
			publish_estimate(c);
		if (round < N_ROUNDS - 1)
			nanosleep(&gap, NULL);
	}
	for (size_t i = 0; i < c->n_runs; i++)
		c->ops->close(c->runs[i].engine);
	return err;
}

static void *run_calibration(void *arg)
{
	/*
	 * The calibrations of all meters in this process use the same sites. While the uprobes of
	 * another calibration are on these sites, the measured costs would be wrong.
	 */
	static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;
	struct calibration *c = arg;
	int err;

	pthread_mutex_lock(&sites_lock);
	err = calibrate(c);
	pthread_mutex_unlock(&sites_lock);
	pthread_mutex_lock(&c->lock);
	c->err = err;
	c->costs = costs_so_far(c);
	c->is_done = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/*
 * Copy the settings for arguments from SPEC. Our sites have integer arguments. The filter gets "...
 * || arg0 == 1", so that it accepts the arguments of our sites and takes as long as the original
 * filter. Print each hit only if SPEC prints hits without a limit: a meter with a limit prints only
 * a small part of its hits.
 */
static void copy_arguments(struct calibration *c, const struct engine_spec *spec)
{
	const bool prints_all = spec->request.printed.n && !spec->request.print_limit;

	c->args.n = ARGS_MAX;
	for (size_t i = 0; i < ARGS_ALL; i++)
		c->args.args[i] = (struct arg_spec){ .kind = ARG_CONSTANT,
						     .size = 8,
						     .type = ARG_VALUE,
						     .number = 3 /* the OCaml int 1 */ };
	c->spec.max_args = 1;
	c->spec.hist_arg = spec->hist_arg;
	c->spec.n_histograms = spec->n_histograms ? 1 : 0;
	/*
	 * No pair takes this long, so none is recorded, but all pairs keep the arguments of their
	 * starts.
	 */
	c->spec.request.has_slower = spec->request.has_slower;
	c->spec.request.slower_ns = UINT64_MAX;
	c->spec.by = (struct engine_by){ .is_on = spec->by.is_on, .max_hits = 1, .max_times = 1 };
	c->spec.request.printed.n = spec->request.printed.n;
	c->spec.request.print_limit = prints_all ? 0 : 1;
	c->spec.print_bytes = prints_all ? spec->print_bytes : (size_t)sysconf(_SC_PAGESIZE);
	if (!spec->filter)
		return;
	c->filter = *spec->filter;
	if (c->filter.n_ops + 2 > FILTER_OPS_MAX)
		c->filter.n_ops = FILTER_OPS_MAX - 2;
	c->filter.ops[c->filter.n_ops++] = (struct filter_op){ .kind = FILTER_NUMBER,
							       .int_comparison = FILTER_EQ,
							       .number = 1 };
	c->filter.ops[c->filter.n_ops++] = (struct filter_op){ .kind = FILTER_OR };
	c->spec.filter = &c->filter;
}

/*
 * Make one pair that costs as much as the most expensive pair of SPEC. If the pair has a key, it is
 * argument 0, whatever the keys in SPEC are, since all arguments of our sites are alike.
 */
static void copy_roles(struct calibration *c, const struct engine_spec *spec)
{
	struct engine_role start = { .pair = 0 };

	for (size_t i = 0; spec->request.n_pairs && i < spec->n_roles; i++) {
		start.is_keyed |= spec->roles[i].is_keyed;
		start.is_compared |= spec->roles[i].is_compared;
	}
	c->roles[0] = c->roles[1] = start;
	c->roles[1].is_stop = true;
}

/* Start the thread with all signals blocked: only threads of the caller may handle signals. */
static int create_thread(struct calibration *c)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&c->thread, NULL, run_calibration, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

struct calibration *calibration_start(const struct engine_ops *ops, const struct engine_spec *spec,
				      bool has_stepped)
{
	static const struct code emulated = { calibration_sites, first_calibration_site, 7,
					      PASSES_A_BATCH },
				 stepped = { dormant_calibration_sites,
					     first_dormant_calibration_site, 8,
					     STEPPED_PASSES_A_BATCH };
	struct calibration *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ops = ops;
	c->runs[0].code = &emulated;
	c->runs[1].code = &stepped;
	c->n_runs = has_stepped ? KINDS : 1;
	c->ctx = ocp_ctx_new();
	copy_roles(c, spec);
	/* The settings of the meter, but with at most one pair, and for this process only. */
	c->spec = (struct engine_spec){
		.max_sites = SITES,
		.request = { .split = spec->request.split,
			     .n_pairs = spec->request.n_pairs ? 1 : 0,
			     .depth = spec->request.depth,
			     .event_bytes = spec->request.event_bytes },
		.only_windows = spec->only_windows,
		.max_keys = 64,
		.roles = c->roles,
		.n_roles = spec->request.n_pairs ? SITES : 0,
		.max_open = 64,
		.max_processes = 1,
		.pid = getpid(),
	};
	copy_arguments(c, spec);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (!c->ctx || create_thread(c)) {
		ocp_ctx_free(c->ctx);
		free(c);
		return NULL;
	}
	return c;
}

/* Join the thread, to free its stack, unless it was joined before. */
static void join_thread(struct calibration *c)
{
	if (!c->is_joined)
		pthread_join(c->thread, NULL);
	c->is_joined = true;
}

int calibration_result(struct calibration *c, bool wait, struct ocp_costs *costs, const char **why)
{
	bool is_done;

	pthread_mutex_lock(&c->lock);
	while (wait && !c->is_done)
		pthread_cond_wait(&c->changed, &c->lock);
	is_done = c->is_done;
	pthread_mutex_unlock(&c->lock);
	*costs = (struct ocp_costs){ 0 };
	*why = NULL;
	if (!is_done)
		return -EAGAIN;
	/* The thread is about to end. Join it only if the caller permits waiting. */
	if (wait)
		join_thread(c);
	if (c->err)
		*why = ocp_error(c->ctx);
	else
		*costs = c->costs;
	return c->err ? -ENODATA : 0;
}

bool calibration_estimate(struct calibration *c, struct ocp_costs *costs)
{
	pthread_mutex_lock(&c->lock);
	while (!c->is_estimated && !c->is_done)
		pthread_cond_wait(&c->changed, &c->lock);
	*costs = c->estimate;
	pthread_mutex_unlock(&c->lock);
	return c->is_estimated;
}

bool calibration_so_far(struct calibration *c, struct ocp_costs *costs)
{
	bool is_known;

	pthread_mutex_lock(&c->lock);
	is_known = c->is_done ? !c->err : c->is_estimated;
	*costs = c->is_done ? c->costs : c->estimate;
	pthread_mutex_unlock(&c->lock);
	return is_known;
}

void calibration_free(struct calibration *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->is_cancelled = true;
	pthread_mutex_unlock(&c->lock);
	join_thread(c);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
	ocp_ctx_free(c->ctx);
	free(c);
}

/* ---- the costs of a meter ------------------------------------------------------------------- */
/*
 * Starts the calibration for a meter, and returns the costs: before the attach an estimate, after
 * the attach the calibrated costs.
 */

static size_t count_stepped(const struct site_table *table)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_sites; i++)
		n += table->sites[i].site && table->sites[i].is_stepped;
	return n;
}

void meter_start_calibration(struct ocp_meter *meter)
{
	if (!meter->calibration && !meter->ops->has_no_costs)
		meter->calibration = calibration_start(meter->ops, &meter->spec,
						       count_stepped(&meter->table) != 0);
}

/*
 * Start early only if functions are requested. Most exits of functions are single-stepped, which is
 * expensive, so an estimate will be needed. Do not start early if hits are filtered, grouped or
 * printed or have a histogram: the engine then needs the places of the arguments, which are known
 * only after the sites have been found.
 */
void meter_start_calibration_early(struct ocp_meter *meter)
{
	const struct arg_requests *requests = &meter->arg_requests;
	const struct engine_role role = { .is_keyed = requests->key_arg >= 0 };
	const struct measure_request *request = &meter->request;
	const struct engine_spec spec = { .request = { .split = request->split,
						       .n_pairs =
							       measure_request_has_pairs(request),
						       .depth = request->depth },
					  .only_windows = measure_request_counts_only_code(request),
					  .roles = &role,
					  .n_roles = 1 };

	if (!meter->calibration && measure_request_has_code(&meter->request) &&
	    !requests->has_filter && requests->hist_arg < 0 && requests->by_arg < 0 &&
	    !request->printed.n && !request->has_slower)
		meter->calibration = calibration_start(meter->ops, &spec, true);
}

void ocp_meter_expect_estimate(struct ocp_meter *meter)
{
	meter->wants_estimate = true;
}

int ocp_meter_estimate(struct ocp_meter *meter, struct ocp_estimate *estimate)
{
	struct ocp_costs costs = { 0 };

	if (!meter->engine)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	*estimate = (struct ocp_estimate){ .n_sites = site_table_count(&meter->table),
					   .n_stepped = count_stepped(&meter->table) };
	if (!estimate->n_stepped || meter->is_pinned)
		return 0;
	meter_start_calibration(meter);
	if (meter->calibration && calibration_estimate(meter->calibration, &costs)) {
		estimate->cost_per_hit_ns = costs.cost_per_hit_ns;
		estimate->cost_per_stepped_hit_ns = costs.cost_per_stepped_hit_ns;
	}
	return 0;
}

bool ocp_estimate_text(const struct ocp_estimate *estimate, char text[OCP_ESTIMATE_BYTES])
{
	char which[64];

	if (!estimate->n_stepped)
		return false;
	if (estimate->n_stepped < estimate->n_sites)
		snprintf(which, sizeof(which), "%zu of %zu places are", estimate->n_stepped,
			 estimate->n_sites);
	else if (estimate->n_sites > 1)
		snprintf(which, sizeof(which), "all %zu places are", estimate->n_sites);
	else
		snprintf(which, sizeof(which), "the place is");
	if (estimate->cost_per_stepped_hit_ns > 0)
		snprintf(text, OCP_ESTIMATE_BYTES,
			 "%s single-stepped: %.1f us per hit, others %.1f us", which,
			 estimate->cost_per_stepped_hit_ns / 1e3, estimate->cost_per_hit_ns / 1e3);
	else
		snprintf(text, OCP_ESTIMATE_BYTES,
			 "%s single-stepped: ten times slower than others", which);
	return true;
}

static int ask_costs(struct ocp_meter *meter, bool wait, struct ocp_costs *costs)
{
	const char *why = "it was never attached, or there was no memory or thread for it";
	int err = -ENODATA;

	*costs = meter->pinned_costs;
	if (meter->pin_folder[0] || meter->is_found)
		return 0;
	if (meter->ops->has_no_costs)
		why = "its engine does not measure it";
	else if (meter->calibration)
		err = calibration_result(meter->calibration, wait, costs, &why);
	if (err == -EAGAIN)
		return ctx_error(meter->ctx, err, "the cost of measuring is not known yet");
	if (err)
		return ctx_error(meter->ctx, err, "the cost of measuring is not known: %s", why);
	/*
	 * A calibration that began early also measures single-stepped sites. Remove these costs if
	 * the meter turns out to have no such sites.
	 */
	if (!count_stepped(&meter->table))
		costs->cost_per_stepped_hit_ns = costs->empty_stepped_pair_ns = 0;
	return 0;
}

bool meter_costs_so_far(struct ocp_meter *meter, struct ocp_costs *costs)
{
	if (!meter->calibration || !calibration_so_far(meter->calibration, costs))
		return false;
	if (!count_stepped(&meter->table))
		costs->cost_per_stepped_hit_ns = costs->empty_stepped_pair_ns = 0;
	return true;
}

int ocp_meter_costs(struct ocp_meter *meter, struct ocp_costs *costs)
{
	return ask_costs(meter, true, costs);
}

int ocp_meter_costs_now(struct ocp_meter *meter, struct ocp_costs *costs)
{
	return ask_costs(meter, false, costs);
}
