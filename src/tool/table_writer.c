// SPDX-License-Identifier: MIT
/* Samples as tables for people. */
#include "tool/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/pair_note.h"
#include "measure/args/value.h"
#include "tool/cpu_shares.h"
#include "tool/group_output.h"
#include "tool/stack_output.h"
#include "tool/table_rows.h"
#include "base/plural.h"
#include "base/sanitize.h"

enum {
	MIN_NAME_WIDTH = 16,
	BAR_WIDTH = 40,
	BUCKETS_AN_OCTAVE = 8,
	LABEL_BYTES = 64,
	FEW_BUCKETS = 32, /* up to this number of buckets, each has its own line */
	GAP_LINES = 3,	  /* longer runs of empty lines of a float histogram become "..." */
	FEW_NS = 10,	  /* costs below this are printed with one decimal */
};

/* ---- hits ----------------------------------------------------------------------------------- */

/* Write the place of a row's hits: SYMBOL+OFFSET (FILE:LINE), or the known part of this. */
static void print_site(char *text, size_t size, const struct ocp_hits *row)
{
	/* Other formats include the directory. */
	const char *slash = row->source ? strrchr(row->source, '/') : NULL;
	char where[256];

	if (row->source)
		snprintf(where, sizeof(where), "%s:%d", slash ? slash + 1 : row->source, row->line);
	else
		snprintf(where, sizeof(where), "0x%" PRIx64, row->va);
	if (row->symbol)
		snprintf(text, size, "%s+0x%" PRIx64 " (%s)", row->symbol, row->symbol_off, where);
	else
		snprintf(text, size, "%s", where);
}

/*
 * Write the part of the probe that the row belongs to (site, thread or process); "" for none. Make
 * the text one line, since the program chooses its symbols and thread names. Returns the length.
 */
static int print_part(char *text, size_t size, const struct report *report,
		      const struct ocp_hits *row)
{
	text[0] = '\0';
	if (report->split == OCP_BY_SITE)
		print_site(text, size, row);
	else if (report->split == OCP_BY_THREAD)
		snprintf(text, size, "%d/%d %s", (int)row->pid, (int)row->tid, row->comm);
	else if (report->split == OCP_BY_PROCESS)
		snprintf(text, size, "%d %s", (int)row->pid, row->comm);
	make_one_line(text);
	return (int)strlen(text);
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

static void print_hits_row(const char *name, int name_width, const char *part, int part_width,
			   const struct report *report, uint64_t hits)
{
	if (part_width)
		printf("%-*s %-*s %14" PRIu64 " %14.1f\n", name_width, name, part_width, part, hits,
		       report_rate(report, hits));
	else
		printf("%-*s %14" PRIu64 " %14.1f\n", name_width, name, hits,
		       report_rate(report, hits));
}

static void print_hidden(const struct report *report, size_t n)
{
	const bool by_probe = report->split == OCP_BY_PROBE;

	if (n)
		printf("%zu %s%s without hits %s hidden; --all shows %s\n", n,
		       by_probe ? "probe" : "row", plural(n), n == 1 ? "is" : "are",
		       n == 1 ? "it" : "them");
}

/* Compute the widths of the columns for the name and the part. */
static void measure_columns(const struct report *report, const struct table_rows *rows,
			    int *name_width, int *part_width)
{
	char part[512];

	for (size_t i = 0; i < rows->n; i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, rows->list[i]);
		int width = (int)strlen(row->probe);

		*name_width = width > *name_width ? width : *name_width;
		width = print_part(part, sizeof(part), report, row);
		*part_width = width > *part_width ? width : *part_width;
	}
}

