// SPDX-License-Identifier: MIT
/*
 * `gc`: print what the garbage collector of a process does. The figures are read at the start, at
 * the end of each interval and at the end. They are also read periodically in between, since a
 * process that has ended cannot be read. For an ended process, the figures that were read last are
 * printed.
 */
#include "tool/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "code/gc_phases.h"
#include "measure/domain_pairs.h"
#include "measure/meter.h"
#include "ocaml_probes.h"
#include "process/gc_gauges.h"
#include "profile/profile.h"
#include "program/code_probes.h"
#include "program/program.h"
#include "tool/gc_plan.h"
#include "tool/json.h"
#include "tool/profile_output.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "tool/writer.h"
#include "look/proc_file.h"

/* ---- pauses --------------------------------------------------------------------------------- */

/*
 * The maximum number of rows for pauses by domain. A row has 4 KB, and counts the pauses of one
 * phase in one domain. Pauses for which no row is left are counted only in the sums over all
 * domains.
 */
enum { MAX_DOMAIN_ROWS = 1024 };

struct gc_pauses {
	bool is_inside; /* the engine is `inside` */
	struct gc_refusals refusals;
	struct ocp_process *proc;
	struct ocp_meter *meter;
	/* the sample at the end of the previous interval; at first, the sample at the start */
	struct ocp_sample *last;
	struct ocp_sample *shown;
};

static int request_phases(struct ocp_meter *meter, const struct gc_plan *plan)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->n; i++)
		err = plan->is_timed[i] ? ocp_meter_time(meter, plan->names[i], NULL)
					: ocp_meter_count(meter, plan->names[i]);
	/* If no phase can be measured, the ctx has the message about the last phase. */
	return err || plan->n ? err : -ENODATA;
}

static int ask_for_phases(struct ocp_ctx *ctx, struct gc_pauses *pauses, pid_t pid)
{
	struct gc_plan plan = { .n = 0 };
	struct ocp_program *prog = NULL;
	struct runtime runtime;
	const int fd = proc_open_exe(pid);
	int err;

	if (fd < 0)
		return ctx_error(ctx, fd, "/proc/%d/exe: %s", (int)pid, strerror(-fd));
	err = program_open_fd(ctx, fd, ocp_process_exe(pauses->proc), &prog);
	if (!err)
		err = runtime_recognise(ctx, prog->elf, &runtime);
	if (!err)
		err = gc_plan_make(ctx, prog->elf, &runtime, &plan);
	if (!err && pauses->is_inside)
		err = gc_plan_fit_inside(ctx, prog, &plan, &pauses->refusals);
	if (!err)
		err = request_phases(pauses->meter, &plan);
	ocp_program_free(prog);
	if (!err && !pauses->is_inside && runtime.facts.at[FACT_UNIQUE_ID] &&
	    runtime.places.state_tls)
		meter_split_by_domain(pauses->meter, &(struct engine_domains){
							     .max = MAX_DOMAIN_ROWS,
							     .tls = runtime.places.state_tls,
							     .id = runtime.facts.at[FACT_UNIQUE_ID],
						     });
	return err;
}

/* Stop measuring, and free PAUSES, which may be NULL. */
static void gc_pauses_close(struct gc_pauses *pauses)
{
	if (!pauses)
		return;
	gc_refusals_free(&pauses->refusals);
	ocp_sample_free(pauses->shown);
	ocp_sample_free(pauses->last);
	ocp_meter_free(pauses->meter);
	ocp_process_free(pauses->proc);
	free(pauses);
}

/*
 * Begin to measure the process of OPTIONS, with the engine `inside` or with BPF. Phases that the
 * executable or its runtime lacks are left out. On error, the ctx has a message.
 */
