// SPDX-License-Identifier: MIT
/*
 * Print a report. Each line or block of the text has, at its right end, the command that shows more
 * of the same.
 */
#include "tool/overview.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/search.h"
#include "cli/pair_note.h"
#include "look/container.h"
#include "profile/wait_kinds.h"
#include "tool/json.h"
#include "tool/profile_output.h"
#include "tool/writer.h"

enum {
	OVERVIEW_JSON_VERSION = 1,
	COLUMNS = 80,
	LINE_BYTES = 1024,
	TOP = 5,	  /* rows for functions and probes */
	TOP_PAIRS = 3,	  /* rows for pairs */
	FEW_SAMPLES = 30, /* with fewer samples, shares mean little */
	WORD_BYTES = 8,
};

/* A program that uses less of a core than this is idle. */
static const double IDLE = 0.01;

/* What a profile is about, in text and in JSON, and the option of `profile`. */
static const struct {
	const char *title, *option;
} profile_texts[N_OVERVIEW_PROFILES] = {
	[PROFILE_CPU] = { "CPU time", "" },
	[PROFILE_WAITS] = { "waiting", " --off-cpu" },
	[PROFILE_WORDS] = { "allocation", " --alloc" },
};

/* The order of the profiles in the report. */
static const enum profile_kind profile_order[] = { PROFILE_CPU, PROFILE_WORDS, PROFILE_WAITS };

/* ---- numbers -------------------------------------------------------------------------------- */

static double seconds_of(int64_t ns)
{
	return (double)ns / 1e9;
}

static double per_second(double n, int64_t ns)
{
	return ns > 0 ? n / seconds_of(ns) : 0;
}

enum { SIZE_BYTES = 32 };

/* Write WORDS words to TEXT as bytes: "24.1 MB". Return TEXT. */
static const char *size_text(char text[SIZE_BYTES], double words)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double size = words * WORD_BYTES;
	size_t unit = 0;

	while (size >= 999.5 && unit + 1 < sizeof(units) / sizeof(*units)) {
		size /= 1000;
		unit++;
	}
	snprintf(text, SIZE_BYTES, "%.*f %s", unit && size < 99.95 ? 1 : 0, size, units[unit]);
	return text;
}

/* Write N events in NS nanoseconds to TEXT: "2713.8/s". Return TEXT. */
static const char *rate_text(char text[SIZE_BYTES], double n, int64_t ns)
{
	const double rate = per_second(n, ns);

	snprintf(text, SIZE_BYTES, "%.*f/s", rate < 99.95 ? 1 : 0, rate);
	return text;
}

/* The words that were allocated. Minor and major words both have the promoted ones. */
static double allocated_words(const struct overview_gauges *gauges)
{
	const struct gc_words *now = &gauges->now.words, *first = &gauges->first.words;

	return now->minor - first->minor + now->major - first->major -
	       (now->promoted - first->promoted);
}