static void print_hits(const struct report *report)
{
	struct table_rows rows = table_rows_of_hits(report);
	int name_width = MIN_NAME_WIDTH, part_width = 0;
	uint64_t all = rows.other_hits;
	char part[512];

	measure_columns(report, &rows, &name_width, &part_width);
	if (part_width)
		printf("%-*s %-*s %14s %14s\n", name_width, "probe", part_width,
		       part_title(report->split), "hits", "hits/s");
	else
		printf("%-*s %14s %14s\n", name_width, "probe", "hits", "hits/s");
	for (size_t i = 0; i < rows.n; i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, rows.list[i]);

		print_part(part, sizeof(part), report, row);
		print_hits_row(row->probe, name_width, part, part_width, report, row->hits);
		all += row->hits;
	}
	if (rows.n_others) {
		snprintf(part, sizeof(part), "(%zu other%s)", rows.n_others, plural(rows.n_others));
		print_hits_row(part, name_width, "", part_width, report, rows.other_hits);
	}
	if (ocp_sample_hits_count(report->sample) > 1)
		print_hits_row("(all)", name_width, "", part_width, report, all);
	print_hidden(report, rows.n_hidden);
	table_rows_free(&rows);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* Write NS with three digits and a unit. */
const char *print_time(char *text, double ns)
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

	pair_name(name, sizeof(name), pair->start, pair->stop);
	printf("%-*s %12" PRIu64, width, name, pair->count);
	if (!pair->count) {
		putchar('\n');
		return;
	}
	printf(" %8s", print_time(text, (double)pair->sum_ns / (double)pair->count));
	printf(" %8s", print_time(text, (double)pair->min_ns));
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
		printf(" %8s", print_time(text, (double)ocp_pair_quantile_ns(pair, quantiles[i])));
	}
	printf(" %8s", print_time(text, (double)pair->max_ns));
	printf(" %10s\n", print_time(text, (double)pair->sum_ns));
}

/*
 * Buckets to draw. LABEL writes the range from bucket FIRST to below NEXT. NONE is the number of
 * the bucket that cannot have values, or N if all buckets can.
 */
struct drawing {
	const uint64_t *buckets;
	size_t n, none;
	void (*label)(char *text, size_t size, size_t first, size_t next);
	/*
	 * Return true if bucket I always has its own line. NULL: no bucket has. With this function,
	 * "..." stands for long runs of empty lines.
	 */
	bool (*is_alone)(size_t i);
};

static void label_times(char *text, size_t size, size_t first, size_t next)
{
	char from[TIME_BYTES], below[TIME_BYTES];

	print_time(from, (double)ocp_bucket_start(first));
	print_time(below, (double)ocp_bucket_start(next));
	snprintf(text, size, "%8s .. %-8s", from, below);
}

static void label_numbers(char *text, size_t size, size_t first, size_t next)
{
	const int64_t from = ocp_signed_bucket_start(first), to = ocp_signed_bucket_start(next) - 1;

	if (from == to)
		snprintf(text, size, "%20" PRId64 "    %-20s", from, "");
	else
		snprintf(text, size, "%20" PRId64 " .. %-20" PRId64, from, to);
}

/* Return true for the buckets around 0 and at the ends, which have their own lines. */
static bool is_float_alone(size_t i)
{
	return i == 0 || i == OCP_FLOAT_BUCKETS - 1 ||
	       (i >= OCP_FLOAT_ZERO_BUCKET - 1 && i <= OCP_FLOAT_ZERO_BUCKET + 1);
}

static void label_floats(char *text, size_t size, size_t first, size_t next)
{
	if (first == OCP_FLOAT_ZERO_BUCKET && next == first + 1)
		snprintf(text, size, "%12s    %-12s", "0", "");
	else
		snprintf(text, size, "%12.6g .. %-12.6g",
			 first == OCP_FLOAT_ZERO_BUCKET + 1 ? 0 : ocp_float_bucket_start(first),
			 ocp_float_bucket_start(next));
}

/* Return the first bucket of the next line. */
static size_t next_bucket_line(const struct drawing *d, size_t i, size_t step)
{
	return d->is_alone && d->is_alone(i) ? i + 1 : i + step;
}

/* Return the sum of the counts of one line. */
static uint64_t sum_of(const struct drawing *d, size_t first, size_t step)
{
	const size_t next = next_bucket_line(d, first, step);
	uint64_t sum = 0;

	for (size_t i = first; i < next && i < d->n; i++)
		sum += d->buckets[i];
	return sum;
}

