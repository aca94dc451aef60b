// SPDX-License-Identifier: MIT
/*
 * Samples as CSV (RFC 4180). A row is a probe, a pair, a histogram or a bucket of ints or floats, a
 * group (--by), or a printed hit. One header covers all rows; fields without meaning for a row are
 * empty. Times are in nanoseconds, except elapsed_s and span_s, which are in seconds. Each kind of
 * loss that has occurred has a row, with the name that it has in JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/args/value.h"
#include "tool/result_rows.h"

static const char *const columns[] = {
	"type",	    "elapsed_s", "span_s", "kind",   "name",	   "file",	    "address",
	"function", "pid",	 "tid",	   "count",  "per_s",	   "sum_ns",	    "min_ns",
	"max_ns",   "p50_ns",	 "p90_ns", "p99_ns", "p999_ns",	   "orphan_starts", "orphan_stops",
	"map_full", "open",	 "arg",	   "sum",    "min",	   "max",	    "not_int",
	"args",	    "source",	 "line",   "column", "mismatched", "comm",
};

enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static void print_quoted(const char *text)
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

static void print_field(const struct result_field *field)
{
	char text[FLOAT_TEXT_BYTES], *argument;

	switch (field->kind) {
	case FIELD_TEXT:
	case FIELD_PAIR:
		print_quoted(field->text);
		if (field->kind == FIELD_PAIR && field->stop) {
			putchar(' ');
			print_quoted(field->stop);
		}
		break;
	case FIELD_UINT:
	case FIELD_NS:
		printf("%" PRIu64, field->number);
		break;
	case FIELD_INT:
		printf("%" PRId64, field->integer);
		break;
	case FIELD_RATE:
		printf("%.3f", field->real);
		break;
	case FIELD_SECONDS:
		printf("%.6f", field->real);
		break;
	case FIELD_FLOAT:
		fputs(float_text(text, field->real), stdout);
		break;
	case FIELD_ADDRESS:
		printf("0x%" PRIx64, field->number);
		break;
	case FIELD_ARGUMENT:
		argument = value_group_text(field->group);
		print_quoted(argument);
		free(argument);
		break;
	default:
		break;
	}
}

static const struct result_field *find_column(const struct result_row *row, const char *column)
{
	for (size_t i = 0; i < row->n; i++)
		if (row->fields[i].column && strcmp(row->fields[i].column, column) == 0)
			return &row->fields[i];
	return NULL;
}

/* Print the fields of ROW in the columns. The column of the time exists only with --time-of-day. */
static void print_row(const struct result_row *row, int64_t wall_ns)
{
	char wall[WALL_BYTES];

	for (size_t i = 0; i < N_COLUMNS; i++) {
		const struct result_field *field = find_column(row, columns[i]);

		if (i)
			putchar(',');
		if (field)
			print_field(field);
	}
	if (wall_ns)
		printf(",%s", utc_text(wall, wall_ns));
	putchar('\n');
}

static void print_header(int64_t wall_ns)
{
	for (size_t i = 0; i < N_COLUMNS; i++)
		printf("%s%s", i ? "," : "", columns[i]);
	puts(wall_ns ? ",time" : "");
}

/* Print ROW, a row of KIND in the sample of REPORT. */
static void print_part(const struct report *report, const char *kind, struct result_row *row)
{
	result_add_text(row, NULL, "type", report->is_total ? "total" : "interval");
	result_add_seconds(row, NULL, "elapsed_s", (double)report->at_ns / 1e9);
	result_add_seconds(row, NULL, "span_s", (double)ocp_sample_time_ns(report->sample) / 1e9);
	result_add_text(row, NULL, "kind", kind);
	print_row(row, report->wall_ns);
}

static void write_ints(const struct report *report, const struct ocp_histogram *histogram)
{
	struct result_row row;

	result_of_ints(&row, report, histogram);
	print_part(report, "histogram", &row);
	for (size_t i = 0; i < OCP_SIGNED_BUCKETS; i++) {
		if (!histogram->buckets[i])
			continue;
		result_of_int_bucket(&row, report, histogram, i);
		print_part(report, "bucket", &row);
	}
}