static double cpu_cores(const struct overview *o)
{
	return o->cpu_ns < 0 ? 0 : per_second(seconds_of(o->cpu_ns), o->span_ns);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* A line of text that grows. */
struct overview_line {
	char text[LINE_BYTES];
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static void overview_add(struct overview_line *line,
							       const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(line->text + line->bytes, LINE_BYTES - line->bytes, fmt, args);
	va_end(args);
	if (n > 0)
		line->bytes += (size_t)n;
	if (line->bytes >= LINE_BYTES)
		line->bytes = LINE_BYTES - 1;
}

/*
 * Print LINE and, at the right margin, `ocaml-probes VERB PID REST`: on the next line if there is
 * no room.
 */
static void overview_line_print(const struct overview_line *line, const struct overview *o,
				const char *verb, const char *rest)
{
	struct overview_line command = { 0 };

	overview_add(&command, "ocaml-probes %s %d%s", verb, (int)o->pid, rest);
	print_text(line->text);
	if (line->bytes + 2 + command.bytes <= COLUMNS)
		printf("%*s\n", (int)(COLUMNS - line->bytes), command.text);
	else
		printf("\n%*s\n", COLUMNS, command.text);
}

/* ---- text: facts ---------------------------------------------------------------------------- */

static void print_program(const struct overview *o)
{
	struct overview_line line = { 0 };

	overview_add(&line, "%s: pid %d", o->exe, (int)o->pid);
	if (o->gauges.runtime)
		overview_add(&line, ", OCaml %s", o->gauges.runtime->version);
	if (o->gauges.runtime && o->gauges.runtime->has_domains)
		overview_add(&line, ", %zu domain%s", o->gauges.now.n_domains,
			     plural(o->gauges.now.n_domains));
	overview_add(&line, ", %lu thread%s", o->threads, plural(o->threads));
	overview_line_print(&line, o, "info", "");
}

static void print_cpu(const struct overview *o)
{
	const struct profile *waits = &o->profiles[PROFILE_WAITS].profile;
	struct overview_line line = { 0 };

	if (o->cpu_ns < 0)
		return;
	overview_add(&line, "CPU: %.1f%% of a core in %.1f s", 100 * cpu_cores(o),
		     seconds_of(o->span_ns));
	if (cpu_cores(o) < IDLE)
		overview_add(&line, ": the program is idle");
	if (!o->profiles[PROFILE_WAITS].why.text[0] && waits->always_waiting)
		overview_add(&line, ", %zu thread%s waited the whole time", waits->always_waiting,
			     plural(waits->always_waiting));
	overview_line_print(&line, o, "profile", " --by-thread");
}

/* Return the number of collections, minor and major, during the report. */
static uint64_t count_collections(const struct overview_gauges *g)
{
	return g->now.minor_collections - g->first.minor_collections + g->now.major_collections -
	       g->first.major_collections;
}

/* Print the collector's share of the CPU time, or why samples do not show it. */
static void print_collector_share(const struct overview *o)
{
	const struct overview_profile *cpu = &o->profiles[PROFILE_CPU];
	const struct collector_time *time = &cpu->profile.collector;
	const double percent = time->all ? 100 / (double)time->all : 0;
	struct overview_line line = { 0 };

	if (cpu->why.text[0] || !time->samples ||
	    (!time->collector && !count_collections(&o->gauges)))
		return;
	if (!profile_knows_collector(&cpu->profile)) {
		overview_add(&line, "collector: not known: ");
		if (time->doubtful)
			overview_add(&line, "%" PRIu64 " of %" PRIu64 " CPU samples lack callers",
				     time->doubtful, time->samples);
		else
			overview_add(&line, "in none of %" PRIu64 " CPU samples", time->samples);
		overview_line_print(&line, o, "profile", " --gc");
		return;
	}
	overview_add(&line, "collector: %.1f%% of %" PRIu64 " CPU samples (minor %.1f, major %.1f",
		     (double)time->collector * percent, time->samples,
		     (double)time->minor * percent, (double)time->major * percent);
	if (time->collector > time->minor + time->major)
		overview_add(&line, ", other %.1f",
			     (double)(time->collector - time->minor - time->major) * percent);
	overview_add(&line, ")");
	overview_line_print(&line, o, "profile", " --gc");
}

static void print_collections(const struct overview *o)
{
	const struct overview_gauges *g = &o->gauges;
	const double minor = (double)(g->now.minor_collections - g->first.minor_collections);
	const double major = (double)(g->now.major_collections - g->first.major_collections);
	const double promoted = g->now.words.promoted - g->first.words.promoted;
	char text[SIZE_BYTES];
	struct overview_line line = { 0 };

	overview_add(&line, "collections: ");
	if (g->why.text[0])
		overview_add(&line, "%s", g->why.text);
	else if (minor + major <= 0)
		overview_add(&line, "none in %.1f s", seconds_of(g->span_ns));
	else
		overview_add(&line, "minor %s", rate_text(text, minor, g->span_ns));
	if (minor + major > 0)
		overview_add(&line, ", major %s", rate_text(text, major, g->span_ns));
	if (minor + major > 0 && !g->now.lacks_ended_domains)
		overview_add(&line, "; promoted %s/s",
			     size_text(text, per_second(promoted, g->span_ns)));
	overview_line_print(&line, o, "gc", "");
}

static void add_heap_trend(struct overview_line *line, const struct overview_gauges *g)
{
	const uint64_t first = g->first.words.heap, now = g->now.words.heap;
	char size[SIZE_BYTES];

	if (g->least_heap == g->most_heap)
		overview_add(line, ", unchanged");
	else if (first == now)
		overview_add(line, ", as at the start");
	else
		overview_add(line, ", %s by %s", now > first ? "grew" : "shrank",
			     size_text(size, fabs((double)now - (double)first)));
	if (g->least_heap < (first < now ? first : now) ||
	    g->most_heap > (first > now ? first : now)) {
		overview_add(line, ", between %s", size_text(size, (double)g->least_heap));
		overview_add(line, " and %s", size_text(size, (double)g->most_heap));
	}
}

static void print_heap(const struct overview *o)
{
	const struct overview_gauges *g = &o->gauges;
	struct overview_line line = { 0 };
	char size[SIZE_BYTES];

	if (g->why.text[0])
		return;
	overview_add(&line, "heap: ");
	if (g->now.lacks_ended_domains) {
		overview_add(&line,
			     "not known, since the program is stripped and domains have ended");
		overview_line_print(&line, o, "gc", "");
		return;
	}
	overview_add(&line, "%s", size_text(size, (double)g->now.words.heap));
	add_heap_trend(&line, g);
	overview_add(&line, "; allocated %s/s",
		     size_text(size, per_second(allocated_words(g), g->span_ns)));
	overview_line_print(&line, o, o->has_memprof ? "memprof" : "gc",
			    o->has_memprof ? " --live" : "");
}

/* ---- text: profiles ------------------------------------------------------------------------- */

/* Add what the samples of PROFILE are, and what is wrong with them. */
static void add_samples(struct overview_line *line, const struct overview_profile *of)
{
	const struct profile *profile = &of->profile;
	const bool waits = profile->kind == PROFILE_WAITS;
	char time[TIME_BYTES];

	if (waits)
		overview_add(line, ": %s, the sum of all threads",
			     print_time(time, (double)profile->value));
	else
		overview_add(line, ": %" PRIu64 " sample%s", profile->samples,
			     plural(profile->samples));
	if (of->is_over_budget)
		overview_add(line, " in the first %.2f s",
			     seconds_of((int64_t)profile->duration_ns));
	if (!waits && profile->samples < FEW_SAMPLES)
		overview_add(line, ", too few for exact shares");
	if (profile->lost)
		overview_add(line, ", %" PRIu64 " lost", profile->lost);
	if (profile->in_calls > profile->samples / 10)
		overview_add(line, ", short system calls weigh too much");
}

/* Print what the threads have waited for most, and whether they lacked a CPU. */
static void print_waits(const struct profile *profile)
{
	enum { MOST = 2 };
	struct wait_sum sums[N_WAIT_KINDS];
	char time[TIME_BYTES];

	wait_kinds_sum(profile, sums);
	for (size_t n = 0; n < MOST; n++) {
		const enum wait_kind longest = wait_kinds_longest(sums);

		if (!sums[longest].ns)
			break;
		printf("%s%s (%.0f%%)", n ? ", " : "  for ", wait_kind_text(longest),
		       profile_share(profile, sums[longest].ns));
		sums[longest].ns = 0;
	}
	if (profile->value)
		putchar('\n');
	if (profile->knows_ready && profile->ready_ns >= profile->duration_ns / 100)
		printf("  ready, but without a CPU: %s\n",
		       print_time(time, (double)profile->ready_ns));
}

static void print_own_function(const struct overview_profile *of, const struct own_function *f)
{
	printf("%6.1f%%  ", profile_share(&of->profile, f->value));
	print_text(f->frame->function);
	putchar('\n');
}

static void print_profile_rows(const struct overview_profile *of)
{
	const uint64_t other = of->own.other_value;
	uint64_t rest = 0;

	for (size_t i = 0; i < of->own.n; i++) {
		if (i < TOP)
			print_own_function(of, &of->own.list[i]);
		else
			rest += of->own.list[i].value;
	}
	if (of->own.n > TOP)
		printf("%6.1f%%  (%zu other function%s of the program)\n",
		       profile_share(&of->profile, rest), of->own.n - TOP, plural(of->own.n - TOP));
	if (other)
		printf("%6.1f%%  (in no function of the program)\n",
		       profile_share(&of->profile, other));
}

static void print_profile_block(const struct overview *o, enum profile_kind kind)
{
	const struct overview_profile *of = &o->profiles[kind];
	struct overview_line line = { 0 };

	overview_add(&line, "%s", profile_texts[kind].title);
	if (of->why.text[0])
		overview_add(&line, ": not sampled: %s", of->why.text);
	else if (!of->profile.samples)
		overview_add(&line, ": %s", profile_empty_text(kind));
	else
		add_samples(&line, of);
	overview_line_print(&line, o, "profile", profile_texts[kind].option);
	if (of->why.text[0])
		return;
	if (kind == PROFILE_WAITS)
		print_waits(&of->profile);
	print_profile_rows(of);
}

/* ---- text: probes --------------------------------------------------------------------------- */

static int by_probe_hits(const void *a, const void *b)
{
	const struct ocp_probe_hits *const *x = a, *const *y = b;
	const int order = COMPARE((*y)->hits, (*x)->hits);

	return order ? order : strcmp((*x)->probe, (*y)->probe);
}

static int by_pair_p99(const void *a, const void *b)
{
	const struct ocp_pair *const *x = a, *const *y = b;

	return COMPARE(ocp_pair_quantile_ns(*y, 0.99), ocp_pair_quantile_ns(*x, 0.99));
}

/* Return the probes of SAMPLE, the one with most hits first; NULL if out of memory. */
static const struct ocp_probe_hits **sort_probes(const struct ocp_sample *sample, size_t *n)
{
	const struct ocp_probe_hits **list;

	*n = ocp_sample_probe_count(sample);
	list = calloc(*n + 1, sizeof(struct ocp_probe_hits *));
	for (size_t i = 0; list && i < *n; i++)
		list[i] = ocp_sample_probe(sample, i);
	if (list)
		qsort(list, *n, sizeof(struct ocp_probe_hits *), by_probe_hits);
	return list;
}

/* Return the pairs of SAMPLE that have begun, the slowest first; NULL if out of memory. */
static const struct ocp_pair **sort_pairs(const struct ocp_sample *sample, size_t *n)
{
	const size_t n_all = ocp_sample_pair_count(sample);
	const struct ocp_pair **list = calloc(n_all + 1, sizeof(struct ocp_pair *));

	*n = 0;
	for (size_t i = 0; list && i < n_all; i++)
		if (ocp_sample_pair(sample, i)->starts)
			list[(*n)++] = ocp_sample_pair(sample, i);
	if (list)
		qsort(list, *n, sizeof(struct ocp_pair *), by_pair_p99);
	return list;
}

static void print_probe_rows(const struct ocp_sample *sample)
{
	const int64_t ns = ocp_sample_time_ns(sample);
	const struct ocp_probe_hits **list;
	char rate[SIZE_BYTES];
	size_t n, n_hit = 0;

	list = sort_probes(sample, &n);
	for (size_t i = 0; list && i < n; i++) {
		n_hit += list[i]->hits != 0;
		if (i < TOP && list[i]->hits)
			printf("%12s  %s\n", rate_text(rate, (double)list[i]->hits, ns),
			       list[i]->probe);
	}
	if (n_hit > TOP)
		printf("%12s  (%zu other%s)\n", "", n_hit - TOP, plural(n_hit - TOP));
	free(list);
}

static void print_pair_row(const struct ocp_pair *pair, int64_t ns)
{
	char note[PAIR_NOTE_BYTES], name[LINE_BYTES], rate[SIZE_BYTES];
	char p50[TIME_BYTES], p99[TIME_BYTES], max[TIME_BYTES];

	pair_name(name, sizeof(name), pair->start, pair->stop);
	if (pair_note(note, pair->start, pair->stop, pair)) {
		printf("%12s  ", "");
		print_text(note);
		putchar('\n');
	} else if (pair->count) {
		printf("%12s  %s: p50 %s, p99 %s, max %s\n",
		       rate_text(rate, (double)pair->count, ns), name,
		       print_time(p50, (double)ocp_pair_quantile_ns(pair, 0.5)),
		       print_time(p99, (double)ocp_pair_quantile_ns(pair, 0.99)),
		       print_time(max, (double)pair->max_ns));
	} else {
		printf("%12s  %s: %" PRIu64 " begun, none ended\n", "", name, pair->starts);
	}
}

/* Print the slowest pairs. */
static void print_pairs_block(const struct overview *o)
{
	const struct overview_probes *probes = &o->probes;
	const struct ocp_pair **list;
	struct overview_line line = { 0 }, rest = { 0 };
	char name[LINE_BYTES], time[TIME_BYTES];
	size_t n;

	if (probes->pairs_why.text[0]) {
		overview_add(&line, "pairs: not timed: %s", probes->pairs_why.text);
		overview_line_print(&line, o, "info", " --sites");
		return;
	}
	list = sort_pairs(probes->sample, &n);
	if (list && n) {
		pair_name(name, sizeof(name), list[0]->start, list[0]->stop);
		overview_add(&rest, " --time %s", name);
		overview_add(&line, "pairs by p99");
		if (probes->costs.empty_pair_ns > 0)
			overview_add(&line, ", an empty one takes %s",
				     print_time(time, probes->costs.empty_pair_ns));
		overview_line_print(&line, o, "attach", rest.text);
	}
	for (size_t i = 0; list && i < n && i < TOP_PAIRS; i++)
		print_pair_row(list[i], ocp_sample_time_ns(probes->sample));
	free(list);
}

static void print_probes_block(const struct overview *o)
{
	const struct overview_probes *probes = &o->probes;
	struct overview_line line = { 0 };
	char rate[SIZE_BYTES];
	uint64_t hits;

	if (!probes->n) {
		overview_add(&line, "probes: none; functions can be counted");
		overview_line_print(&line, o, "functions", "");
		return;
	}
	overview_add(&line, "probes: %zu", probes->n);
	if (probes->why.text[0] || !probes->sample) {
		overview_add(&line, ", not counted: %s", probes->why.text);
		overview_line_print(&line, o, "info", "");
		return;
	}
	hits = ocp_sample_all_hits(probes->sample);
	overview_add(&line, ", %" PRIu64 " hit%s", hits, plural(hits));
	if (hits)
		overview_add(&line, ", %s%s", probes->is_slowed ? "at least " : "",
			     rate_text(rate, (double)hits, ocp_sample_time_ns(probes->sample)));
	if (probes->is_over_budget)
		overview_add(&line, " in the first %.2f s",
			     seconds_of(ocp_sample_time_ns(probes->sample)));
	overview_line_print(&line, o, "attach", " --count");
	print_probe_rows(probes->sample);
	print_pairs_block(o);
}

void overview_print_text(const struct overview *o)
{
	print_program(o);
	print_cpu(o);
	print_collector_share(o);
	print_collections(o);
	print_heap(o);
	for (size_t i = 0; i < N_OVERVIEW_PROFILES; i++)
		print_profile_block(o, profile_order[i]);
	print_probes_block(o);
	if (o->no_bpf.text[0]) {
		printf("without BPF: ");
		print_text(o->no_bpf.text);
		putchar('\n');
	}
	printf("this report has cost the program %.2f%% of a core\n",
	       100 * per_second(o->cost_ns / 1e9, o->span_ns));
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* If WHY is set, add it to OBJECT and return true. */
static bool add_why(struct json_object *object, const struct overview_why *why)
{
	if (why->text[0])
		json_add_string(object, "why", why->text);
	return why->text[0] != '\0';
}

static struct json_object *json_of_own(const struct own_function *f, const char *unit)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "function", f->frame->function);
	json_add_string(object, "item", f->frame->item);
	json_add_uint(object, "samples", f->samples);
	json_add_uint(object, unit, f->value);
	return object;
}

static struct json_object *json_of_profile(const struct overview_profile *of)
{
	struct json_object *object = json_object_new_object(), *list = json_object_new_array();
	const struct profile *profile = &of->profile;
	const char *unit = profile->kind == PROFILE_WORDS ? "words" : "ns";

	json_object_object_add(object, "functions", list);
	if (add_why(object, &of->why))
		return object;
	if (profile_is_sampled(profile->kind))
		json_add_uint(object, "hz", profile->hz);
	json_add_string(object, "engine", profile->by_ptrace ? "ptrace" : "bpf");
	json_add_uint(object, "duration_ns", profile->duration_ns);
	json_add_bool(object, "over_budget", of->is_over_budget);
	json_add_uint(object, "samples", profile->samples);
	json_add_uint(object, unit, profile->value);
	json_add_uint(object, "lost", profile->lost);
	json_add_uint(object, "truncated", profile->truncated);
	profile_json_waits(object, profile);
	json_add_uint(object, "other_samples", of->own.other_samples);
	json_add_uint(object, profile->kind == PROFILE_WORDS ? "other_words" : "other_ns",
		      of->own.other_value);
	for (size_t i = 0; i < of->own.n; i++)
		json_object_array_add(list, json_of_own(&of->own.list[i], unit));
	return object;
}

static struct json_object *json_of_gauges(const struct overview *o)
{
	const struct overview_gauges *g = &o->gauges;
	const struct gc_gauges *now = &g->now, *first = &g->first;
	const struct profile *cpu = &o->profiles[PROFILE_CPU].profile;
	struct json_object *object = json_object_new_object();

	if (!o->profiles[PROFILE_CPU].why.text[0] && profile_knows_collector(cpu)) {
		json_add_uint(object, "cpu_ns", cpu->collector.all);
		json_add_uint(object, "collector_ns", cpu->collector.collector);
		json_add_uint(object, "minor_ns", cpu->collector.minor);
		json_add_uint(object, "major_ns", cpu->collector.major);
	}
	if (add_why(object, &g->why))
		return object;
	json_add_double(object, "span_s", seconds_of(g->span_ns));
	json_add_uint(object, "minor_collections",
		      now->minor_collections - first->minor_collections);
	json_add_uint(object, "major_collections",
		      now->major_collections - first->major_collections);
	if (now->lacks_ended_domains)
		return object;
	json_add_uint(object, "heap_words", now->words.heap);
	json_add_uint(object, "first_heap_words", first->words.heap);
	json_add_uint(object, "least_heap_words", g->least_heap);
	json_add_uint(object, "most_heap_words", g->most_heap);
	json_add_uint(object, "allocated_words", (uint64_t)allocated_words(g));
	json_add_uint(object, "promoted_words",
		      (uint64_t)(now->words.promoted - first->words.promoted));
	return object;
}

static void add_sample(struct json_object *object, const struct ocp_sample *sample)
{
	struct json_object *hits = json_object_new_array(), *pairs = json_object_new_array();

	json_add_uint(object, "hits", ocp_sample_all_hits(sample));
	for (size_t i = 0; i < ocp_sample_probe_count(sample); i++) {
		struct json_object *row = json_object_new_object();

		json_add_string(row, "probe", ocp_sample_probe(sample, i)->probe);
		json_add_uint(row, "hits", ocp_sample_probe(sample, i)->hits);
		json_object_array_add(hits, row);
	}
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++)
		json_object_array_add(pairs, json_of_pair(ocp_sample_pair(sample, i)));
	json_object_object_add(object, "probes", hits);
	json_object_object_add(object, "pairs", pairs);
}