static int gc_pauses_open(const struct options *options, bool is_inside, struct gc_pauses **out)
{
	struct ocp_ctx *ctx = options->ctx;
	struct gc_pauses *pauses = calloc(1, sizeof(*pauses));
	int err = pauses ? ocp_process_open(ctx, options->pid, &pauses->proc) : ctx_no_memory(ctx);

	if (!err) {
		pauses->is_inside = is_inside;
		pauses->meter = ocp_meter_new(ctx);
		err = pauses->meter ? 0 : -ENOMEM;
	}
	if (!err && is_inside)
		meter_use_inside(pauses->meter);
	if (!err)
		err = ocp_meter_add_process(pauses->meter, pauses->proc);
	if (!err)
		err = ask_for_phases(ctx, pauses, options->pid);
	if (!err)
		err = ocp_meter_open(pauses->meter);
	if (!err)
		err = ocp_meter_attach(pauses->meter);
	if (!err)
		err = ocp_meter_read(pauses->meter, &pauses->last);
	if (err) {
		gc_pauses_close(pauses);
		return err;
	}
	*out = pauses;
	return 0;
}

/*
 * Read the measurement since the start (IS_TOTAL), or since the last read that was not a total.
 * *SAMPLE belongs to PAUSES and is valid until the next read. After an error, *SAMPLE is unchanged
 * or NULL.
 */
static int gc_pauses_read(struct gc_pauses *pauses, bool is_total, const struct ocp_sample **sample)
{
	struct ocp_sample *now;
	int err = ocp_meter_read(pauses->meter, &now);

	if (err)
		return err;
	ocp_sample_free(pauses->shown);
	pauses->shown = now;
	if (!is_total) {
		err = ocp_sample_difference(now, pauses->last, &pauses->shown);
		ocp_sample_free(pauses->last);
		pauses->last = now;
	}
	*sample = pauses->shown;
	return err;
}

/*
 * The share of a process's CPU time that the garbage collector takes, for `gc`: a CPU profile
 * beside the gauges and pauses. Pauses include time in which the process waits for a processor;
 * samples measure CPU time only.
 */

/*
 * Samples per second. After one second the share is known to 2%; a sample takes some microseconds.
 */
enum { HZ = 499 };

struct collector_share {
	/*
	 * a separate ctx, whose messages are not shown: if sampling fails, only the line about the
	 * share is missing
	 */
	struct ocp_ctx *ctx;
	struct profiler_spec spec;
	struct profiler *profiler;
	struct frame_names *names;
};

static int start_collector_profile(struct collector_share *share)
{
	const pid_t pid = share->spec.pid;
	int err = profiler_open(share->ctx, &share->spec, &share->profiler);

	if (!err)
		err = profiler_add_process(share->profiler, pid);
	if (!err)
		err = frame_names_open(share->ctx, profiler_walker(share->profiler), &share->names);
	return err ? err : profiler_start(share->profiler);
}

static void collector_share_close(struct collector_share *share)
{
	if (!share)
		return;
	frame_names_close(share->names);
	profiler_close(share->profiler);
	ocp_ctx_free(share->ctx);
	free(share);
}

/* Begin to sample process PID. Return NULL if this user, kernel or process cannot be sampled. */
static struct collector_share *collector_share_begin(pid_t pid)
{
	struct collector_share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	share->ctx = ocp_ctx_new();
	share->spec = (struct profiler_spec){
		.kind = PROFILE_GC, .hz = HZ, .max_processes = 1, .pid = pid
	};
	if (share->ctx && start_collector_profile(share) == 0)
		return share;
	collector_share_close(share);
	return NULL;
}

/* Call this several times per second, since the process may load code. Accepts NULL. */
static void collector_share_refresh(struct collector_share *share)
{
	if (share)
		profiler_refresh(share->profiler);
}

/* End the sampling, and print a line if the share is known. Accepts NULL. */
static void collector_share_print(struct collector_share *share)
{
	struct profile_reading reading;
	struct profile profile;

	if (!share)
		return;
	profiler_stop(share->profiler);
	if (profiler_read(share->profiler, &reading) == 0) {
		if (profile_make(share->ctx, &reading, share->names, &share->spec, &profile) == 0) {
			profile_print_collector(&profile);
			profile_free(&profile);
		}
		profile_reading_free(&reading);
	}
}

