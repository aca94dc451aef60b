// SPDX-License-Identifier: MIT
/*
 * The metrics, as text or OpenMetrics. Both formats have the same samples with the same labels.
 * OpenMetrics also states when counters began, requires samples with the same labels to be
 * adjacent, and names families without _total.
 *
 * The counters of a program come from the watch, whose counters never decrease. The exported values
 * must not decrease either: the counts of buckets are rounded down, and never exceed the total
 * count.
 */
#include "serve/metrics.h"

#include <string.h>

#include "base/clock.h"
#include "serve/profile_worker.h"

struct metrics_writer {
	struct strbuf *out;
	const struct watch *watch;
	const struct buckets *buckets;
	bool is_open;	/* the format is OpenMetrics */
	bool label_pid; /* hits are split by process */
};

enum family_kind { GAUGE, COUNTER, HISTOGRAM };

struct family {
	const char *name; /* without the prefix "ocaml_" and the suffix "_total" */
	enum family_kind kind;
	const char *unit; /* NULL: without a unit */
	const char *help;
};

static void add_metric_name(struct metrics_writer *w, const struct family *family,
			    const char *suffix)
{
	strbuf_lit(w->out, "ocaml_");
	strbuf_str(w->out, family->name);
	strbuf_str(w->out, suffix);
}

static void add_about(struct metrics_writer *w, const struct family *family, const char *keyword,
		      const char *value)
{
	strbuf_str(w->out, keyword);
	add_metric_name(w, family, family->kind == COUNTER && !w->is_open ? "_total" : "");
	strbuf_lit(w->out, " ");
	strbuf_str(w->out, value);
	strbuf_lit(w->out, "\n");
}

static void begin_family(struct metrics_writer *w, const struct family *family)
{
	static const char *const kinds[] = { "gauge", "counter", "histogram" };

	add_about(w, family, "# HELP ", family->help);
	add_about(w, family, "# TYPE ", kinds[family->kind]);
	if (w->is_open && family->unit)
		add_about(w, family, "# UNIT ", family->unit);
}

static void add_label(struct metrics_writer *w, const char *name, const char *value)
{
	strbuf_str(w->out, name);
	strbuf_lit(w->out, "=\"");
	strbuf_label(w->out, value);
	strbuf_lit(w->out, "\"");
}

static void add_pid_label(struct metrics_writer *w, pid_t pid)
{
	strbuf_lit(w->out, ",pid=\"");
	strbuf_u64(w->out, (uint64_t)pid);
	strbuf_lit(w->out, "\"");
}

/* The labels of a sample; labels that the sample does not have are NULL or 0. */
struct labels {
	const char *probe, *phase, *start, *stop, *side, *reason, *engine;
	const struct watch_target *target;
	/* The value of target->label. Its name differs from the other names: see label_name.h. */
	const char *value;
	pid_t pid;
};

static void add_labels(struct metrics_writer *w, const struct labels *labels)
{
	const struct {
		const char *name, *value;
	} all[] = {
		{ "probe", labels->probe },
		{ "phase", labels->phase },
		{ "start", labels->start },
		{ "stop", labels->stop },
		{ "exe", labels->target->exe },
		{ "pod_uid", labels->target->pod },
		{ "container_id", labels->target->container },
		{ "side", labels->side },
		{ "reason", labels->reason },
		{ "engine", labels->engine },
	};
	bool is_first = true;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!all[i].value)
			continue;
		if (!is_first)
			strbuf_lit(w->out, ",");
		add_label(w, all[i].name, all[i].value);
		is_first = false;
	}
	if (labels->value) {
		strbuf_lit(w->out, ",");
		add_label(w, labels->target->label->name, labels->value);
	}
	if (labels->pid)
		add_pid_label(w, labels->pid);
}

/* Write the name and labels of a sample. The caller writes the value. */
static void begin_sample(struct metrics_writer *w, const struct family *family, const char *suffix,
			 const struct labels *labels)
{
	add_metric_name(w, family, suffix);
	strbuf_lit(w->out, "{");
	add_labels(w, labels);
	strbuf_lit(w->out, "} ");
}

