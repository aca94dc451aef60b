// SPDX-License-Identifier: MIT
/* Samples as tables for people. */
#include "tool/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MIN_NAME_WIDTH = 16, BAR_WIDTH = 40, BUCKETS_AN_OCTAVE = 8, TIME_BYTES = 32 };

/* ---- hits ----------------------------------------------------------------------------------- */

/* What the rows of one probe are told apart by; "" for nothing. Returns its length. */
static int print_part(char *text, size_t size, const struct report *report,
		      const struct ocp_hits *row)
{
	const char *slash;
	char where[256];

	switch (report->split) {
	case OCP_BY_SITE:
		/* Its folder is in the other forms. */
		slash = row->source ? strrchr(row->source, '/') : NULL;
		if (row->source)
			snprintf(where, sizeof(where), "%s:%d", slash ? slash + 1 : row->source,
				 row->line);
		else
			snprintf(where, sizeof(where), "0x%" PRIx64, row->va);
		if (row->symbol)
			return snprintf(text, size, "%s+0x%" PRIx64 " (%s)", row->symbol,
					row->symbol_off, where);
		return snprintf(text, size, "%s", where);
	case OCP_BY_THREAD:
		return snprintf(text, size, "%d/%d %s", (int)row->pid, (int)row->tid, row->comm);
	case OCP_BY_PROCESS:
		return snprintf(text, size, "%d %s", (int)row->pid, row->comm);
	default:
		text[0] = '\0';
		return 0;
	}
}

static const char *part_title(enum ocp_split split)
{
	switch (split) {
	case OCP_BY_SITE:
		return "site";
	case OCP_BY_THREAD:
		return "pid/tid";
	case OCP_BY_PROCESS:
		return "pid";
	default:
		return "";
	}
}

static void print_row(const char *name, int name_width, const char *part, int part_width,
		      const struct report *report, uint64_t hits)
{
	if (part_width)
		printf("%-*s %-*s %14" PRIu64 " %14.1f\n", name_width, name, part_width, part, hits,
		       report_rate(report, hits));
	else
		printf("%-*s %14" PRIu64 " %14.1f\n", name_width, name, hits,
		       report_rate(report, hits));
}

static void print_hits(const struct report *report)
{
	const size_t n = ocp_sample_hits_count(report->sample);
	int name_width = MIN_NAME_WIDTH, part_width = 0;
	uint64_t all = 0;
	char part[512];

	for (size_t i = 0; i < n; i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, i);
		int width = (int)strlen(row->probe);

		name_width = width > name_width ? width : name_width;
		width = print_part(part, sizeof(part), report, row);
		part_width = width > part_width ? width : part_width;
	}
	if (part_width)
		printf("%-*s %-*s %14s %14s\n", name_width, "probe", part_width,
		       part_title(report->split), "hits", "hits/s");
	else
		printf("%-*s %14s %14s\n", name_width, "probe", "hits", "hits/s");
	for (size_t i = 0; i < n; i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, i);

		print_part(part, sizeof(part), report, row);
		print_row(row->probe, name_width, part, part_width, report, row->hits);
		all += row->hits;
	}
	if (n > 1)
		print_row("(all)", name_width, "", part_width, report, all);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* NS with three digits and a unit. */
static const char *print_time(char *text, double ns)
{
	static const struct {
		double ns;
		const char *unit;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		double value = ns / units[i].ns;

		if (value >= 1) {
			snprintf(text, TIME_BYTES, "%.*f%s",
				 value < 10    ? 2
				 : value < 100 ? 1
					       : 0,
				 value, units[i].unit);
			return text;
		}
	}
	snprintf(text, TIME_BYTES, "%.0fns", ns);
	return text;
}

static void print_pair(const struct ocp_pair *pair, int width)
{
	static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999 };
	char name[512], text[TIME_BYTES];

	snprintf(name, sizeof(name), "%s,%s", pair->start, pair->stop);
	printf("%-*s %12" PRIu64, width, name, pair->count);
	if (!pair->count) {
		putchar('\n');
		return;
	}
	printf(" %8s", print_time(text, (double)pair->sum_ns / (double)pair->count));
	printf(" %8s", print_time(text, (double)pair->min_ns));
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		uint64_t ns = ocp_bucket_quantile(pair->buckets, quantiles[i]);

		/* The extremes are exact, a bucket's inside is not. */
		ns = ns < pair->min_ns ? pair->min_ns : ns > pair->max_ns ? pair->max_ns : ns;
		printf(" %8s", print_time(text, (double)ns));
	}
	printf(" %8s", print_time(text, (double)pair->max_ns));
	printf(" %10s\n", print_time(text, (double)pair->sum_ns));
}