/* ---- output --------------------------------------------------------------------------------- */

struct gc_report {
	pid_t pid;
	const char *exe;
	const struct runtime *runtime;
	const struct gc_gauges *now;
	/* the figures at the start of the span; those of single domains are not used */
	const struct gc_gauges *before;
	int64_t at_ns; /* time of the report, since the start of the command */
	int64_t span_ns;
	const struct ocp_sample *pauses; /* pauses in the span; NULL: not measured */
	bool has_domains;		 /* the pauses of each domain are known */
	bool is_total;			 /* the span is the whole session; otherwise an interval */
	bool is_first;			 /* this is the first output */
};

enum { GC_JSON_VERSION = 1 };

/*
 * Return the words that the program has allocated. Promoted words are subtracted, since both the
 * minor and the major sum include them.
 */
static double allocated(const struct gc_words *words)
{
	return words->minor + words->major - words->promoted;
}

/* ---- tables --------------------------------------------------------------------------------- */

/*
 * Print a figure that only grows: its value now, its growth in the span, and the growth per second.
 */
static void print_sum(const struct gc_report *report, const char *name, double now, double before)
{
	const double seconds = (double)report->span_ns / 1e9;
	const double grown = now - before;

	printf("%-18s %16.0f %14.0f %14.0f\n", name, now, grown, seconds > 0 ? grown / seconds : 0);
}

static void print_unknown(const char *name)
{
	printf("%-18s %16s %14s %14s\n", name, "-", "-", "-");
}

/* Print a figure that rises and falls, and its change in the span. */
static void print_level(const char *name, uint64_t now, uint64_t before)
{
	printf("%-18s %16" PRIu64 " %+14" PRId64 "\n", name, now, (int64_t)(now - before));
}

static void print_words(const struct gc_report *report)
{
	const struct gc_words *now = &report->now->words, *before = &report->before->words;

	if (report->now->lacks_ended_domains) {
		print_unknown("allocated words");
		print_unknown("minor words");
		print_unknown("promoted words");
		print_unknown("major words");
		return;
	}
	print_sum(report, "allocated words", allocated(now), allocated(before));
	print_sum(report, "minor words", now->minor, before->minor);
	print_sum(report, "promoted words", now->promoted, before->promoted);
	print_sum(report, "major words", now->major, before->major);
}

static void print_domains(const struct gc_gauges *now)
{
	printf("\n%6s %16s %16s %16s %14s %14s\n", "DOMAIN", "MINOR WORDS", "PROMOTED WORDS",
	       "MAJOR WORDS", "HEAP WORDS", "TOP HEAP WORDS");
	for (size_t i = 0; i < now->n_domains; i++) {
		const struct gc_domain *domain = &now->domains[i];
		const struct gc_words *words = &domain->words;

		printf("%6" PRIu64 " %16.0f %16.0f %16.0f %14" PRIu64 " %14" PRIu64 "\n",
		       domain->unique_id, words->minor, words->promoted, words->major, words->heap,
		       words->top_heap);
	}
}

static void print_phase(const char *name, const struct ocp_pair *pair, int64_t span_ns)
{
	char p50[TIME_BYTES], p99[TIME_BYTES], max[TIME_BYTES], sum[TIME_BYTES];

	printf("%-18s %16" PRIu64, name, pair->count);
	if (pair->count && span_ns > 0)
		printf(" %10s %10s %10s %12s %9.2f%%",
		       print_time(p50, (double)ocp_pair_quantile_ns(pair, 0.5)),
		       print_time(p99, (double)ocp_pair_quantile_ns(pair, 0.99)),
		       print_time(max, (double)pair->max_ns), print_time(sum, (double)pair->sum_ns),
		       100 * (double)pair->sum_ns / (double)span_ns);
	putchar('\n');
}