/*
 * If more than GAP_LINES empty lines begin at bucket I, return the first bucket after them; else I.
 */
static size_t behind_gap(const struct drawing *d, size_t i, size_t step)
{
	size_t n = 0, end = i;

	for (; d->is_alone && end < d->n && !sum_of(d, end, step); n++)
		end = next_bucket_line(d, end, step);
	return n > GAP_LINES ? end : i;
}

/* Draw the line that begins with bucket I. MOST is the count of the longest line. */
static void draw_line(const struct drawing *d, size_t i, size_t step, uint64_t most)
{
	const uint64_t count = sum_of(d, i, step);
	/* Every nonempty line has a visible bar. */
	const int bar = count ? (int)((double)count * (BAR_WIDTH - 1) / (double)most) + 1 : 0;
	char label[LABEL_BYTES];

	d->label(label, sizeof(label), i, next_bucket_line(d, i, step));
	printf("  %s %12" PRIu64 " |%.*s%*s|\n", label, count, bar,
	       "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@", BAR_WIDTH - bar, "");
}

/* Draw a line for every STEP buckets, from the first nonempty one to the last. */
static void draw_lines(const struct drawing *d, size_t step)
{
	size_t first = d->n, last = 0;
	uint64_t most = 0;

	for (size_t i = 0; i < d->n; i = next_bucket_line(d, i, step)) {
		uint64_t count = sum_of(d, i, step);

		first = count && first == d->n ? i : first;
		last = count ? i : last;
		most = count > most ? count : most;
	}
	for (size_t i = first; i <= last && i < d->n; i = next_bucket_line(d, i, step)) {
		const size_t end = behind_gap(d, i, step);

		if (end != i)
			puts("  ...");
		i = end;
		if (step > 1 || i != d->none)
			draw_line(d, i, step, most);
	}
}

/* Print the time that an empty pair measures: it is part of every longer time. */
static void print_floor(const struct ocp_costs *costs)
{
	char text[TIME_BYTES];

	if (!(costs->empty_pair_ns > 0))
		return;
	printf("\nan empty pair measures %s here", print_time(text, costs->empty_pair_ns));
	if (costs->empty_stepped_pair_ns > 0)
		printf(" (%s if the kernel single-steps its sites)",
		       print_time(text, costs->empty_stepped_pair_ns));
	puts("; shorter times are noise, longer times include it");
}

void print_histogram_of_times(const uint64_t *buckets)
{
	draw_lines(&(const struct drawing){ buckets, OCP_BUCKETS, OCP_BUCKETS, label_times, NULL },
		   BUCKETS_AN_OCTAVE);
}

/* Print the facts about PAIR that are not in its row. */
static void print_pair_details(const struct report *report, const struct ocp_pair *pair)
{
	char note[PAIR_NOTE_BYTES], name[512];

	pair_name(name, sizeof(name), pair->start, pair->stop);
	printf("\n%s: orphan starts %" PRIu64 ", orphan stops %" PRIu64 ", map full %" PRIu64
	       ", not keyed %" PRIu64 ", open %" PRIu64 "\n",
	       name, pair->orphan_starts, pair->orphan_stops, pair->map_full, pair->not_keyed,
	       pair->open);
	if (pair->mismatched)
		printf("%s: mismatched %" PRIu64 "\n", name, pair->mismatched);
	if (report->is_total && pair_note(note, pair->start, pair->stop, pair))
		printf("note: %s\n", note);
	if (report->is_total)
		print_histogram_of_times(pair->buckets);
}

