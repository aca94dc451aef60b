// SPDX-License-Identifier: MIT
/* Samples as tables for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base_name.h"
#include "base/plural.h"
#include "base/sanitize.h"
#include "base/search.h"
#include "base/thread_name.h"
#include "cli/cli.h"
#include "cli/pair_note.h"
#include "measure/args/value.h"
#include "measure/slower.h"
#include "measure/stacks.h"
#include "tool/measure_limit.h"
#include "tool/result_rows.h"

enum {
	MIN_NAME_WIDTH = 16,
	BAR_WIDTH = 40,
	BUCKETS_AN_OCTAVE = 8,
	LABEL_BYTES = 64,
	FEW_BUCKETS = 32, /* up to this number of buckets, each has its own line */
	GAP_LINES = 3,	  /* longer runs of empty lines of a float histogram become "..." */
	TOP_GROUPS = 20,
	MIN_VALUE_WIDTH = 16,
	OTHERS_BYTES = 80,
	SHOWN_STACKS = 10, /* maximum number of stacks for a probe or pair */
	SHOWN_FRAMES = 40, /* maximum number of frames of such a stack */
};

/* ---- which rows ----------------------------------------------------------------------------- */

/* Which rows a table shows, and in which order: --top, --sort and --all. */
struct table_rows {
	size_t *list; /* the numbers of the rows in the sample */
	size_t n;
	size_t n_hidden; /* rows without hits that are left out */
	size_t n_others; /* rows after the first --top rows; other_hits is the sum of their hits */
	uint64_t other_hits;
};

/*
 * A row to sort. Rows with larger weights come first; rows with equal weights stay in the order of
 * the sample.
 */
struct weighted_row {
	uint64_t weight;
	size_t row;
};

static int compare_weights(const void *a, const void *b)
{
	const struct weighted_row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return COMPARE(x->row, y->row);
}

static bool is_wildcard(const struct item *item)
{
	return item->kind == ITEM_ALL_PROBES || item->kind == ITEM_PROBE_REGEXP ||
	       item->kind == ITEM_FUNCTION_REGEXP || item->kind == ITEM_FILE_LINES;
}

/*
 * Return true if the user named PROBE itself: it was not chosen by "all probes", a regular
 * expression or "all lines of a file".
 */
static bool is_named(const struct report *report, const char *probe)
{
	const struct items *items = report->counted;
	bool has_wildcard = !items;

	for (size_t i = 0; items && i < items->n; i++) {
		const struct item *item = &items->list[i];

		if (!is_wildcard(item) && strcmp(item->text, probe) == 0)
			return true;
		has_wildcard |= is_wildcard(item);
	}
	/*
	 * No item is called PROBE, but without wildcards some item must mean it: the user may have
	 * written the name of a function differently.
	 */
	return !has_wildcard;
}

static bool is_hidden(const struct report *report, const struct ocp_hits *row, size_t n_rows)
{
	return !report->view->shows_zeros && !row->hits && n_rows > 1 &&
	       !is_named(report, row->probe);
}

/* Sort the N rows of ALL, and return the numbers of the rows to show. */
static struct table_rows take_top_rows(const struct table_view *view, struct weighted_row *all,
				       size_t n)
{
	struct table_rows rows = { .list = all ? calloc(n + 1, sizeof(*rows.list)) : NULL };

	if (rows.list && view->order != ORDER_NAME)
		qsort(all, n, sizeof(*all), compare_weights);
	if (rows.list)
		rows.n = view->top && view->top < n ? view->top : n;
	for (size_t i = 0; i < rows.n; i++)
		rows.list[i] = all[i].row;
	rows.n_others = n - rows.n;
	return rows;
}

/*
 * Choose rows to show, from the counts of REPORT. A row of counts without hits is left out, unless
 * --all is given, the user named its probe, or it is the only row. If memory runs out, no row is
 * chosen. The caller frees the rows.
 */