/*
 * If several domains had pauses of phase number PHASE, print the pauses of each of these domains.
 */
static void print_phase_by_domain(const struct gc_report *report, size_t phase)
{
	const struct domain_pairs *rows = sample_domain_pairs(report->pauses);
	uint64_t known = 0;
	size_t n = 0;
	char name[32];

	for (size_t i = 0; i < rows->n; i++)
		n += rows->list[i].pair == phase && rows->list[i].times.count;
	for (size_t i = 0; n > 1 && i < rows->n; i++) {
		const struct domain_pair *row = &rows->list[i];

		if (row->pair != phase || !row->times.count)
			continue;
		known += row->times.count;
		snprintf(name, sizeof(name), "  domain %" PRIu32, row->domain);
		print_phase(name, &row->times, report->span_ns);
	}
	if (n > 1 && known < ocp_sample_pair(report->pauses, phase)->count)
		printf("%-18s %16" PRIu64 "\n", "  other domains",
		       ocp_sample_pair(report->pauses, phase)->count - known);
}

/*
 * Print the pauses. A pause stops one thread. With several domains, pauses overlap, so the share
 * can exceed 100%.
 */
static void print_pauses(const struct gc_report *report)
{
	printf("\n%-18s %16s %10s %10s %10s %12s %10s\n", "PAUSES", "COUNT", "P50", "P99", "MAX",
	       "SUM", "OF TIME");
	for (size_t i = 0; i < ocp_sample_pair_count(report->pauses); i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->pauses, i);

		print_phase(pair->start, pair, report->span_ns);
		print_phase_by_domain(report, i);
	}
	for (size_t i = 0; i < ocp_sample_hits_count(report->pauses); i++) {
		const struct ocp_hits *hits = ocp_sample_hits(report->pauses, i);

		printf("%-18s %16" PRIu64 "\n", hits->probe, hits->hits);
	}
	for (size_t i = 0; report->is_total && i < ocp_sample_pair_count(report->pauses); i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->pauses, i);

		if (!pair->count)
			continue;
		printf("\n%s\n", pair->start);
		print_histogram_of_times(pair->buckets);
	}
}

static void gc_write_table(const struct gc_report *report)
{
	const struct gc_gauges *now = report->now, *before = report->before;
	char after[32], in[32];

	snprintf(after, sizeof(after), "AFTER %.1f s", (double)report->at_ns / 1e9);
	snprintf(in, sizeof(in), "IN %.1f s", (double)report->span_ns / 1e9);
	if (!report->is_first)
		putchar('\n');
	printf("%-18s %16s %14s %14s\n", after, "SO FAR", in, "PER SECOND");
	print_words(report);
	print_sum(report, "minor collections", (double)now->minor_collections,
		  (double)before->minor_collections);
	print_sum(report, "major cycles", (double)now->major_collections,
		  (double)before->major_collections);
	if (now->has_compactions)
		print_sum(report, "compactions", (double)now->compactions,
			  (double)before->compactions);
	if (now->lacks_ended_domains) {
		print_unknown("heap words");
		print_unknown("top heap words");
	} else {
		print_level("heap words", now->words.heap, before->words.heap);
		print_level("top heap words", now->words.top_heap, before->words.top_heap);
	}
	if (now->n_domains > 1 || now->lacks_ended_domains)
		print_domains(now);
	if (report->pauses)
		print_pauses(report);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Add the figures in words. Sums of words are whole numbers. */
static void add_words(struct json_object *object, const struct gc_words *words)
{
	json_add_uint(object, "minor_words", (uint64_t)words->minor);
	json_add_uint(object, "promoted_words", (uint64_t)words->promoted);
	json_add_uint(object, "major_words", (uint64_t)words->major);
	json_add_uint(object, "heap_words", words->heap);
	json_add_uint(object, "top_heap_words", words->top_heap);
}

static struct json_object *domains_json(const struct gc_gauges *now)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < now->n_domains; i++) {
		struct json_object *domain = json_object_new_object();