static void print_pairs(const struct report *report)
{
	struct table_rows rows = table_rows_of_pairs(report);
	int width = MIN_NAME_WIDTH;

	for (size_t i = 0; i < rows.n; i++) {
		const struct ocp_pair *pair = ocp_sample_pair(report->sample, rows.list[i]);
		const int its = (int)pair_name_length(pair->start, pair->stop);

		width = its > width ? its : width;
	}
	printf("%-*s %12s %8s %8s %8s %8s %8s %8s %8s %10s\n", width, "pair", "count", "mean",
	       "min", "p50", "p90", "p99", "p99.9", "max", "sum");
	for (size_t i = 0; i < rows.n; i++)
		print_pair(ocp_sample_pair(report->sample, rows.list[i]), width);
	if (rows.n_others)
		printf("(%zu other pair%s)\n", rows.n_others, plural(rows.n_others));
	for (size_t i = 0; i < rows.n; i++)
		print_pair_details(report, ocp_sample_pair(report->sample, rows.list[i]));
	table_rows_free(&rows);
	if (report->is_total)
		print_floor(report->costs);
}

/* ---- histograms ----------------------------------------------------------------------------- */

static void print_argument(const struct ocp_histogram *histogram)
{
	printf("\n%s ", histogram->probe);
	if (histogram->arg_name[0])
		fputs(histogram->arg_name, stdout);
	else
		printf("arg%u", histogram->arg);
}

/* Count the buckets from the first nonempty one to the last. */
static size_t span_of(const uint64_t *buckets, size_t n)
{
	size_t first = n, last = 0;

	for (size_t i = 0; i < n; i++) {
		first = buckets[i] && first == n ? i : first;
		last = buckets[i] ? i : last;
	}
	return first == n ? 0 : last - first + 1;
}

static void draw_values(const struct drawing *drawing)
{
	draw_lines(drawing,
		   span_of(drawing->buckets, drawing->n) <= FEW_BUCKETS ? 1 : BUCKETS_AN_OCTAVE);
}

static void print_ints(const struct report *report, const struct ocp_histogram *histogram)
{
	print_argument(histogram);
	printf(": %" PRIu64 " ints", histogram->count);
	if (histogram->count)
		printf(", mean %.6g, min %" PRId64 ", max %" PRId64 ", sum %" PRId64,
		       histogram->mean, histogram->min, histogram->max, histogram->sum);
	printf("; not an int: %" PRIu64 "\n", histogram->not_int);
	/* The last bucket below 0 stands for -0, so it has no values. */
	if (report->is_total && histogram->count)
		draw_values(&(const struct drawing){ histogram->buckets, OCP_SIGNED_BUCKETS,
						     OCP_BUCKETS - 1, label_numbers, NULL });
}

static void print_floats(const struct report *report, const struct ocp_histogram *histogram)
{
	const struct ocp_float_histogram *floats = histogram->floats;
	char min[FLOAT_TEXT_BYTES], max[FLOAT_TEXT_BYTES], sum[FLOAT_TEXT_BYTES];

	print_argument(histogram);
	printf(": %" PRIu64 " floats", floats->count);
	if (floats->count)
		printf(", mean %.6g, min %s, max %s, sum %s", floats->mean,
		       float_text(min, floats->min), float_text(max, floats->max),
		       float_text(sum, floats->sum));
	if (floats->nan || floats->inf || floats->minus_inf)
		printf("; nan: %" PRIu64 ", inf: %" PRIu64 ", -inf: %" PRIu64, floats->nan,
		       floats->inf, floats->minus_inf);
	printf("; not a number: %" PRIu64 "\n", histogram->not_number);
	if (report->is_total && floats->count)
		draw_values(&(const struct drawing){ floats->buckets, OCP_FLOAT_BUCKETS,
						     OCP_FLOAT_BUCKETS, label_floats,
						     is_float_alone });
}