static void write_float_bucket(const struct report *report, const struct ocp_histogram *histogram,
			       double from, double below, uint64_t count)
{
	struct result_row row;

	if (!count)
		return;
	result_of_float_bucket(&row, report, histogram, from, below, count);
	print_part(report, "float_bucket", &row);
}

static void write_floats(const struct report *report, const struct ocp_histogram *histogram)
{
	const struct ocp_float_histogram *floats = histogram->floats;
	struct result_row row;

	if (!floats)
		return;
	result_of_floats(&row, report, histogram);
	print_part(report, "float_histogram", &row);
	write_float_bucket(report, histogram, -HUGE_VAL, -HUGE_VAL, floats->minus_inf);
	for (size_t i = 0; i < OCP_FLOAT_BUCKETS; i++)
		write_float_bucket(report, histogram, ocp_float_bucket_start(i),
				   ocp_float_bucket_start(i + 1), floats->buckets[i]);
	write_float_bucket(report, histogram, HUGE_VAL, HUGE_VAL, floats->inf);
	write_float_bucket(report, histogram, NAN, NAN, floats->nan);
}

/*
 * Print a row for each kind of loss that has occurred. For mismatches of the filter, the column
 * `args` has an example.
 */
static void write_losses(const struct report *report)
{
	const char *mismatch = ocp_sample_losses(report->sample)->filter_mismatch;
	struct result_row losses, row;

	result_of_losses(&losses, report);
	for (size_t i = 0; i < losses.n; i++) {
		const struct result_field *loss = &losses.fields[i];

		if (!loss->column || !loss->number)
			continue;
		row.n = 0;
		result_add_text(&row, NULL, "name", loss->name);
		result_add_uint(&row, NULL, "count", loss->number);
		result_add_rate(&row, NULL, "per_s", report, loss->number);
		if (strcmp(loss->name, "filter_mismatches") == 0)
			result_add_text(&row, NULL, "args", mismatch);
		print_part(report, "lost", &row);
	}
}

static void write_hit(const struct ocp_hit *hit, const struct named_frames *frames, int64_t wall_ns,
		      bool is_first)
{
	struct result_row row = { .n = 0 };
	char *args = NULL;
	size_t n;
	FILE *text = open_memstream(&args, &n);

	(void)frames; /* always NULL, since --csv cannot be combined with --stack */
	if (is_first)
		print_header(wall_ns);
	if (text) {
		ocp_hit_write_args(text, hit);
		fclose(text);
	}
	result_add_text(&row, NULL, "type", "hit");
	result_add_seconds(&row, NULL, "elapsed_s", (double)hit->time_ns / 1e9);
	result_add_text(&row, NULL, "kind", "hit");
	result_add_text(&row, NULL, "name", hit->probe);
	result_add_uint(&row, NULL, "pid", (uint64_t)hit->pid);
	result_add_uint(&row, NULL, "tid", (uint64_t)hit->tid);
	result_add_text(&row, NULL, "comm", hit->comm);
	/* Skip the space with which the text begins. */
	result_add_text(&row, NULL, "args", args && args[0] ? args + 1 : "");
	print_row(&row, wall_ns);
	free(args);
}

static void write_csv(const struct report *report)
{
	const struct value_groups *groups = sample_value_groups(report->sample);
	struct result_row row;

	/* The header precedes the first row of the output. */
	if (report->is_first)
		print_header(report->wall_ns);
	for (size_t i = 0; i < ocp_sample_hits_count(report->sample); i++) {
		result_of_hits(&row, report, ocp_sample_hits(report->sample, i));
		print_part(report, "probe", &row);
	}
	for (size_t i = 0; i < ocp_sample_pair_count(report->sample); i++) {
		result_of_pair(&row, report, ocp_sample_pair(report->sample, i));
		print_part(report, "pair", &row);
	}
	for (size_t i = 0; i < ocp_sample_histogram_count(report->sample); i++) {
		write_ints(report, ocp_sample_histogram(report->sample, i));
		write_floats(report, ocp_sample_histogram(report->sample, i));
	}
	for (size_t i = 0; i < groups->n; i++) {
		result_of_group(&row, report, &groups->list[i], groups->arg);
		print_part(report, groups->list[i].is_others ? "others" : "group", &row);
	}
	write_losses(report);
	fflush(stdout);
}

const struct writer csv_writer = { .write = write_csv, .write_hit = write_hit };