static struct table_rows table_rows_of_hits(const struct report *report)
{
	const size_t n_rows = ocp_sample_hits_count(report->sample);
	struct weighted_row *all = calloc(n_rows + 1, sizeof(*all));
	struct table_rows rows;
	size_t n = 0, n_hidden = 0;
	uint64_t hits = 0;

	for (size_t i = 0; all && i < n_rows; i++) {
		const struct ocp_hits *row = ocp_sample_hits(report->sample, i);

		if (is_hidden(report, row, n_rows))
			n_hidden++;
		else
			all[n++] = (struct weighted_row){ row->hits, i };
		hits += row->hits;
	}
	rows = take_top_rows(report->view, all, n);
	rows.n_hidden = n_hidden;
	for (size_t i = 0; i < rows.n; i++)
		hits -= ocp_sample_hits(report->sample, rows.list[i])->hits;
	rows.other_hits = hits;
	free(all);
	return rows;
}

static uint64_t weight_of_pair(const struct table_view *view, const struct ocp_pair *pair)
{
	if (view->order == ORDER_P99)
		return ocp_pair_quantile_ns(pair, 0.99);
	return view->order == ORDER_SUM ? pair->sum_ns : pair->count;
}

/* Choose pairs to show. Pairs without hits are not left out. The caller frees the rows. */
static struct table_rows table_rows_of_pairs(const struct report *report)
{
	const size_t n = ocp_sample_pair_count(report->sample);
	struct weighted_row *all = calloc(n + 1, sizeof(*all));
	struct table_rows rows;

	for (size_t i = 0; all && i < n; i++)
		all[i] = (struct weighted_row){
			weight_of_pair(report->view, ocp_sample_pair(report->sample, i)), i
		};
	rows = take_top_rows(report->view, all, all ? n : 0);
	free(all);
	return rows;
}

static void table_rows_free(struct table_rows *rows)
{
	free(rows->list);
	*rows = (struct table_rows){ 0 };
}

/* ---- columns -------------------------------------------------------------------------------- */

/* A column of numbers: the field NAME of each row, under TITLE. */
struct number_column {
	const char *title;
	int width;
	const char *name;
};

static const struct number_column hit_columns[] = { { "hits", 14, "hits" },
						    { "hits/s", 14, "hits_per_s" } };
static const struct number_column pair_columns[] = {
	{ "count", 12, "count" },  { "mean", 8, "mean_ns" }, { "min", 8, "min_ns" },
	{ "p50", 8, "p50_ns" },	   { "p90", 8, "p90_ns" },   { "p99", 8, "p99_ns" },
	{ "p99.9", 8, "p999_ns" }, { "max", 8, "max_ns" },   { "sum", 10, "sum_ns" },
};
static const struct number_column group_columns[] = {
	{ "count", 12, "count" }, { "mean", 8, "mean_ns" }, { "min", 8, "min_ns" },
	{ "p50", 8, "p50_ns" },	  { "p99", 8, "p99_ns" },   { "max", 8, "max_ns" },
	{ "sum", 10, "sum_ns" },
};

enum {
	N_HIT_COLUMNS = sizeof(hit_columns) / sizeof(hit_columns[0]),
	N_PAIR_COLUMNS = sizeof(pair_columns) / sizeof(pair_columns[0]),
	N_GROUP_COLUMNS = sizeof(group_columns) / sizeof(group_columns[0]),
};

static void print_titles(const struct number_column *columns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf(" %*s", columns[i].width, columns[i].title);
	putchar('\n');
}

static void print_number(const struct result_field *field, int width)
{
	char time[TIME_BYTES];

	switch (field->kind) {
	case FIELD_UINT:
		printf(" %*" PRIu64, width, field->number);
		break;
	case FIELD_RATE:
		printf(" %*.1f", width, field->real);
		break;
	case FIELD_NS:
		printf(" %*s", width, print_time(time, (double)field->number));
		break;
	default:
		printf(" %*s", width, print_time(time, field->real));
	}
}