/* The counts of one octave. */
static uint64_t octave(const uint64_t *buckets, size_t first)
{
	uint64_t sum = 0;

	for (size_t i = first; i < first + BUCKETS_AN_OCTAVE && i < OCP_BUCKETS; i++)
		sum += buckets[i];
	return sum;
}

/* A line an octave, from the first to the last that has any. */
static void draw_histogram(const uint64_t *buckets, const char *(*print)(char *, double))
{
	size_t first = OCP_BUCKETS, last = 0;
	uint64_t most = 0;
	char from[TIME_BYTES], below[TIME_BYTES];

	for (size_t i = 0; i < OCP_BUCKETS; i += BUCKETS_AN_OCTAVE) {
		uint64_t count = octave(buckets, i);

		first = count && first == OCP_BUCKETS ? i : first;
		last = count ? i : last;
		most = count > most ? count : most;
	}
	for (size_t i = first; i <= last && i < OCP_BUCKETS; i += BUCKETS_AN_OCTAVE) {
		uint64_t count = octave(buckets, i);
		/* Whatever is there is seen. */
		int bar = count ? (int)((double)count * (BAR_WIDTH - 1) / (double)most) + 1 : 0;

		print(from, (double)ocp_bucket_start(i));
		print(below, (double)ocp_bucket_start(i + BUCKETS_AN_OCTAVE));
		printf("  %8s .. %-8s %12" PRIu64 " |%.*s%*s|\n", from, below, count, bar,
		       "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@", BAR_WIDTH - bar, "");
	}
}

static void print_pairs(const struct report *report)
{
	const size_t n = ocp_sample_pair_count(report->sample);
	char text[TIME_BYTES];
	int width = MIN_NAME_WIDTH;

	for (size_t i = 0; i < n; i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->sample, i);
		int its = (int)(strlen(pair->start) + 1 + strlen(pair->stop));

		width = its > width ? its : width;
	}
	printf("%-*s %12s %8s %8s %8s %8s %8s %8s %8s %10s\n", width, "pair", "count", "mean",
	       "min", "p50", "p90", "p99", "p99.9", "max", "sum");
	for (size_t i = 0; i < n; i++)
		print_pair(ocp_sample_pair(report->sample, i), width);
	for (size_t i = 0; i < n; i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->sample, i);

		printf("\n%s,%s: orphan starts %" PRIu64 ", orphan stops %" PRIu64
		       ", too deep %" PRIu64 ", map full %" PRIu64 ", no key %" PRIu64
		       ", still open %" PRIu64 "\n",
		       pair->start, pair->stop, pair->orphan_starts, pair->orphan_stops,
		       pair->overflows, pair->map_full, pair->not_keyed, pair->open);
		if (report->is_total)
			draw_histogram(pair->buckets, print_time);
	}
	if (report->is_total)
		printf("\nan empty pair measures %s here: times below are noise, longer ones "
		       "contain it\n",
		       print_time(text, report->costs->empty_pair_ns));
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void print_footer(const struct report *report)
{
	const struct ocp_losses *lost = ocp_sample_losses(report->sample);
	const uint64_t hits = ocp_sample_all_hits(report->sample);

	if (report->split == OCP_BY_THREAD || report->split == OCP_BY_PROCESS)
		printf("hits in no row for want of room: %" PRIu64 "\n", lost->keyed_full);
	if (lost->tgids_full)
		printf("children that were not followed for want of room: %" PRIu64 "\n",
		       lost->tgids_full);
	if (lost->passed_over)
		printf("hits of other processes, passed over: %" PRIu64 "\n", lost->passed_over);
	printf("cost: %.0f hits/s x %.0f ns = %.2f%% of a core\n", report_rate(report, hits),
	       report->costs->hit_ns, 100 * report_cost(report));
}

static void write_table(const struct report *report)
{
	bool has_hits = ocp_sample_hits_count(report->sample) != 0;

	printf("%s%.3f s\n", report->is_total ? "total, " : "", (double)report->at_ns / 1e9);
	if (has_hits || report->split != OCP_BY_PROBE || !ocp_sample_pair_count(report->sample))
		print_hits(report);
	if (ocp_sample_pair_count(report->sample)) {
		if (has_hits)
			putchar('\n');
		print_pairs(report);
	}
	if (report->is_total)
		print_footer(report);
	else
		putchar('\n');
	fflush(stdout);
}

const struct writer table_writer = { .write = write_table };