		json_add_uint(domain, "domain", now->domains[i].unique_id);
		add_words(domain, &now->domains[i].words);
		json_object_array_add(array, domain);
	}
	return array;
}

static struct json_object *rates_json(const struct gc_report *report)
{
	const struct gc_words *now = &report->now->words, *before = &report->before->words;
	const double seconds = (double)report->span_ns / 1e9;
	struct json_object *object = json_object_new_object();

	if (seconds <= 0 || report->now->lacks_ended_domains)
		return object;
	json_add_double(object, "allocated_words", (allocated(now) - allocated(before)) / seconds);
	json_add_double(object, "minor_words", (now->minor - before->minor) / seconds);
	json_add_double(object, "promoted_words", (now->promoted - before->promoted) / seconds);
	json_add_double(object, "major_words", (now->major - before->major) / seconds);
	return object;
}

/* Return an array of the domains that had pauses of phase number PHASE. */
static struct json_object *pauses_by_domain_json(const struct ocp_sample *pauses, size_t phase)
{
	const struct domain_pairs *rows = sample_domain_pairs(pauses);
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < rows->n; i++) {
		struct json_object *object;

		if (rows->list[i].pair != phase)
			continue;
		object = json_of_pair(&rows->list[i].times);
		json_add_uint(object, "domain", rows->list[i].domain);
		json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *pauses_json(const struct gc_report *report)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < ocp_sample_pair_count(report->pauses); i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->pauses, i);
		struct json_object *object = json_of_pair(pair);

		if (report->span_ns > 0)
			json_add_double(object, "share",
					(double)pair->sum_ns / (double)report->span_ns);
		if (report->has_domains)
			json_object_object_add(object, "domains",
					       pauses_by_domain_json(report->pauses, i));
		json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *moments_json(const struct ocp_sample *pauses)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < ocp_sample_hits_count(pauses); i++)
		json_add_uint(object, ocp_sample_hits(pauses, i)->probe,
			      ocp_sample_hits(pauses, i)->hits);
	return object;
}

/* Print {"version":1,"type":"interval"|"total",...}, one object per line. */
static void gc_write_json(const struct gc_report *report)
{
	struct json_object *top = json_object_new_object(), *gauges = json_object_new_object();
	const struct gc_gauges *now = report->now;

	json_add_int(top, "version", GC_JSON_VERSION);
	json_add_string(top, "type", report->is_total ? "total" : "interval");
	json_add_uint(top, "pid", (uint64_t)report->pid);
	json_add_string(top, "exe", report->exe);
	json_add_string(top, "ocaml", report->runtime->version);
	json_add_double(top, "elapsed_s", (double)report->at_ns / 1e9);
	json_add_double(top, "span_s", (double)report->span_ns / 1e9);
	if (!now->lacks_ended_domains)
		add_words(gauges, &now->words);
	json_add_uint(gauges, "minor_collections", now->minor_collections);
	json_add_uint(gauges, "major_collections", now->major_collections);
	if (now->has_compactions)
		json_add_uint(gauges, "compactions", now->compactions);
	json_object_object_add(top, "gauges", gauges);
	json_object_object_add(top, "per_second", rates_json(report));
	json_object_object_add(top, "domains", domains_json(now));
	if (report->pauses) {
		json_object_object_add(top, "pauses", pauses_json(report));
		json_object_object_add(top, "counts", moments_json(report->pauses));
	}
	json_print(top, JSON_C_TO_STRING_PLAIN);
}

/* ---- the session ---------------------------------------------------------------------------- */

enum {
	KEEP_NS = 100 * 1000 * 1000,
	/* the longest time from when an ending process releases its memory to its exit */
	GRACE_NS = 100 * 1000 * 1000,
};