/* Print the fields of ROW in N COLUMNS, and end the line. */
static void print_numbers(const struct number_column *columns, size_t n,
			  const struct result_row *row)
{
	for (size_t c = 0; c < n; c++)
		for (size_t i = 0; i < row->n; i++)
			if (row->fields[i].name &&
			    strcmp(row->fields[i].name, columns[c].name) == 0)
				print_number(&row->fields[i], columns[c].width);
	putchar('\n');
}

/* ---- hits ----------------------------------------------------------------------------------- */

/*
 * Write the place of a row's hits: SYMBOL+OFFSET (FILE:LINE). If the source line is unknown, write
 * the address in its place. If the symbol is unknown, leave it out.
 */
static void print_site(char *text, size_t size, const struct ocp_hits *row)
{
	char where[256];

	/* Show only the name of the source file; other formats show the directory, too. */
	if (row->source)
		snprintf(where, sizeof(where), "%s:%d", base_name(row->source), row->line);
	else
		snprintf(where, sizeof(where), "0x%" PRIx64, row->va);
	if (row->symbol)
		snprintf(text, size, "%s+0x%" PRIx64 " (%s)", row->symbol, row->symbol_off, where);
	else
		snprintf(text, size, "%s", where);
}

/*
 * If the hits are split, write what the row stands for: a site, thread or process. Otherwise write
 * "". Make the text one line, since the program chooses its symbols and thread names. Returns the
 * length.
 */
static int print_part(char *text, size_t size, const struct report *report,
		      const struct ocp_hits *row)
{
	text[0] = '\0';
	if (report->split == OCP_BY_SITE)
		print_site(text, size, row);
	else if (report->split == OCP_BY_THREAD)
		thread_line_text(text, row->pid, row->tid, row->comm);
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
	struct result_row row;

	result_of_hits(&row, report, &(const struct ocp_hits){ .hits = hits });
	printf("%-*s", name_width, name);
	if (part_width)
		printf(" %-*s", part_width, part);
	print_numbers(hit_columns, N_HIT_COLUMNS, &row);
}

static void print_hidden(const struct report *report, size_t n)
{
	const bool by_probe = report->split == OCP_BY_PROBE;

	if (n)
		printf("%zu %s%s without hits %s hidden; --all shows %s\n", n,
		       by_probe ? "probe" : "row", plural(n), n == 1 ? "is" : "are",
		       n == 1 ? "it" : "them");
}

/*
 * Compute the widths of the columns for the name of the probe and for the part that print_part()
 * writes.
 */
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
	printf("%-*s", name_width, "probe");
	if (part_width)
		printf(" %-*s", part_width, part_title(report->split));
	print_titles(hit_columns, N_HIT_COLUMNS);
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

static void print_pair(const struct ocp_pair *pair, int width)
{
	struct result_row row;
	char name[512];

	pair_name(name, sizeof(name), pair->start, pair->stop);
	result_of_pair(&row, NULL, pair);
	printf("%-*s", width, name);
	print_numbers(pair_columns, pair->count ? N_PAIR_COLUMNS : 1, &row);
}

/*
 * A histogram to draw. `label` writes the range of values of the buckets from FIRST up to, but not
 * including, NEXT. `none` is the index of the bucket that cannot contain values; N: there is no
 * such bucket.
 */