static void print_histogram(const struct report *report, const struct ocp_histogram *histogram)
{
	if (histogram->count || !histogram->floats)
		print_ints(report, histogram);
	if (histogram->floats)
		print_floats(report, histogram);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Print "1 hit rejected by the filter": N, UNIT (with an "s" unless N is 1) and WHAT. */
static void print_loss(uint64_t n, const char *unit, const char *what)
{
	printf("%" PRIu64 " %s%s %s\n", n, unit, n == 1 ? "" : "s", what);
}

static void print_losses(const struct report *report)
{
	const struct ocp_losses *losses = ocp_sample_losses(report->sample);

	if (report->split == OCP_BY_THREAD || report->split == OCP_BY_PROCESS)
		print_loss(losses->rows_full, "hit", "in no row (map full)");
	if (losses->children_full)
		printf("%" PRIu64 " %s not followed (map full)\n", losses->children_full,
		       losses->children_full == 1 ? "child" : "children");
	if (losses->filtered)
		print_loss(losses->filtered, "hit", "rejected by the filter");
	if (losses->filter_mismatches)
		printf("%" PRIu64 " hit%s with an argument of another type than the filter's: %s\n",
		       losses->filter_mismatches, losses->filter_mismatches == 1 ? "" : "s",
		       losses->filter_mismatch ? losses->filter_mismatch : "no example");
	if (report->prints)
		printf("%" PRIu64 " hit%s printed, %" PRIu64 " suppressed by --limit, %" PRIu64
		       " dropped (buffer full)\n",
		       report->n_printed, report->n_printed == 1 ? "" : "s", losses->prints_limited,
		       losses->prints_dropped);
	if (report->has_slow)
		printf("%" PRIu64 " slow pair%s: %" PRIu64 " printed (%" PRIu64
		       " without the arguments of the start), %" PRIu64
		       " suppressed by --limit, %" PRIu64 " dropped (buffer full)\n",
		       losses->slow, plural(losses->slow), report->n_slow, losses->slow_unkept,
		       losses->slow_limited, losses->slow_dropped);
	if (losses->passed_over)
		print_loss(losses->passed_over, "hit", "of other processes ignored");
}

static void print_footer(const struct report *report)
{
	const uint64_t hits = ocp_sample_all_hits(report->sample);
	const double cost_ns = ocp_sample_cost_per_hit_ns(report->sample, report->costs);
	char share[SHARE_BYTES];

	print_losses(report);
	printf("CPU overhead: %.0f hits/s x %.*f ns per hit = %.2f%% of a core%s\n",
	       report_rate(report, hits), cost_ns > 0 && cost_ns < FEW_NS, cost_ns,
	       100 * report_cost(report), share_text(share, report->share));
}

static void write_table(const struct report *report)
{
	bool has_hits = ocp_sample_hits_count(report->sample) != 0;
	char wall[WALL_BYTES];

	if (report->wall_ns)
		printf("%s  ", time_of_day_text(wall, report->wall_ns, 3));
	printf("%s%.3f s\n", report->is_total ? "total, " : "", (double)report->at_ns / 1e9);
	if (has_hits || report->split != OCP_BY_PROBE ||
	    (!ocp_sample_pair_count(report->sample) && !report->prints))
		print_hits(report);
	if (ocp_sample_pair_count(report->sample)) {
		if (has_hits)
			putchar('\n');
		print_pairs(report);
	}
	for (size_t i = 0; i < ocp_sample_histogram_count(report->sample); i++)
		print_histogram(report, ocp_sample_histogram(report->sample, i));
	print_groups(report);
	if (report->stacks)
		print_stacks(report);
	if (report->is_total)
		print_footer(report);
	else
		putchar('\n');
	fflush(stdout);
}

static void write_hit(const struct ocp_hit *hit, const struct named_frames *frames, int64_t wall_ns,
		      bool is_first)
{
	char wall[WALL_BYTES];

	(void)is_first;
	if (wall_ns)
		fputs(time_of_day_text(wall, wall_ns, 6), stdout);
	else
		printf("%.6f", (double)hit->time_ns / 1e9);
	printf(" %d/%d ", (int)hit->pid, (int)hit->tid);
	print_text(hit->probe);
	ocp_hit_write_args(stdout, hit);
	putchar('\n');
	if (frames)
		print_hit_frames(frames);
}

const struct writer table_writer = { .write = write_table,
				     .write_hit = write_hit,
				     .write_slow = write_slow_text };
