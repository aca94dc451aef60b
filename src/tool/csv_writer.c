// SPDX-License-Identifier: MIT
/*
 * Samples as CSV (RFC 4180). A row is a probe, a pair, a histogram or a bucket of ints or floats, a
 * group (--by), or a printed hit. One header covers all rows; fields without meaning for a row are
 * empty. Times are in nanoseconds. Losses have rows only if there are any, and the names that they
 * have in JSON.
 */
#include "tool/writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/args/value.h"
#include "measure/by_value.h"

static void print_field(const char *text)
{
	if (!text)
		text = "";
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, stdout);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

/* End a row. The last column exists only with --time-of-day. */
static void end_line(int64_t wall_ns)
{
	char wall[WALL_BYTES];

	if (wall_ns)
		printf(",%s", utc_text(wall, wall_ns));
	putchar('\n');
}

/* End a row that is not a pair: the column `mismatched` is empty. */
static void end_row(int64_t wall_ns)
{
	putchar(',');
	end_line(wall_ns);
}

static void print_start(const struct report *report, const char *kind)
{
	printf("%s,%.6f,%.6f,%s,", report->is_total ? "total" : "interval",
	       (double)report->at_ns / 1e9, (double)ocp_sample_time_ns(report->sample) / 1e9, kind);
}

static void write_hits(const struct report *report, const struct ocp_hits *row)
{
	print_start(report, "probe");
	print_field(row->probe);
	putchar(',');
	print_field(row->image);
	putchar(',');
	if (row->image)
		printf("0x%" PRIx64, row->va);
	putchar(',');
	print_field(row->symbol);
	putchar(',');
	if (row->pid)
		printf("%d", (int)row->pid);
	putchar(',');
	if (row->tid)
		printf("%d", (int)row->tid);
	printf(",%" PRIu64 ",%.3f,,,,,,,,,,,,,,,,,,", row->hits, report_rate(report, row->hits));
	if (row->source) {
		print_field(row->source);
		printf(",%d,%d", row->line, row->column);
	} else {
		fputs(",,", stdout);
	}
	end_row(report->wall_ns);
}

static void write_pair(const struct report *report, const struct ocp_pair *pair)
{
	static const double quantiles[] = { 0.5, 0.9, 0.99, 0.999 };

	print_start(report, "pair");
	print_field(pair->start);
	/* A pair that is the calls of a function has an empty stop. */
	if (*pair->stop)
		putchar(' ');
	print_field(pair->stop);
	printf(",,,,,,%" PRIu64 ",%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64, pair->count,
	       report_rate(report, pair->count), pair->sum_ns, pair->min_ns, pair->max_ns);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++)
		printf(",%" PRIu64, ocp_pair_quantile_ns(pair, quantiles[i]));
	printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",,,,,,,,,,%" PRIu64,
	       pair->orphan_starts, pair->orphan_stops, pair->map_full, pair->open,
	       pair->mismatched);
	end_line(report->wall_ns);
}

/* Print N empty columns. */
static void print_empty(size_t n)
{
	while (n--)
		putchar(',');
}

/* Begin a row of KIND with HITS hits: print all columns before `arg`, and a comma. */
static void start_histogram(const struct report *report, const struct ocp_histogram *histogram,
			    const char *kind, uint64_t hits)
{
	print_start(report, kind);
	print_field(histogram->probe);
	printf(",,,,,,%" PRIu64 ",%.3f,", hits, report_rate(report, hits));
	print_empty(11);
	printf("%u,", histogram->arg);
}

static void write_histogram(const struct report *report, const struct ocp_histogram *histogram)
{
	start_histogram(report, histogram, "histogram", histogram->count);
	printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64 ",,,,", histogram->sum,
	       histogram->min, histogram->max, histogram->not_int);
	end_row(report->wall_ns);
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++) {
		if (!histogram->buckets[i])
			continue;
		start_histogram(report, histogram, "bucket", histogram->buckets[i]);
		printf(",%" PRId64 ",%" PRId64 ",,,,,", ocp_signed_bucket_start(i),
		       ocp_signed_bucket_start(i + 1) - 1);
		end_row(report->wall_ns);
	}
}

/* Print a row for HITS floats from MIN to below MAX, or equal to both if MIN is MAX. */
static void write_float_bucket(const struct report *report, const struct ocp_histogram *histogram,
			       double min, double max, uint64_t hits)
{
	char from[FLOAT_TEXT_BYTES], to[FLOAT_TEXT_BYTES];

	if (!hits)
		return;
	start_histogram(report, histogram, "float_bucket", hits);
	printf(",%s,%s,,,,,", float_text(from, min), float_text(to, max));
	end_row(report->wall_ns);
}

