// SPDX-License-Identifier: MIT
#include "top/tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "cli/pair_note.h"
#include "top/paint.h"
#include "top/text.h"

enum {
	MARGIN = 2, /* columns for the mark of the cursor */
	WIDE = 72,
	LEAST_SPARK = 10,
	WIDEST_NAME = 64,
	MAX_PIDS = 8, /* maximum number of pids to show; further pids are only counted */
	PROBE_BYTES = 512,
};

static int gap(void)
{
	return COLS >= WIDE ? 2 : 1;
}

static int clamp(size_t n, int low, int high)
{
	return n < (size_t)low ? low : n > (size_t)high ? high : (int)n;
}

/*
 * If SHOWN is less than ALL, write "TITLE SHOWN/ALL" to TEXT and return TEXT. Otherwise return
 * TITLE.
 */
static const char *title_of(char *text, size_t size, const char *title, int shown, size_t all)
{
	if ((size_t)shown >= all)
		return title;
	snprintf(text, size, "%s %d/%zu", title, shown, all);
	return text;
}

/*
 * Compare the rates X and Y, so that the highest rate is sorted first and unknown rates last. Equal
 * rates stay in the order of their indices A and B.
 */
static int compare_rates(double x, double y, size_t a, size_t b)
{
	x = isnan(x) ? -1 : x;
	y = isnan(y) ? -1 : y;
	return x != y ? (x < y ? 1 : -1) : COMPARE(a, b);
}

void note_hidden(struct top *top, const char *part)
{
	const size_t used = strlen(top->hidden);

	snprintf(top->hidden + used, sizeof(top->hidden) - used, "%s%s", used ? ", " : "", part);
}

/*
 * Note in top->hidden the columns that do not fit on the screen. Write the name TABLE before the
 * first of these columns.
 */
static void note_hidden_columns(struct top *top, const char *table, const struct column *columns,
				size_t n)
{
	char part[64];

	for (size_t i = 0; i < n; i++) {
		if (columns[i].rank < 0 || columns[i].width)
			continue;
		snprintf(part, sizeof(part), "%s%s", table, columns[i].title);
		note_hidden(top, part);
		table = "";
	}
}

/* ---- programs ------------------------------------------------------------------------------- */

const char *target_state(const struct top *top, const struct seen_target *target)
{
	if (!top->shown_ticks)
		return "starting";
	if (target->is_up)
		return "up";
	return target->n_pids || target->problem ? "not measured" : "waiting";
}

void write_pids(char *text, size_t size, const struct seen_target *target)
{
	size_t n = 0;

	if (!target->n_pids) {
		snprintf(text, size, "%s",
			 target->knows_pids && !target->problem ? "no process" : "pids unknown");
		return;
	}
	n += (size_t)snprintf(text, size, "pid%s", target->n_pids > 1 ? "s" : "");
	for (size_t i = 0; i < target->n_pids && i < MAX_PIDS && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, " %d", (int)target->pids[i]);
	if (target->n_pids > MAX_PIDS && n < size)
		snprintf(text + n, size - n, " and %zu more", target->n_pids - MAX_PIDS);
}

static int compare_targets(const void *left, const void *right, void *data)
{
	const struct view_snapshot *seen = data;
	const size_t a = *(const size_t *)left, b = *(const size_t *)right;
	const double x = seen->targets[a].rate, y = seen->targets[b].rate;

	return compare_rates(x, y, a, b);
}

static void draw_program(const struct top *top, int y, const struct column *columns,
			 const struct seen_target *target)
{
	const int64_t seconds = (top->view.seen->time_ns - target->since_ns) / 1000000000;
	char text[TEXT_BYTES], pids[PROBE_BYTES];

	paint_cell(y, &columns[0], target->name);
	attron(paint_colour(target->is_up ? COLOUR_GOOD : COLOUR_NOTE));
	paint_cell(y, &columns[1], target_state(top, target));
	attroff(paint_colour(target->is_up ? COLOUR_GOOD : COLOUR_NOTE));
	paint_cell(y, &columns[2], text_rate(text, target->rate));
	paint_cell(y, &columns[3], text_share(text, target->cpu_overhead));
	paint_cell(y, &columns[4], text_ns(text, (uint64_t)target->cost_per_hit_ns, top->is_utf8));
	paint_cell(y, &columns[5], text_duration(text, seconds));
	write_pids(pids, sizeof(pids), target);
	paint_cell(y, &columns[6], target->problem ? target->problem : pids);
}

