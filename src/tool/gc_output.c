// SPDX-License-Identifier: MIT
#include "tool/gc_output.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "measure/domain_pairs.h"
#include "tool/writer.h"

enum { GC_JSON_VERSION = 1 };

/*
 * Return the words that the program has allocated. Promoted words are in both the minor and the
 * major sum.
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

void gc_write_table(const struct gc_report *report)
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

static void add_gc_uint(struct json_object *object, const char *name, uint64_t value)
{
	json_object_object_add(object, name, json_object_new_uint64(value));
}

static void add_gc_double(struct json_object *object, const char *name, double value)
{
	json_object_object_add(object, name, json_object_new_double(value));
}

/* Add the figures in words. Sums of words are whole numbers. */
static void add_words(struct json_object *object, const struct gc_words *words)
{
	add_gc_uint(object, "minor_words", (uint64_t)words->minor);
	add_gc_uint(object, "promoted_words", (uint64_t)words->promoted);
	add_gc_uint(object, "major_words", (uint64_t)words->major);
	add_gc_uint(object, "heap_words", words->heap);
	add_gc_uint(object, "top_heap_words", words->top_heap);
}

static struct json_object *domains_json(const struct gc_gauges *now)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < now->n_domains; i++) {
		struct json_object *domain = json_object_new_object();

		add_gc_uint(domain, "domain", now->domains[i].unique_id);
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
	add_gc_double(object, "allocated_words", (allocated(now) - allocated(before)) / seconds);
	add_gc_double(object, "minor_words", (now->minor - before->minor) / seconds);
	add_gc_double(object, "promoted_words", (now->promoted - before->promoted) / seconds);
	add_gc_double(object, "major_words", (now->major - before->major) / seconds);
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
		add_gc_uint(object, "domain", rows->list[i].domain);
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
			add_gc_double(object, "share",
				      (double)pair->sum_ns / (double)report->span_ns);
		if (report->runtime->layout.has_domains)
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
		add_gc_uint(object, ocp_sample_hits(pauses, i)->probe,
			    ocp_sample_hits(pauses, i)->hits);
	return object;
}

void gc_write_json(const struct gc_report *report)
{
	struct json_object *top = json_object_new_object(), *gauges = json_object_new_object();
	const struct gc_gauges *now = report->now;

	json_object_object_add(top, "version", json_object_new_int(GC_JSON_VERSION));
	json_object_object_add(top, "type",
			       json_object_new_string(report->is_total ? "total" : "interval"));
	add_gc_uint(top, "pid", (uint64_t)report->pid);
	json_object_object_add(top, "exe", json_object_new_string(report->exe));
	json_object_object_add(top, "ocaml", json_object_new_string(report->runtime->version));
	add_gc_double(top, "elapsed_s", (double)report->at_ns / 1e9);
	add_gc_double(top, "span_s", (double)report->span_ns / 1e9);
	if (!now->lacks_ended_domains)
		add_words(gauges, &now->words);
	add_gc_uint(gauges, "minor_collections", now->minor_collections);
	add_gc_uint(gauges, "major_collections", now->major_collections);
	if (now->has_compactions)
		add_gc_uint(gauges, "compactions", now->compactions);
	json_object_object_add(top, "gauges", gauges);
	json_object_object_add(top, "per_second", rates_json(report));
	json_object_object_add(top, "domains", domains_json(now));
	if (report->pauses) {
		json_object_object_add(top, "pauses", pauses_json(report));
		json_object_object_add(top, "counts", moments_json(report->pauses));
	}
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
}