static void write_floats(const struct report *report, const struct ocp_histogram *histogram)
{
	const struct ocp_float_histogram *floats = histogram->floats;
	char sum[FLOAT_TEXT_BYTES], min[FLOAT_TEXT_BYTES], max[FLOAT_TEXT_BYTES];

	if (!floats)
		return;
	start_histogram(report, histogram, "float_histogram", floats->count);
	printf("%s,%s,%s,,,,,", float_text(sum, floats->sum), float_text(min, floats->min),
	       float_text(max, floats->max));
	end_row(report->wall_ns);
	write_float_bucket(report, histogram, -HUGE_VAL, -HUGE_VAL, floats->minus_inf);
	for (size_t i = 0; i < OCP_FLOAT_BUCKETS; i++)
		write_float_bucket(report, histogram, ocp_float_bucket_start(i),
				   ocp_float_bucket_start(i + 1), floats->buckets[i]);
	write_float_bucket(report, histogram, HUGE_VAL, HUGE_VAL, floats->inf);
	write_float_bucket(report, histogram, NAN, NAN, floats->nan);
}

/*
 * Print a group, with its value in the column `args`. There is no column for the argument's name:
 * the user gave it.
 */
static void write_group(const struct report *report, const struct value_group *group)
{
	const struct ocp_pair times =
		group->times ? value_group_pair(group) : (struct ocp_pair){ 0 };
	const struct ocp_pair *pair =
		group->times ? ocp_sample_pair(report->sample, group->number) : NULL;
	char *text = group->is_others ? NULL : value_group_text(group);

	print_start(report, group->is_others ? "others" : "group");
	print_field(pair ? pair->start : group->probe);
	if (pair) {
		putchar(' ');
		print_field(pair->stop);
	}
	printf(",,,,,,%" PRIu64 ",%.3f,", group->hits, report_rate(report, group->hits));
	if (pair)
		printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",,%" PRIu64 ",",
		       times.sum_ns, times.min_ns, times.max_ns, ocp_pair_quantile_ns(&times, 0.5),
		       ocp_pair_quantile_ns(&times, 0.99));
	else
		print_empty(6);
	print_empty(10);
	print_field(text);
	fputs(",,,", stdout);
	end_row(report->wall_ns);
	free(text);
}

static void write_losses(const struct report *report)
{
	const struct ocp_losses *lost = ocp_sample_losses(report->sample);
	const struct {
		const char *name;
		uint64_t count;
		const char *what; /* the value of the column `args` */
	} all[] = {
		{ "rows_full", lost->rows_full, NULL },
		{ "children_full", lost->children_full, NULL },
		{ "passed_over", lost->passed_over, NULL },
		{ "filtered", lost->filtered, NULL },
		{ "prints_dropped", lost->prints_dropped, NULL },
		{ "prints_limited", lost->prints_limited, NULL },
		{ "filter_mismatches", lost->filter_mismatches, lost->filter_mismatch },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!all[i].count)
			continue;
		print_start(report, "lost");
		print_field(all[i].name);
		printf(",,,,,,%" PRIu64 ",%.3f,", all[i].count, report_rate(report, all[i].count));
		print_empty(16);
		print_field(all[i].what);
		fputs(",,,", stdout);
		end_row(report->wall_ns);
	}
}

static void print_header(int64_t wall_ns)
{
	fputs("type,elapsed_s,span_s,kind,name,file,address,function,pid,tid,count,per_s,"
	      "sum_ns,min_ns,max_ns,p50_ns,p90_ns,p99_ns,p999_ns,orphan_starts,"
	      "orphan_stops,map_full,open,arg,sum,min,max,not_int,args,source,line,column,mismatched",
	      stdout);
	puts(wall_ns ? ",time" : "");
}

static void write_hit(const struct ocp_hit *hit, const struct named_frames *frames, int64_t wall_ns,
		      bool is_first)
{
	char *args = NULL;
	size_t n;
	FILE *text = open_memstream(&args, &n);

	(void)frames; /* refused with -csv */
	if (is_first)
		print_header(wall_ns);
	if (text) {
		ocp_hit_write_args(text, hit);
		fclose(text);
	}
	printf("hit,%.6f,,hit,", (double)hit->time_ns / 1e9);
	print_field(hit->probe);
	printf(",,,,%d,%d,", (int)hit->pid, (int)hit->tid);
	print_empty(18);
	/* Skip the leading space. */
	print_field(args && args[0] ? args + 1 : "");
	fputs(",,,", stdout);
	end_row(wall_ns);
	free(args);
}

static void write_csv(const struct report *report)
{
	const struct value_groups *groups = sample_value_groups(report->sample);

	/* The header precedes the first row of the output. */
	if (report->is_first)
		print_header(report->wall_ns);
	for (size_t i = 0; i < ocp_sample_hits_count(report->sample); i++)
		write_hits(report, ocp_sample_hits(report->sample, i));
	for (size_t i = 0; i < ocp_sample_pair_count(report->sample); i++)
		write_pair(report, ocp_sample_pair(report->sample, i));
	for (size_t i = 0; i < ocp_sample_histogram_count(report->sample); i++) {
		write_histogram(report, ocp_sample_histogram(report->sample, i));
		write_floats(report, ocp_sample_histogram(report->sample, i));
	}
	for (size_t i = 0; i < groups->n; i++)
		write_group(report, &groups->list[i]);
	write_losses(report);
	fflush(stdout);
}

const struct writer csv_writer = { .write = write_csv, .write_hit = write_hit };