struct gc_session {
	struct options *options;
	struct session *session;
	struct gc_reader *reader;
	struct gc_pauses *pauses;      /* NULL: pauses are not measured */
	struct collector_share *share; /* NULL: the CPU time is not sampled */
	int64_t start_ns;
	/*
	 * Figures and the times when they were read: at the start, at the start of the current
	 * interval, and the latest ones.
	 */
	struct gc_gauges first, before, now;
	int64_t first_ns, before_ns, now_ns;
	bool has_written;
	bool runs_another; /* the process has executed another program */
	int err;
};

static int read_gauges(struct gc_session *s)
{
	struct gc_gauges gauges;

	s->err = gc_reader_read(s->reader, &gauges);
	if (s->err)
		return s->err;
	s->now = gauges;
	s->now_ns = session_now_ns();
	return 0;
}

/*
 * Return the pauses. If they cannot be read, say why and return NULL; the report then has no
 * pauses.
 */
static const struct ocp_sample *read_pauses(struct gc_session *s, bool is_total)
{
	const struct ocp_sample *sample = NULL;

	if (s->pauses && gc_pauses_read(s->pauses, is_total, &sample))
		say("pauses: %s", ocp_error(s->options->ctx));
	return sample;
}

static void write_report(struct gc_session *s, bool is_total)
{
	const struct gc_report report = {
		.pid = s->options->pid,
		.exe = gc_reader_exe(s->reader),
		.runtime = gc_reader_runtime(s->reader),
		.now = &s->now,
		.before = is_total ? &s->first : &s->before,
		.at_ns = s->now_ns - s->start_ns,
		.span_ns = s->now_ns - (is_total ? s->first_ns : s->before_ns),
		.pauses = read_pauses(s, is_total),
		.has_domains = gc_reader_runtime(s->reader)->has_domains && s->pauses &&
			       !s->pauses->is_inside,
		.is_total = is_total,
		.is_first = !s->has_written,
	};

	s->has_written = true;
	if (s->options->json)
		gc_write_json(&report);
	else
		gc_write_table(&report);
	fflush(stdout);
}

/*
 * Read the figures, once each time that the session wakes. If the process has ended, return
 * ENDED_WITH_PROCESS, and keep the figures that were read last. Do the same if the process has
 * executed another program (s->runs_another).
 */
static enum ending read_now(void *data)
{
	struct gc_session *s = data;

	if (s->now_ns >= s->session->woke_ns)
		return NOT_ENDED;
	if (read_gauges(s) == 0) {
		collector_share_refresh(s->share);
		return NOT_ENDED;
	}
	if (s->err != -ESRCH)
		return ENDED_BY_ERROR;
	s->runs_another =
		session_wait(s->session, session_now_ns() + GRACE_NS) != ENDED_WITH_PROCESS;
	return ENDED_WITH_PROCESS;
}

static enum ending write_interval(void *data)
{
	struct gc_session *s = data;
	const enum ending ending = read_now(s);

	if (ending != NOT_ENDED)
		return ending;
	write_report(s, false);
	s->before = s->now;
	s->before_ns = s->now_ns;
	return NOT_ENDED;
}

static enum ending read_gauges_until_end(struct gc_session *s)
{
	struct session_timer timers[] = {
		session_pause(KEEP_NS, read_now),
		session_every(s->start_ns, s->options->interval_ns, write_interval),
		session_every(s->start_ns, s->options->for_ns, NULL),
	};
	enum ending ending = session_run(s->session, &(struct session_events){
							     .timers = timers,
							     .n_timers = 3,
							     .data = s,
						     });

	if (ending == ENDED_BY_TIME || ending == ENDED_BY_SIGNAL) {
		const enum ending last = read_now(s);

		if (last == ENDED_BY_ERROR || (last != NOT_ENDED && ending == ENDED_BY_TIME))
			return last;
	}
	return ending;
}