static void add_integer(struct metrics_writer *w, const struct family *family, const char *suffix,
			const struct labels *labels, uint64_t value)
{
	begin_sample(w, family, suffix, labels);
	strbuf_u64(w->out, value);
	strbuf_lit(w->out, "\n");
}

static void add_seconds(struct metrics_writer *w, const struct family *family, const char *suffix,
			const struct labels *labels, double seconds)
{
	begin_sample(w, family, suffix, labels);
	strbuf_real(w->out, seconds, 9);
	strbuf_lit(w->out, "\n");
}

/* In OpenMetrics, add the time when the counters of the target began. */
static void add_created(struct metrics_writer *w, const struct family *family,
			const struct labels *labels)
{
	if (!w->is_open)
		return;
	begin_sample(w, family, "_created", labels);
	strbuf_scaled(w->out, (uint64_t)(labels->target->since_ns / 1000000), 3);
	strbuf_lit(w->out, "\n");
}

static void add_counter(struct metrics_writer *w, const struct family *family,
			const struct labels *labels, uint64_t value)
{
	add_integer(w, family, "_total", labels, value);
	add_created(w, family, labels);
}

/* ---- programs ------------------------------------------------------------------------------- */

static void write_build_info(struct metrics_writer *w)
{
	static const struct family family = { "probes_build_info", GAUGE, NULL,
					      "Version of ocaml-probes." };

	begin_family(w, &family);
	add_metric_name(w, &family, "{");
	add_label(w, "version", ocp_version());
	strbuf_lit(w->out, "} 1\n");
}

/*
 * Write the time when the numbers were read. While the measuring process is busy, the numbers are
 * older than the scrape.
 */
static void write_time(struct metrics_writer *w)
{
	static const struct family family = { "probes_snapshot_timestamp_seconds", GAUGE, "seconds",
					      "Unix time when these numbers were read." };

	begin_family(w, &family);
	add_metric_name(w, &family, " ");
	strbuf_scaled(w->out, (uint64_t)clock_ns(CLOCK_REALTIME) / 1000000, 3);
	strbuf_lit(w->out, "\n");
}

static void add_up_gauge(struct metrics_writer *w, const struct family *family,
			 const struct watch_target *target)
{
	add_integer(w, family, "", &(struct labels){ .target = target }, target->is_up);
}

/* Add a sample for each engine that measures TARGET. */
static void add_engine(struct metrics_writer *w, const struct family *family,
		       const struct watch_target *target)
{
	static const struct {
		enum watch_engine engine;
		const char *name;
	} engines[] = { { WATCH_ENGINE_BPF, "bpf" }, { WATCH_ENGINE_INSIDE, "inside" } };

	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (target->engine & engines[i].engine)
			add_integer(w, family, "",
				    &(struct labels){ .target = target, .engine = engines[i].name },
				    1);
}

static void add_process_count(struct metrics_writer *w, const struct family *family,
			      const struct watch_target *target)
{
	if (target->knows_pids)
		add_integer(w, family, "", &(struct labels){ .target = target }, target->n_pids);
}