void draw_programs(struct top *top, int y, int lines)
{
	const struct view_snapshot *seen = top->view.seen;
	const int name = clamp(seen->longest_exe, 8, 32);
	struct column columns[] = {
		{ .title = "program", .rank = 0, .min = name < 12 ? name : 12, .want = name },
		{ .title = "state", .rank = 1, .min = 12, .want = 12 },
		{ .title = "hits/s", .rank = 2, .min = 6, .want = 6, .is_right = true },
		{ .title = "overhead", .rank = 3, .min = 8, .want = 8, .is_right = true },
		{ .title = "per hit", .rank = 5, .min = 7, .want = 7, .is_right = true },
		{ .title = "for", .rank = 6, .min = 6, .want = 6, .is_right = true },
		{ .title = "processes", .rank = 4, .min = 10, .want = COLS },
	};
	const size_t n = sizeof(columns) / sizeof(columns[0]);
	size_t *order = calloc(seen->n_targets + 1, sizeof(*order));
	char title[64];

	if (!order)
		return;
	for (size_t i = 0; i < seen->n_targets; i++)
		order[i] = i;
	if ((size_t)lines < seen->n_targets)
		qsort_r(order, seen->n_targets, sizeof(*order), compare_targets, (void *)seen);
	columns[0].title = title_of(title, sizeof(title), "program", lines, seen->n_targets);
	columns[0].want = clamp((size_t)text_width(columns[0].title), name, 40);
	layout_columns(columns, n, MARGIN, COLS, gap());
	note_hidden_columns(top, "programs: ", columns, n);
	paint_titles(y, columns, n, n, "");
	for (int i = 0; i < lines; i++)
		draw_program(top, y + 1 + i, columns, &seen->targets[order[i]]);
	free(order);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

size_t shown_pair_count(const struct view *view)
{
	size_t n = 0;

	for (size_t i = 0; i < view->seen->n_pairs; i++)
		n += view_shows_pair(view, &view->seen->pairs[i]);
	return n;
}

static int compare_pairs(const void *left, const void *right, void *data)
{
	const struct view_snapshot *seen = data;
	const size_t a = *(const size_t *)left, b = *(const size_t *)right;
	const double x = seen->pairs[a].rate, y = seen->pairs[b].rate;

	return compare_rates(x, y, a, b);
}

static void draw_pair(const struct top *top, int y, const struct column *columns,
		      const struct seen_pair *pair)
{
	char text[TEXT_BYTES], name[2 * PROBE_BYTES];

	pair_name(name, sizeof(name), pair->start, pair->stop);
	paint_name(y, &columns[0], name);
	paint_cell(y, &columns[1], top->view.seen->targets[pair->target].name);
	paint_cell(y, &columns[2], text_rate(text, pair->rate));
	paint_cell(y, &columns[3], text_ns(text, pair->p50_ns, top->is_utf8));
	paint_cell(y, &columns[4], text_ns(text, pair->p99_ns, top->is_utf8));
	paint_cell(y, &columns[5], text_ns(text, pair->max_ns, top->is_utf8));
	paint_cell(y, &columns[6], text_count(text, pair->open, columns[6].width));
	if (pair->orphans)
		attron(paint_colour(COLOUR_NOTE));
	paint_cell(y, &columns[7], text_count(text, pair->orphans, columns[7].width));
	attroff(paint_colour(COLOUR_NOTE));
	if (pair->mismatched)
		attron(paint_colour(COLOUR_NOTE));
	paint_cell(y, &columns[8], text_count(text, pair->mismatched, columns[8].width));
	attroff(paint_colour(COLOUR_NOTE));
}

static bool has_mismatch(const struct view_snapshot *seen)
{
	for (size_t i = 0; i < seen->n_pairs; i++)
		if (seen->pairs[i].mismatched)
			return true;
	return false;
}

void draw_pairs(struct top *top, int y, int lines)
{
	const struct view_snapshot *seen = top->view.seen;
	const bool has_exe = seen->n_targets > 1;
	const int name = clamp(seen->longest_pair, 8, WIDEST_NAME);
	struct column columns[] = {
		{ .title = "pair", .rank = 0, .min = name < 13 ? name : 13, .want = name },
		{ .title = "program", .rank = has_exe ? 3 : -1, .min = 8 },
		{ .title = "pairs/s", .rank = 1, .min = 7, .is_right = true },
		{ .title = "p50", .rank = 2, .min = 6, .is_right = true },
		{ .title = "p99", .rank = 2, .min = 6, .is_right = true },
		{ .title = "max", .rank = 4, .min = 6, .is_right = true },
		{ .title = "open", .rank = 5, .min = 5, .want = 7, .is_right = true },
		{ .title = "orphans", .rank = 6, .min = 7, .want = 9, .is_right = true },
		/* The column is hidden if there are no mismatches. */
		{ .title = "mismatched",
		  .rank = has_mismatch(seen) ? 2 : -1,
		  .min = 10,
		  .is_right = true },
	};
	const size_t n = sizeof(columns) / sizeof(columns[0]);
	size_t *shown = calloc(seen->n_pairs + 1, sizeof(*shown));
	size_t n_shown = 0;
	char title[64];

	if (!shown)
		return;
	for (size_t i = 0; i < seen->n_pairs; i++)
		if (view_shows_pair(&top->view, &seen->pairs[i]))
			shown[n_shown++] = i;
	/*
	 * The pairs are in the order of the request. But if not all of them fit, show the busiest
	 * ones, sorted by rate.
	 */
	if ((size_t)lines < n_shown)
		qsort_r(shown, n_shown, sizeof(*shown), compare_pairs, (void *)seen);
	columns[0].title = title_of(title, sizeof(title), "pair", lines, n_shown);
	columns[0].want = clamp((size_t)text_width(columns[0].title), name, WIDEST_NAME);
	columns[1].want = clamp(seen->longest_exe, 8, 24);
	layout_columns(columns, n, MARGIN, COLS, gap());
	note_hidden_columns(top, "pairs: ", columns, n);
	paint_titles(y, columns, n, n, "");
	for (int i = 0; i < lines && (size_t)i < n_shown; i++)
		draw_pair(top, y + 1 + i, columns, &seen->pairs[shown[i]]);
	free(shown);
}

/* ---- probes --------------------------------------------------------------------------------- */

enum {
	COLUMN_NAME,
	COLUMN_EXE,
	COLUMN_RATE,
	COLUMN_SPARK,
	COLUMN_HITS,
	COLUMN_SITES,
	COLUMN_HANDLER,
	COLUMN_COUNTED,
	N_COLUMNS,
};

static int digits(uint64_t number)
{
	char text[TEXT_BYTES];

	return snprintf(text, sizeof(text), "%" PRIu64, number);
}

/*
 * Return true if a program has several processes. A state may then contain numbers, as in "mixed
 * 1/2".
 */
static bool has_several_processes(const struct view_snapshot *seen)
{
	for (size_t i = 0; i < seen->n_targets; i++)
		if (seen->targets[i].n_pids > 1)
			return true;
	return false;
}

static void lay_out_probes(struct column *columns, const struct view_snapshot *seen)
{
	const bool has_exe = seen->n_targets > 1;
	const int name = clamp(seen->longest_name, 8, WIDEST_NAME);
	const int exe = clamp(seen->longest_exe, 8, 24), least = has_exe ? 12 : 16;
	const int handler = has_several_processes(seen) ? 11 : 8;
	const struct column all[N_COLUMNS] = {
		[COLUMN_NAME] = { .title = "probe",
				  .min = name < least ? name : least,
				  .want = name },
		[COLUMN_EXE] = { .title = "program",
				 .rank = has_exe ? 2 : -1,
				 .min = 8,
				 .want = exe },
		[COLUMN_RATE] = { .title = "hits/s", .rank = 1, .min = 7, .is_right = true },
		[COLUMN_SPARK] = { .title = "last minute",
				   .rank = 5,
				   .min = LEAST_SPARK,
				   .want = WATCH_COLUMNS },
		[COLUMN_HITS] = { .title = "hits",
				  .rank = 4,
				  .min = 9,
				  .want = digits(seen->most_hits),
				  .is_right = true },
		[COLUMN_SITES] = { .title = "sites", .rank = 7, .min = 6, .is_right = true },
		[COLUMN_HANDLER] = { .title = "handler", .rank = 3, .min = 8, .want = handler },
		[COLUMN_COUNTED] = { .title = "counted", .rank = 6, .min = 7 },
	};
	int surplus;

	memcpy(columns, all, sizeof(all));
	layout_columns(columns, N_COLUMNS, MARGIN, COLS, gap());
	/* The number of cells of the bar must divide a minute evenly. */
	surplus = columns[COLUMN_SPARK].width - spark_width(columns[COLUMN_SPARK].width);
	columns[COLUMN_SPARK].width -= surplus;
	if (columns[COLUMN_SPARK].width &&
	    columns[COLUMN_SPARK].width < text_width(columns[COLUMN_SPARK].title))
		columns[COLUMN_SPARK].title = "minute";
	for (size_t i = COLUMN_SPARK + 1; i < N_COLUMNS; i++)
		columns[i].x -= surplus;
}

static void fold_probe(const struct top *top, size_t line, float *cells, int width)
{
	float rates[WATCH_COLUMNS];

	view_snapshot_history(top->view.seen, top->watch, view_probe(&top->view, line), rates);
	spark_fold(rates, top->shown_ticks, cells, width);
}

/*
 * Return the highest rate on the screen, which is the common scale of the bars; 0 if each bar has a
 * scale of its own.
 */
static float common_highest(const struct top *top, int lines, int width)
{
	float highest = 0, cells[WATCH_COLUMNS];

	for (int i = 0; top->scales_by_all && width && i < lines; i++) {
		float its;

		if (top->view.first + (size_t)i >= top->view.n_shown)
			break;
		fold_probe(top, top->view.first + (size_t)i, cells, width);
		its = spark_highest(cells, width);
		highest = its > highest ? its : highest;
	}
	return highest;
}

static void draw_spark(const struct top *top, int y, const struct column *column, size_t line,
		       float highest)
{
	float cells[WATCH_COLUMNS];
	char text[WATCH_COLUMNS * 4 + 1];

	if (!column->width)
		return;
	fold_probe(top, line, cells, column->width);
	if (!top->scales_by_all)
		highest = spark_highest(cells, column->width);
	spark_draw(text, cells, column->width, highest, top->is_utf8);
	attron(paint_colour(COLOUR_BARS));
	mvaddstr(y, column->x, text);
	attroff(paint_colour(COLOUR_BARS));
}

static void draw_handler(const struct top *top, int y, const struct column *column,
			 const struct seen_probe *probe)
{
	static const struct {
		const char *word;
		enum colour colour;
	} states[] = {
		[WATCH_HANDLER_UNKNOWN] = { "?", COLOUR_NONE },
		[WATCH_HANDLER_OFF] = { "off", COLOUR_NONE },
		[WATCH_HANDLER_ON] = { "on", COLOUR_GOOD },
		[WATCH_HANDLER_MIXED] = { "mixed", COLOUR_NOTE },
		[WATCH_HANDLER_NONE] = { "none", COLOUR_NONE },
	};
	const size_t n_pids = top->view.seen->targets[probe->target].n_pids;
	char text[64];

	snprintf(text, sizeof(text), "%s", states[probe->handler].word);
	if (probe->handler == WATCH_HANDLER_MIXED && n_pids > 1)
		snprintf(text, sizeof(text), "mixed %zu/%zu", probe->n_enabled, n_pids);
	if (text_width(text) > column->width)
		snprintf(text, sizeof(text), "%s", states[probe->handler].word);
	attron(paint_colour(states[probe->handler].colour));
	paint_cell(y, column, text);
	attroff(paint_colour(states[probe->handler].colour));
}

static void draw_probe(const struct top *top, int y, const struct column *columns, size_t line,
		       float highest)
{
	const struct seen_probe *probe = view_probe(&top->view, line);
	const bool is_cursor = line == top->view.cursor;
	const struct seen_target *target = &top->view.seen->targets[probe->target];
	const bool is_measured = probe->is_counted || probe->is_in_pair;
	char text[TEXT_BYTES];

	if (is_cursor) {
		attron(A_REVERSE);
		mvhline(y, 0, ' ', COLS);
		mvaddch(y, 0, '>');
	}
	paint_name(y, &columns[COLUMN_NAME], probe->name);
	paint_cell(y, &columns[COLUMN_EXE], target->name);
	paint_cell(y, &columns[COLUMN_RATE], text_rate(text, is_measured ? probe->rate : NAN));
	draw_spark(top, y, &columns[COLUMN_SPARK], line, highest);
	paint_cell(y, &columns[COLUMN_HITS],
		   text_count(text, probe->hits, columns[COLUMN_HITS].width));
	paint_cell(y, &columns[COLUMN_SITES],
		   text_count(text, probe->n_sites, columns[COLUMN_SITES].width));
	draw_handler(top, y, &columns[COLUMN_HANDLER], probe);
	paint_cell(y, &columns[COLUMN_COUNTED],
		   !target->is_up      ? "-"
		   : probe->is_in_pair ? "pair"
		   : probe->is_counted ? "yes"
				       : "no");
	attroff(A_REVERSE);
}

static const char *nothing_to_show(const struct top *top)
{
	const struct view_snapshot *seen = top->view.seen;

	if (!top->shown_ticks)
		return "looking for probes ...";
	if (!seen->n_targets)
		return "no measurable program with probes is running; waiting for one";
	if (!seen->n_probes && seen->n_targets == 1 && seen->targets[0].is_up)
		return "no probes yet; waiting for a file with probes to be loaded";
	if (!seen->n_probes)
		return "no probes yet; waiting for a process";
	return "no probe matches; Esc shows all";
}

void draw_probes(struct top *top, int y, int lines)
{
	static const size_t columns_of[N_SORT_KEYS] = {
		[SORT_RATE] = COLUMN_RATE, [SORT_HITS] = COLUMN_HITS,
		[SORT_NAME] = COLUMN_NAME, [SORT_HANDLER] = COLUMN_HANDLER,
		[SORT_EXE] = COLUMN_EXE,
	};
	static const char *const marks[2][2] = { { "v", "^" }, { "▼", "▲" } };
	const struct view *view = &top->view;
	/* By default, text is sorted in ascending order, numbers in descending order. */
	const bool is_up = view->is_reversed != (view->key == SORT_NAME || view->key == SORT_EXE);
	struct column columns[N_COLUMNS];
	float highest;

	lay_out_probes(columns, view->seen);
	note_hidden_columns(top, "", columns, N_COLUMNS);
	highest = common_highest(top, lines, columns[COLUMN_SPARK].width);
	paint_titles(y, columns, N_COLUMNS, columns_of[view->key], marks[top->is_utf8][is_up]);
	for (int i = 0; i < lines && view->first + (size_t)i < view->n_shown; i++)
		draw_probe(top, y + 1 + i, columns, view->first + (size_t)i, highest);
	if (!view->n_shown)
		paint_text(y + 1, MARGIN, COLS - MARGIN, nothing_to_show(top));
}