static int measure_gc(struct gc_session *s)
{
	enum ending ending;

	s->start_ns = session_now_ns();
	if (read_gauges(s))
		return say_error(s->options->ctx, s->err);
	s->first = s->before = s->now;
	s->first_ns = s->before_ns = s->now_ns;
	ending = read_gauges_until_end(s);
	if (ending == ENDED_BY_ERROR)
		return s->session->err ? EXIT_FAILED : say_error(s->options->ctx, s->err);
	if (ending == ENDED_WITH_PROCESS && !s->runs_another && !s->options->quiet)
		say("pid %d has ended", (int)s->options->pid);
	write_report(s, true);
	if (!s->options->json)
		collector_share_print(s->share);
	fflush(stdout);
	if (s->now.lacks_ended_domains && !s->options->quiet)
		say("warning: %s: is stripped, so what ended domains have allocated is not known",
		    gc_reader_exe(s->reader));
	if (s->runs_another)
		return say_error(s->options->ctx, -ESRCH);
	return EXIT_DONE;
}

/* Say so if this tool was never tested with the version of RUNTIME. */
static void say_new_version(const struct runtime *runtime)
{
	enum { NEWEST_MAJOR = 5, NEWEST_MINOR = 5 };

	if (runtime->major > NEWEST_MAJOR ||
	    (runtime->major == NEWEST_MAJOR && runtime->minor > NEWEST_MINOR))
		say("OCaml %s is newer than %d.%d, the newest version that was tested; its figures "
		    "are where the code of its runtime reads them",
		    runtime->version, NEWEST_MAJOR, NEWEST_MINOR);
}

/*
 * Begin to measure the pauses, with the engine that the user has chosen. Without a choice, and with
 * `auto`, the engine is BPF, or `inside` if BPF is not permitted. If pauses cannot be measured, say
 * why; the report then has no pauses.
 */
static void open_pauses(struct gc_session *s)
{
	const struct options *options = s->options;
	const bool may_choose = options->engine == ENGINE_DEFAULT || options->engine == ENGINE_AUTO;
	char *reason = NULL;

	if (may_choose && meter_lacks_bpf(options->ctx))
		reason = strdup(ocp_error(options->ctx));
	if (reason && gc_pauses_open(options, true, &s->pauses) == 0 && !options->quiet)
		say("engine: inside, since BPF is not available: %s", reason);
	free(reason);
	if (!s->pauses && gc_pauses_open(options, options->engine == ENGINE_INSIDE, &s->pauses) &&
	    !options->quiet)
		say("pauses are not measured: %s", ocp_error(options->ctx));
	for (size_t i = 0; s->pauses && !options->quiet && i < s->pauses->refusals.n; i++)
		if (s->pauses->refusals.list[i])
			say("%s", s->pauses->refusals.list[i]);
}

static int run_gc(struct options *options)
{
	struct session session;
	struct gc_session s = { .options = options, .session = &session };
	int code;

	if (!options->pid)
		return say_usage(&command_gc, "-pid is required");
	progress_begin(options, "reading");
	s.err = gc_reader_open(options->ctx, options->pid, &s.reader);
	if (s.err)
		return say_error(options->ctx, s.err);
	if (!options->quiet)
		say_new_version(gc_reader_runtime(s.reader));
	if (!options->json)
		s.share = collector_share_begin(options->pid);
	/*
	 * Measure pauses last: collector_share_begin() can take tenths of a second, and the total
	 * must not include the pauses of that time. Reading the figures needs no privilege;
	 * measuring pauses does.
	 */
	code = session_open(&session, &options->pid, 1);
	if (code == EXIT_DONE) {
		open_pauses(&s);
		progress_end();
		code = measure_gc(&s);
	}
	/* Undo what was done to the process before a signal kills this one. */
	gc_pauses_close(s.pauses);
	session_close(&session);
	collector_share_close(s.share);
	gc_reader_free(s.reader);
	return code;
}

const struct command command_gc = {
	.name = "gc",
	.help = &help_gc,
	.takes_running = true,
	.run = run_gc,
};