static void add_loss_counters(struct metrics_writer *w, const struct family *family,
			      const struct watch_target *target)
{
	const struct watch_losses *losses = &target->losses;
	const struct {
		const char *reason;
		uint64_t n;
	} all[] = {
		{ "pair_map_full", losses->pair_map_full },
		{ "pair_not_keyed", losses->pair_not_keyed },
		{ "rows_full", losses->rows_full },
		{ "children_full", losses->children_full },
		{ "filter_mismatches", losses->filter_mismatches },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		add_counter(w, family,
			    &(struct labels){ .target = target, .reason = all[i].reason },
			    all[i].n);
	if (target->label)
		add_counter(w, family,
			    &(struct labels){ .target = target, .reason = "unreadable_values" },
			    losses->unreadable_values);
}

/* Add what limits the values of the label: how many have samples, and how many may have. */
static void add_label_values(struct metrics_writer *w, const struct family *family,
			     const struct watch_target *target)
{
	if (target->label)
		add_integer(w, family, "", &(struct labels){ .target = target },
			    target->label->n_values - 1);
}

static void add_label_limit(struct metrics_writer *w, const struct family *family,
			    const struct watch_target *target)
{
	if (target->label)
		add_integer(w, family, "", &(struct labels){ .target = target },
			    target->label->limit);
}

static void add_cost(struct metrics_writer *w, const struct family *family,
		     const struct watch_target *target)
{
	const struct labels labels = { .target = target };

	add_seconds(w, family, "_total", &labels, target->cpu_overhead_seconds);
	add_created(w, family, &labels);
}

static void add_hit_cost(struct metrics_writer *w, const struct family *family,
			 const struct watch_target *target)
{
	/* In picoseconds, since the engine `inside` counts a hit in less than a nanosecond. */
	enum { DECIMALS = 12 };

	if (target->cost_per_hit_ns <= 0)
		return;
	begin_sample(w, family, "", &(struct labels){ .target = target });
	strbuf_real(w->out, target->cost_per_hit_ns / 1e9, DECIMALS);
	strbuf_lit(w->out, "\n");
}

/* ---- probes --------------------------------------------------------------------------------- */

/*
 * For PROBE, add a sample for each process that hit it, and a sample of 0 for each other running
 * process. Rows are sorted by probe, and PROBE has no rows before index ROW. Return the index from
 * which to look for the rows of the next probe.
 */
static size_t add_hits_by_pid(struct metrics_writer *w, const struct family *family,
			      const struct watch_target *target, const char *probe, size_t row)
{
	size_t i = 0;

	while (row < target->n_rows && strcmp(target->rows[row].probe, probe) < 0)
		row++;
	for (;;) {
		const bool has_row =
			row < target->n_rows && strcmp(target->rows[row].probe, probe) == 0;
		struct labels labels = { .probe = probe, .target = target };
		uint64_t hits = 0;

		if (!has_row && i == target->n_pids)
			return row;
		if (has_row && (i == target->n_pids || target->rows[row].pid <= target->pids[i])) {
			labels.pid = target->rows[row].pid;
			i += i < target->n_pids && labels.pid == target->pids[i];
			hits = target->rows[row++].hits;
		} else {
			labels.pid = target->pids[i++];
		}
		add_counter(w, family, &labels, hits);
	}
}

/*
 * Add a sample for each value of the label that a hit of PROBE had. Hits in processes that do not
 * split them are in a sample without the label.
 */
static void add_hits_by_value(struct metrics_writer *w, const struct family *family,
			      const struct watch_target *target, const struct watch_probe *probe)
{
	struct labels labels = { .probe = probe->name, .target = target };

	if (probe->has_unsplit)
		add_counter(w, family, &labels, probe->unsplit_hits);
	for (size_t i = 0; i < probe->n_values; i++) {
		labels.value = target->label->values[probe->values[i].value];
		add_counter(w, family, &labels, probe->values[i].hits);
	}
}

static void add_hit_counters(struct metrics_writer *w, const struct family *family,
			     const struct watch_target *target)
{
	size_t row = 0;

	for (size_t i = 0; i < target->n_probes; i++) {
		const struct watch_probe *probe = &target->probes[i];

		if (w->label_pid)
			row = add_hits_by_pid(w, family, target, probe->name, row);
		else if (probe->n_values)
			add_hits_by_value(w, family, target, probe);
		else
			add_counter(w, family,
				    &(struct labels){ .probe = probe->name, .target = target },
				    probe->hits);
	}
}

static void add_enabled(struct metrics_writer *w, const struct family *family,
			const struct watch_target *target)
{
	const bool has_none = target->knows_pids && target->n_pids == 0;

	for (size_t i = 0; i < target->n_probes; i++) {
		const struct watch_probe *probe = &target->probes[i];

		/*
		 * Omit the sample in two cases: PROBE is a function, which has no handlers, or the
		 * state is unknown although a process may run.
		 */
		if (probe->handler != WATCH_HANDLER_NONE &&
		    (probe->handler != WATCH_HANDLER_UNKNOWN || has_none))
			add_integer(w, family, "",
				    &(struct labels){ .probe = probe->name, .target = target },
				    probe->n_enabled);
	}
}

static void add_counted(struct metrics_writer *w, const struct family *family,
			const struct watch_target *target)
{
	for (size_t i = 0; i < target->n_probes; i++)
		add_integer(w, family, "",
			    &(struct labels){ .probe = target->probes[i].name, .target = target },
			    target->probes[i].is_counted);
}

/* Add a sample for each probe that has uses without a site. */
static void add_uses_without_site(struct metrics_writer *w, const struct family *family,
				  const struct watch_target *target)
{
	for (size_t i = 0; i < target->n_probes; i++)
		if (target->probes[i].n_uses_without_site)
			add_integer(w, family, "",
				    &(struct labels){ .probe = target->probes[i].name,
						      .target = target },
				    target->probes[i].n_uses_without_site);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static struct labels labels_of(const struct watch_target *target, const struct watch_pair *pair)
{
	/* A pair that stands for the calls of a function has no stop probe. */
	return (struct labels){
		.start = pair->start,
		.stop = *pair->stop ? pair->stop : NULL,
		.target = target,
	};
}

static void add_bucket(struct metrics_writer *w, const struct family *family,
		       const struct labels *labels, const char *le, uint64_t count)
{
	add_metric_name(w, family, "_bucket{");
	add_labels(w, labels);
	strbuf_lit(w->out, ",le=\"");
	strbuf_str(w->out, le);
	strbuf_lit(w->out, "\"} ");
	strbuf_u64(w->out, count);
	strbuf_lit(w->out, "\n");
}

/* What a histogram of the metrics is made from. */
struct durations {
	uint64_t count, sum_ns;
	const uint64_t *kernel; /* OCP_BUCKETS counts */
};

static struct durations durations_of(const struct ocp_pair *sum)
{
	return (struct durations){ sum->count, sum->sum_ns, sum->buckets };
}

static void add_histogram(struct metrics_writer *w, const struct family *family,
			  const struct labels *labels, const struct durations *durations)
{
	const uint64_t n = durations->count;
	uint64_t counts[MAX_BUCKETS];

	buckets_cumulate(w->buckets, durations->kernel, counts);
	/*
	 * The kernel's counters are not read atomically: a bucket may include a pair that the total
	 * does not include yet. So limit each count to the total.
	 */
	for (size_t b = 0; b < w->buckets->n; b++)
		add_bucket(w, family, labels, w->buckets->labels[b], counts[b] < n ? counts[b] : n);
	add_bucket(w, family, labels, "+Inf", n);
	begin_sample(w, family, "_sum", labels);
	strbuf_scaled(w->out, durations->sum_ns, 9);
	strbuf_lit(w->out, "\n");
	add_integer(w, family, "_count", labels, n);
	add_created(w, family, labels);
}

static void add_durations(struct metrics_writer *w, const struct family *family,
			  const struct watch_target *target)
{
	for (size_t i = 0; i < target->n_pairs; i++) {
		const struct watch_pair *pair = &target->pairs[i];
		const struct durations all = durations_of(&pair->sum);
		struct labels labels = labels_of(target, pair);

		for (size_t v = 0; v < pair->n_values; v++) {
			const struct watch_value_times *times = &pair->values[v];

			labels.value = target->label->values[times->value];
			add_histogram(
				w, family, &labels,
				&(struct durations){ times->count, times->sum_ns, times->buckets });
		}
		if (!pair->n_values)
			add_histogram(w, family, &labels, &all);
	}
}

static void add_orphans(struct metrics_writer *w, const struct family *family,
			const struct watch_target *target)
{
	for (size_t i = 0; i < target->n_pairs; i++) {
		const struct ocp_pair *sum = &target->pairs[i].sum;
		struct labels labels = labels_of(target, &target->pairs[i]);

		labels.side = "start";
		add_counter(w, family, &labels, sum->orphan_starts);
		labels.side = "stop";
		add_counter(w, family, &labels, sum->orphan_stops);
	}
}

static void add_mismatched(struct metrics_writer *w, const struct family *family,
			   const struct watch_target *target)
{
	for (size_t i = 0; i < target->n_pairs; i++) {
		const struct labels labels = labels_of(target, &target->pairs[i]);

		add_counter(w, family, &labels, target->pairs[i].sum.mismatched);
	}
}

static void add_open(struct metrics_writer *w, const struct family *family,
		     const struct watch_target *target)
{
	for (size_t i = 0; i < target->n_pairs; i++) {
		const struct labels labels = labels_of(target, &target->pairs[i]);

		add_integer(w, family, "", &labels, target->pairs[i].sum.open);
	}
}

/* ---- the garbage collector ------------------------------------------------------------------ */

/*
 * Add a sample of the garbage collector. Write no _created: counters that began when the process
 * started are older than the other counters of the target.
 */
static void add_figure(struct metrics_writer *w, const struct family *family,
		       const struct watch_target *target, uint64_t value)
{
	add_integer(w, family, family->kind == COUNTER ? "_total" : "",
		    &(struct labels){ .target = target }, value);
}

static void add_gc_processes(struct metrics_writer *w, const struct family *family,
			     const struct watch_target *target)
{
	if (target->gc.is_known)
		add_figure(w, family, target, target->gc.n_processes);
}

/*
 * Define a function that adds the member NAME of target->gc if the member CONDITION of target->gc
 * is true.
 */
#define DEFINE_ADD(name, condition)                                                                \
	static void add_gc_##name(struct metrics_writer *w, const struct family *family,           \
				  const struct watch_target *target)                               \
	{                                                                                          \
		if (target->gc.is_known && target->gc.condition)                                   \
			add_figure(w, family, target, target->gc.name);                            \
	}

DEFINE_ADD(heap_words, has_words)
DEFINE_ADD(top_heap_words, has_words)
DEFINE_ADD(allocated_words, has_words)
DEFINE_ADD(minor_words, has_words)
DEFINE_ADD(promoted_words, has_words)
DEFINE_ADD(major_words, has_words)
DEFINE_ADD(minor_collections, is_known)
DEFINE_ADD(major_collections, is_known)
DEFINE_ADD(compactions, has_compactions)

/* Add the pauses in the timed phases: the pair "gc:minor" becomes the phase "minor". */
static void add_gc_pauses(struct metrics_writer *w, const struct family *family,
			  const struct watch_target *target)
{
	static const char prefix[] = "gc:";

	for (size_t i = 0; i < target->n_pairs; i++) {
		const struct watch_pair *pair = &target->pairs[i];
		const struct labels labels = { .phase = pair->start + sizeof(prefix) - 1,
					       .target = target };
		const struct durations all = durations_of(&pair->sum);

		if (!*pair->stop && strncmp(pair->start, prefix, sizeof(prefix) - 1) == 0)
			add_histogram(w, family, &labels, &all);
	}
}

/* ---- profiles ------------------------------------------------------------------------------- */

/*
 * Write a family with a sample for each kind of profile. COUNTS points to a member of of[0] in a
 * struct profile_counts, for example of[0].served; the same member of the other elements has the
 * counts of the other kinds.
 */
static void write_counts(struct metrics_writer *w, const struct family *family,
			 const uint64_t *counts)
{
	static const char *const kinds[] = {
		[COUNT_CPU] = "cpu", [COUNT_ALLOC] = "alloc", [COUNT_HEAP] = "heap"
	};
	const size_t stride = sizeof(((struct profile_counts *)NULL)->of[0]) / sizeof(*counts);

	begin_family(w, family);
	for (size_t i = 0; i < COUNT_KINDS; i++) {
		add_metric_name(w, family, "_total{");
		add_label(w, "kind", kinds[i]);
		strbuf_lit(w->out, "} ");
		strbuf_u64(w->out, counts[i * stride]);
		strbuf_lit(w->out, "\n");
	}
}

/*
 * Write the figures of Gc.Memprof: one family for each member of struct heap_figures, with a sample
 * for each program.
 */
static void write_heaps(struct metrics_writer *w, const struct profile_counts *profiles)
{
	static const struct {
		struct family family;
		size_t at; /* offset in struct heap_figures */
	} all[] = {
		{ { "probes_memprof_processes", GAUGE, NULL,
		    "Processes that Gc.Memprof profiles for serve." },
		  offsetof(struct heap_figures, processes) },
		{ { "probes_memprof_live_words", GAUGE, NULL,
		    "Words that are alive, of those allocated since the profile began (estimate)." },
		  offsetof(struct heap_figures, live_words) },
		{ { "probes_memprof_allocated_words", COUNTER, NULL,
		    "Words allocated since the profile began (estimate)." },
		  offsetof(struct heap_figures, allocated_words) },
		{ { "probes_memprof_lost_events", COUNTER, NULL,
		    "Events of Gc.Memprof for which there was no room." },
		  offsetof(struct heap_figures, lost_events) },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *at = profiles->heaps, *end = at + profiles->n_heaps, *exe;
		struct heap_figures figures;
		uint64_t number;

		begin_family(w, &all[i].family);
		while (heap_figures_next(&at, end, &figures, &exe)) {
			add_metric_name(w, &all[i].family,
					all[i].family.kind == COUNTER ? "_total{" : "{");
			add_label(w, "exe", exe);
			strbuf_lit(w->out, "} ");
			memcpy(&number, (const char *)&figures + all[i].at, sizeof(number));
			strbuf_u64(w->out, number);
			strbuf_lit(w->out, "\n");
		}
	}
}

static void write_profiles(struct metrics_writer *w, const struct profile_counts *profiles)
{
	static const struct family served = { "profiles_served", COUNTER, NULL,
					      "Profiles that were served." };
	static const struct family failed = { "profiles_failed", COUNTER, NULL,
					      "Profiles that could not be taken." };
	static const struct family samples = { "profile_samples", COUNTER, NULL,
					       "Samples in the profiles that were served." };
	static const struct family truncated = { "profile_truncated_samples", COUNTER, NULL,
						 "Samples whose stacks lack callers." };
	static const struct family lost = { "profile_lost_samples", COUNTER, NULL,
					    "Samples that are missing in the profiles." };

	write_counts(w, &served, &profiles->of[0].served);
	write_counts(w, &failed, &profiles->of[0].failed);
	write_counts(w, &samples, &profiles->of[0].samples);
	write_counts(w, &truncated, &profiles->of[0].truncated);
	write_counts(w, &lost, &profiles->of[0].lost);
}

/* ---- all ------------------------------------------------------------------------------------ */

static const struct {
	struct family family;
	void (*add)(struct metrics_writer *w, const struct family *family,
		    const struct watch_target *target);
} families[] = {
	{ { "probes_up", GAUGE, NULL,
	    "1 if a process of the program runs and is measured, else 0." },
	  add_up_gauge },
	{ { "probes_engine", GAUGE, NULL,
	    "1 for the engine that measures the program: bpf (the kernel) or inside (the process)." },
	  add_engine },
	{ { "probes_processes", GAUGE, NULL, "Processes that run the program." },
	  add_process_count },
	{ { "probes_hits", COUNTER, NULL, "Hits of a probe, with its handlers on or off." },
	  add_hit_counters },
	{ { "probes_enabled", GAUGE, NULL, "Processes in which the probe's handlers are on." },
	  add_enabled },
	{ { "probes_counted", GAUGE, NULL, "1 if hits of the probe are counted, else 0." },
	  add_counted },
	{ { "probes_uses_without_site", GAUGE, NULL,
	    "Uses of the probe without a site, whose hits are not counted." },
	  add_uses_without_site },
	{ { "probes_pair_duration_seconds", HISTOGRAM, "seconds",
	    "Time from a hit of the start probe to the next hit of the stop probe, or of the "
	    "calls of a function." },
	  add_durations },
	{ { "probes_pair_orphans", COUNTER, NULL,
	    "Orphans of a pair: starts without a stop, and stops without a start." },
	  add_orphans },
	{ { "probes_pair_mismatched", COUNTER, NULL,
	    "Pairs by thread that have the start of one request and the stop of another: an argument "
	    "differs." },
	  add_mismatched },
	{ { "probes_pair_open", GAUGE, NULL, "Starts without a stop so far." }, add_open },
	{ { "probes_lost", COUNTER, NULL, "Losses of the measurement, by reason." },
	  add_loss_counters },
	{ { "probes_label_values", GAUGE, NULL,
	    "Values of the argument given by `by` that have separate samples." },
	  add_label_values },
	{ { "probes_label_limit", GAUGE, NULL,
	    "The largest number of such values; the hits of all others have the value other." },
	  add_label_limit },
	{ { "probes_cpu_overhead_seconds", COUNTER, "seconds",
	    "CPU overhead of measuring: hits times cost per hit." },
	  add_cost },
	{ { "probes_cost_per_hit_seconds", GAUGE, "seconds", "Cost per hit of measuring." },
	  add_hit_cost },
	{ { "gc_processes", GAUGE, NULL, "Processes whose collector's figures can be read." },
	  add_gc_processes },
	{ { "gc_heap_words", GAUGE, NULL, "Words in the major heaps." }, add_gc_heap_words },
	{ { "gc_top_heap_words", GAUGE, NULL, "Largest sizes of the major heaps, in words." },
	  add_gc_top_heap_words },
	{ { "gc_allocated_words", COUNTER, NULL, "Words allocated, as minor or major words." },
	  add_gc_allocated_words },
	{ { "gc_minor_words", COUNTER, NULL, "Words allocated in minor heaps." },
	  add_gc_minor_words },
	{ { "gc_promoted_words", COUNTER, NULL,
	    "Words that minor collections moved to the major heap." },
	  add_gc_promoted_words },
	{ { "gc_major_words", COUNTER, NULL,
	    "Words allocated in the major heap, with those that were promoted." },
	  add_gc_major_words },
	{ { "gc_minor_collections", COUNTER, NULL, "Minor collections." },
	  add_gc_minor_collections },
	{ { "gc_major_collections", COUNTER, NULL, "Major cycles completed." },
	  add_gc_major_collections },
	{ { "gc_compactions", COUNTER, NULL, "Compactions of the heap." }, add_gc_compactions },
	{ { "gc_pause_seconds", HISTOGRAM, "seconds",
	    "Pauses in a phase of the collector that is timed." },
	  add_gc_pauses },
};

void metrics_write(struct strbuf *out, const struct watch *watch, enum exposition exposition,
		   const struct buckets *buckets, bool label_pid,
		   const struct profile_counts *profiles)
{
	struct metrics_writer w = {
		.out = out,
		.watch = watch,
		.buckets = buckets,
		.is_open = exposition != EXPOSITION_TEXT,
		.label_pid = label_pid,
	};

	write_build_info(&w);
	write_time(&w);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		begin_family(&w, &families[i].family);
		for (size_t t = 0; t < watch_target_count(watch); t++)
			families[i].add(&w, &families[i].family, watch_target(watch, t));
	}
	if (profiles)
		write_profiles(&w, profiles);
	if (profiles && profiles->heaps)
		write_heaps(&w, profiles);
	if (w.is_open)
		strbuf_lit(out, "# EOF\n");
}