static struct json_object *json_of_probes(const struct overview_probes *probes)
{
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "n", probes->n);
	if (add_why(object, &probes->why) || !probes->sample)
		return object;
	json_add_string(object, "engine", probes->engine);
	json_add_double(object, "span_s", seconds_of(ocp_sample_time_ns(probes->sample)));
	json_add_bool(object, "over_budget", probes->is_over_budget);
	json_add_bool(object, "slowed", probes->is_slowed);
	if (probes->pairs_why.text[0])
		json_add_string(object, "pairs_why", probes->pairs_why.text);
	add_sample(object, probes->sample);
	return object;
}

void overview_print_json(const struct overview *o)
{
	struct json_object *top = json_object_new_object();
	const struct runtime *runtime = o->gauges.runtime;

	json_add_int(top, "version", OVERVIEW_JSON_VERSION);
	json_add_int(top, "pid", o->pid);
	json_add_string(top, "exe", o->exe);
	json_add_string(top, "ocaml", runtime ? runtime->version : NULL);
	json_add_uint(top, "threads", o->threads);
	json_add_known_int(top, "domains", runtime && runtime->has_domains,
			   (int64_t)o->gauges.now.n_domains);
	json_add_double(top, "span_s", seconds_of(o->span_ns));
	if (o->cpu_ns >= 0) {
		json_add_double(top, "cpu_s", seconds_of(o->cpu_ns));
		json_add_double(top, "cpu_cores", cpu_cores(o));
	}
	json_add_double(top, "cost_s", o->cost_ns / 1e9);
	json_add_filled_string(top, "no_bpf", o->no_bpf.text);
	json_object_object_add(top, "collector", json_of_gauges(o));
	for (size_t i = 0; i < N_OVERVIEW_PROFILES; i++)
		json_object_object_add(top, profile_kind_name(profile_order[i]),
				       json_of_profile(&o->profiles[profile_order[i]]));
	json_object_object_add(top, "probes", json_of_probes(&o->probes));
	json_print(top, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}