struct drawing {
	const uint64_t *buckets;
	size_t n, none;
	void (*label)(char *text, size_t size, size_t first, size_t next);
	/*
	 * Returns true if bucket I always has a line of its own. NULL: no bucket does. If is_alone
	 * is not NULL, "..." is drawn in place of long runs of empty lines.
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

/* Return the first bucket of the line after the one that begins with bucket I. */
static size_t next_bucket_line(const struct drawing *d, size_t i, size_t step)
{
	return d->is_alone && d->is_alone(i) ? i + 1 : i + step;
}

/* Return the sum of the counts of the line that begins with bucket FIRST. */
static uint64_t sum_of(const struct drawing *d, size_t first, size_t step)
{
	const size_t next = next_bucket_line(d, first, step);
	uint64_t sum = 0;

	for (size_t i = first; i < next && i < d->n; i++)
		sum += d->buckets[i];
	return sum;
}

/*
 * If more than GAP_LINES empty lines in a row begin at bucket I, return the first bucket after
 * these lines; otherwise return I.
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

/*
 * Print the time that is measured for a pair with nothing between start and stop. Every longer time
 * includes this time.
 */
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
	printf("%-*s", width, "pair");
	print_titles(pair_columns, N_PAIR_COLUMNS);
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
	/* The last bucket below 0 would be for -0, so it never has values. */
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

/* ---- groups --------------------------------------------------------------------------------- */

/* The groups of one probe or pair in the list of a sample. */
struct group_run {
	const struct value_group *list;
	size_t n;
};

static uint64_t weight_of(const struct table_view *view, const struct value_group *group)
{
	struct ocp_pair pair;

	if (!group->times || (view->has_order && view->order == ORDER_HITS))
		return group->hits;
	if (!view->has_order || view->order == ORDER_SUM)
		return group->times->sum_ns;
	pair = value_group_pair(group);
	return ocp_pair_quantile_ns(&pair, 0.99);
}

/*
 * The last row of a table of groups: the sum of the groups that have no row, and of the values that
 * did not fit into the kernel's map.
 */
struct others {
	size_t n;      /* number of groups without a row */
	bool has_more; /* there were also values that did not fit into the map */
	struct value_group sum;
	struct group_times times;
};

static void add_other(struct others *others, const struct value_group *group)
{
	struct group_times *to = &others->times;
	const struct group_times *from = group->times;

	others->n += !group->is_others;
	others->has_more |= group->is_others;
	if (from && (!others->sum.hits || from->min_ns < to->min_ns))
		to->min_ns = from->min_ns;
	others->sum.hits += group->hits;
	if (!from)
		return;
	others->sum.times = to;
	to->sum_ns += from->sum_ns;
	to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

static const char *others_text(const struct others *others, char text[OTHERS_BYTES])
{
	if (!others->has_more)
		snprintf(text, OTHERS_BYTES, "others (%zu value%s)", others->n, plural(others->n));
	else if (others->n)
		snprintf(text, OTHERS_BYTES, "others (%zu value%s, and those without room)",
			 others->n, plural(others->n));
	else
		snprintf(text, OTHERS_BYTES, "others (values without room)");
	return text;
}

static void print_group_heading(const struct report *report, const struct group_run *run,
				const char *arg, int width)
{
	const struct ocp_pair *pair =
		run->list->times ? ocp_sample_pair(report->sample, run->list->number) : NULL;
	char name[512];

	if (pair)
		pair_name(name, sizeof(name), pair->start, pair->stop);
	printf("\n%s by %s\n%-*s", pair ? name : run->list->probe, arg, width, arg);
	if (pair)
		print_titles(group_columns, N_GROUP_COLUMNS);
	else
		print_titles(hit_columns, N_HIT_COLUMNS);
}

static void print_group_row(const struct report *report, const char *text, int width,
			    const struct value_group *group)
{
	struct result_row row;

	result_of_group_counts(&row, report, group);
	printf("%-*s", width, text);
	if (group->times)
		print_numbers(group_columns, N_GROUP_COLUMNS, &row);
	else
		print_numbers(hit_columns, N_HIT_COLUMNS, &row);
}

/*
 * Fill ROWS with the groups of RUN, except the group for values that did not fit into the map. Sort
 * ROWS by weight, unless the order is by name. ROWS must have room for all groups of RUN. Return
 * the number of rows.
 */
static size_t sort_run(const struct report *report, const struct group_run *run,
		       struct weighted_row *rows)
{
	const struct table_view *view = report->view;
	size_t n = 0;

	for (size_t i = 0; i < run->n; i++)
		if (!run->list[i].is_others)
			rows[n++] = (struct weighted_row){ weight_of(view, &run->list[i]), i };
	if (!view->has_order || view->order != ORDER_NAME)
		qsort(rows, n, sizeof(*rows), compare_weights);
	return n;
}

static void print_run(const struct report *report, const struct group_run *run, const char *arg)
{
	struct weighted_row *rows = calloc(run->n + 1, sizeof(*rows));
	char **texts = calloc(run->n + 1, sizeof(*texts)), last[OTHERS_BYTES];
	size_t n = rows && texts ? sort_run(report, run, rows) : 0, n_top = TOP_GROUPS;
	struct others others = { 0 };
	int width = MIN_VALUE_WIDTH;

	if (report->view->top)
		n_top = report->view->top;
	n_top = n < n_top ? n : n_top;
	for (size_t i = n_top; i < n; i++)
		add_other(&others, &run->list[rows[i].row]);
	if (run->list[run->n - 1].is_others)
		add_other(&others, &run->list[run->n - 1]);
	for (size_t i = 0; i < n_top; i++) {
		texts[i] = value_group_text(&run->list[rows[i].row]);
		if (texts[i] && (int)strlen(texts[i]) > width)
			width = (int)strlen(texts[i]);
	}
	if (others.sum.hits && (int)strlen(others_text(&others, last)) > width)
		width = (int)strlen(last);
	print_group_heading(report, run, arg, width);
	for (size_t i = 0; i < n_top; i++) {
		print_group_row(report, texts[i] ? texts[i] : "?", width, &run->list[rows[i].row]);
		free(texts[i]);
	}
	if (others.sum.hits)
		print_group_row(report, last, width, &others.sum);
	free(texts);
	free(rows);
}

static bool is_same_run(const struct value_group *a, const struct value_group *b)
{
	return !a->probe == !b->probe && a->number == b->number;
}

/*
 * Print a table for each probe and pair of REPORT that has groups. List the groups with the most
 * hits, or with the longest sum of times, then the sum of the remaining groups.
 */
static void print_groups(const struct report *report)
{
	const struct value_groups *groups = sample_value_groups(report->sample);
	size_t next;

	for (size_t i = 0; i < groups->n; i = next) {
		for (next = i;
		     next < groups->n && is_same_run(&groups->list[i], &groups->list[next]); next++)
			;
		print_run(report, &(const struct group_run){ &groups->list[i], next - i },
			  groups->arg);
	}
}

/* ---- stacks --------------------------------------------------------------------------------- */

static void print_frame(const struct named_frame *frame, int indent)
{
	printf("%*s", indent, "");
	print_text(frame->function);
	if (frame->file && frame->line) {
		printf(" (");
		print_text(frame->file);
		printf(":%" PRIu32 ")", frame->line);
	}
	puts(frame->is_inlined ? " (inlined)" : "");
}

static void print_frames(const struct named_frames *frames, size_t shown)
{
	for (size_t i = 0; i < frames->n && i < shown; i++)
		print_frame(frames->list[i], 8);
	if (frames->n > shown)
		printf("%*s... %zu more\n", 8, "", frames->n - shown);
}

/* Print the frames of a hit, one per line. */
static void print_hit_frames(const struct named_frames *frames)
{
	print_frames(frames, frames->n);
}

/* Count the rows from FIRST on that belong to the same probe or pair. */
static size_t count_rows(const struct stack_rows *rows, size_t first)
{
	const struct stack_row *row = &rows->list[first];
	size_t n = 1;

	while (first + n < rows->n && rows->list[first + n].probe == row->probe &&
	       rows->list[first + n].pair == row->pair)
		n++;
	return n;
}

static void print_stack_row(const struct stack_row *row, double share)
{
	char sum[TIME_BYTES], mean[TIME_BYTES], max[TIME_BYTES];

	if (row->probe) {
		printf("  %" PRIu64 " hit%s, %.1f%%\n", row->n, plural(row->n), 100 * share);
		return;
	}
	print_time(sum, (double)row->sum_ns);
	print_time(mean, row->n ? (double)row->sum_ns / (double)row->n : 0);
	print_time(max, (double)row->max_ns);
	printf("  %s, %.1f%%: %" PRIu64 " time%s, mean %s, max %s\n", sum, 100 * share, row->n,
	       plural(row->n), mean, max);
}

static void print_stack_title(const struct report *report, const struct stack_row *row)
{
	const struct ocp_pair *pair;
	char name[512];

	if (row->probe) {
		printf("\nstacks of ");
		print_text(row->probe);
		putchar('\n');
		return;
	}
	pair = ocp_sample_pair(report->sample, row->pair);
	pair_name(name, sizeof(name), pair->start, pair->stop);
	printf("\nstacks at the end of ");
	print_text(name);
	putchar('\n');
}

/* Print the stacks of one probe or pair. */
static void print_stacks_of(const struct stack_row *rows, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += rows[i].probe ? rows[i].n : rows[i].sum_ns;
	for (size_t i = 0; i < n && i < SHOWN_STACKS; i++) {
		const uint64_t its = rows[i].probe ? rows[i].n : rows[i].sum_ns;

		print_stack_row(&rows[i], all ? (double)its / (double)all : 0);
		print_frames(&rows[i].frames, SHOWN_FRAMES);
	}
	if (n > SHOWN_STACKS)
		printf("  %zu more stack%s not shown; --json has all\n", n - SHOWN_STACKS,
		       n - SHOWN_STACKS == 1 ? " is" : "s are");
}

/* Print the heaviest stacks of each probe and pair in REPORT. */
static void print_stacks(const struct report *report)
{
	const struct stack_rows *rows = report->stacks;
	size_t n;

	for (size_t i = 0; i < rows->n; i += n) {
		n = count_rows(rows, i);
		print_stack_title(report, &rows->list[i]);
		print_stacks_of(&rows->list[i], n);
	}
	printf("\n%" PRIu64 " stack%s walked, %" PRIu64 " truncated, %" PRIu64
	       " without room, %" PRIu64 " in no row (map full)\n",
	       rows->walks, plural(rows->walks), rows->truncated, rows->lost, rows->not_counted);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Print N, UNIT (with an "s" unless N is 1) and WHAT, as in "1 hit rejected by the filter". */
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
		print_loss(losses->filtered, "hit",
			   report->is_outermost ? "left out by --outermost"
						: "rejected by the filter");
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
	       report_rate(report, hits), decimals_of_cost(cost_ns), cost_ns,
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
	char wall[WALL_BYTES], thread[THREAD_TEXT_BYTES];

	(void)is_first;
	if (wall_ns)
		fputs(time_of_day_text(wall, wall_ns, 6), stdout);
	else
		printf("%.6f", (double)hit->time_ns / 1e9);
	printf(" %s ", thread_line_text(thread, hit->pid, hit->tid, hit->comm));
	print_text(hit->probe);
	ocp_hit_write_args(stdout, hit);
	putchar('\n');
	if (frames)
		print_hit_frames(frames);
}

/*
 * Print a slow pair on one line. The arguments of the start precede "->", and those of the stop
 * follow it. A call of a function has only a start.
 */
static void write_slow(const struct slow_pair *pair, int64_t wall_ns)
{
	const struct ocp_hit *stop = pair->stop_hit, *start = pair->start_hit;
	char text[WALL_BYTES], thread[THREAD_TEXT_BYTES], time[TIME_BYTES];

	printf("%s %s ", time_of_day_text(text, wall_ns, 6),
	       thread_line_text(thread, stop->pid, stop->tid, stop->comm));
	printf("%s ", print_time(time, (double)pair->ns));
	print_text(pair->start);
	if (start) {
		ocp_hit_write_args(stdout, start);
		if (start->tid != stop->tid) {
			printf(" (by %d ", (int)start->tid);
			print_text(start->comm);
			putchar(')');
		}
	} else {
		fputs(" (arguments lost)", stdout);
	}
	if (*pair->stop) {
		fputs(" -> ", stdout);
		print_text(pair->stop);
		ocp_hit_write_args(stdout, stop);
	}
	putchar('\n');
}

const struct writer table_writer = { .write = write_table,
				     .write_hit = write_hit,
				     .write_slow = write_slow };
