// SPDX-License-Identifier: MIT
/* The whole screen: the lines above and below the tables, and the help. */
#include "top/top.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "top/text.h"
#include "top/paint.h"
#include "top/tables.h"

enum {
	LEAST_COLUMNS = 40,
	LEAST_LINES = 8,
	HEAD_LINES = 2,
	FOOT_LINES = 2,
	TITLE_GAP = 2,
	LEAST_KEYS = 8, /* columns kept free for "? help" */
};

void draw_begin(struct top *top)
{
	top->has_colours = paint_begin();
}

/* ---- above ---------------------------------------------------------------------------------- */

static void draw_title(const struct top *top)
{
	static const char name[] = "ocaml-probes top";
	const struct view_snapshot *seen = top->view.seen;
	const int x = (int)sizeof(name) - 1 + TITLE_GAP;
	char right[16] = "FROZEN", text[2048];
	time_t now = (time_t)(seen->time_ns / 1000000000);
	size_t n_pids = 0;
	struct tm tm;
	int room;

	if (!top->is_paused && localtime_r(&now, &tm))
		strftime(right, sizeof(right), "%H:%M:%S", &tm);
	room = COLS - x - TITLE_GAP - (int)strlen(right);
	for (size_t i = 0; i < seen->n_targets; i++)
		n_pids += seen->targets[i].n_pids;
	if (seen->n_targets == 1) {
		text_fit(text, sizeof(text), seen->targets[0].exe, room, TEXT_CUT_FRONT);
	} else if (!top->shown_ticks) {
		text[0] = '\0';
	} else {
		snprintf(text, sizeof(text), "%zu programs, %zu process%s", seen->n_targets, n_pids,
			 n_pids == 1 ? "" : "es");
	}
	attron(A_BOLD);
	paint_text(0, 0, COLS, name);
	attroff(A_BOLD);
	paint_text(0, x, room, text);
	attron(top->is_paused ? A_REVERSE : A_NORMAL);
	paint_text(0, COLS - (int)strlen(right), (int)strlen(right), right);
	attroff(A_REVERSE);
}

enum {
	FIELD_STATE,
	FIELD_PIDS,
	FIELD_SINCE,
	FIELD_RATE,
	FIELD_COST,
	FIELD_BUDGET,
	FIELD_HIT,
	FIELD_ENGINE,
	N_FIELDS
};

static void describe_target(const struct top *top, const struct seen_target *target,
			    struct field *fields)
{
	const int64_t seconds = (top->view.seen->time_ns - target->since_ns) / 1000000000;
	char text[TEXT_BYTES];

	fields[FIELD_STATE].rank = 0;
	snprintf(fields[FIELD_STATE].text, sizeof(fields[0].text), "%s", target_state(top, target));
	fields[FIELD_PIDS].rank = 4;
	write_pids(fields[FIELD_PIDS].text, sizeof(fields[0].text), target);
	fields[FIELD_SINCE].rank = 5;
	snprintf(fields[FIELD_SINCE].text, sizeof(fields[0].text), "for %s",
		 text_duration(text, seconds));
	if (target->cost_per_hit_ns > 0) {
		fields[FIELD_HIT].rank = 6;
		snprintf(fields[FIELD_HIT].text, sizeof(fields[0].text), "%s per hit",
			 text_ns(text, (uint64_t)target->cost_per_hit_ns, top->is_utf8));
	}
	if (target->engine != WATCH_ENGINE_UNKNOWN) {
		fields[FIELD_ENGINE].rank = 7;
		snprintf(fields[FIELD_ENGINE].text, sizeof(fields[0].text), "engine %s",
			 watch_engine_name(target->engine));
	}
}

/* Draw the summary line: sums over the programs, or the details of a single program. */
static void draw_summary(const struct top *top)
{
	const struct view_snapshot *seen = top->view.seen;
	struct field fields[N_FIELDS];
	double rate = NAN, share = 0;
	char text[TEXT_BYTES];

	for (size_t i = 0; i < seen->n_targets; i++) {
		if (!isnan(seen->targets[i].rate))
			rate = seen->targets[i].rate + (isnan(rate) ? 0 : rate);
		share += seen->targets[i].cpu_overhead;
	}
	for (size_t i = 0; i < N_FIELDS; i++)
		fields[i] = (struct field){ .rank = -1 };
	if (seen->n_targets == 1)
		describe_target(top, &seen->targets[0], fields);
	fields[FIELD_RATE].rank = 1;
	snprintf(fields[FIELD_RATE].text, sizeof(fields[0].text), "%s hits/s",
		 text_rate(text, rate));
	fields[FIELD_COST].rank = 2;
	snprintf(fields[FIELD_COST].text, sizeof(fields[0].text), "CPU overhead %s",
		 text_share(text, share));
	if (top->budget > 0) {
		fields[FIELD_BUDGET].rank = 3;
		snprintf(fields[FIELD_BUDGET].text, sizeof(fields[0].text), "budget %g%%%s",
			 100 * top->budget, top->has_all ? " a program" : "");
	}
	paint_fields(1, 0, COLS, fields, N_FIELDS);
}

enum { GC_MINOR, GC_MAJOR, GC_ALLOCATED, GC_PROMOTED, GC_HEAP, GC_PAUSES, N_GC_FIELDS };

/* Write WHAT, then WORDS converted to bytes, then UNIT: "allocated 110MB/s". */
static void write_words_as_bytes(struct field *field, const char *what, double words,
				 const char *unit)
{
	char text[TEXT_BYTES];

	snprintf(field->text, sizeof(field->text), "%s %s%s", what, text_rate(text, 8 * words),
		 unit);
}

/*
 * Draw the activity of the garbage collector, if there is a single program and its memory can be
 * read. Return the number of lines used.
 */
static int draw_collector(const struct top *top, int y)
{
	const struct view_snapshot *seen = top->view.seen;
	const struct watch_gc *gc = seen->n_targets == 1 ? &seen->targets[0].gc : NULL;
	struct field fields[N_GC_FIELDS];
	char text[TEXT_BYTES];

	if (!gc || !gc->n_processes)
		return 0;
	for (size_t i = 0; i < N_GC_FIELDS; i++)
		fields[i] = (struct field){ .rank = -1 };
	fields[GC_MINOR].rank = 0;
	snprintf(fields[GC_MINOR].text, sizeof(fields[0].text), "gc   %s minor/s",
		 text_rate(text, gc->minor_rate));
	fields[GC_MAJOR].rank = 3;
	snprintf(fields[GC_MAJOR].text, sizeof(fields[0].text), "%s major/s",
		 text_rate(text, gc->major_rate));
	if (gc->has_words) {
		fields[GC_ALLOCATED].rank = 1;
		write_words_as_bytes(&fields[GC_ALLOCATED], "allocated", gc->allocated_rate, "B/s");
		fields[GC_PROMOTED].rank = 5;
		write_words_as_bytes(&fields[GC_PROMOTED], "promoted", gc->promoted_rate, "B/s");
		fields[GC_HEAP].rank = 2;
		write_words_as_bytes(&fields[GC_HEAP], "heap", (double)gc->heap_words, "B");
	}
	if (!isnan(gc->pause_share)) {
		fields[GC_PAUSES].rank = 4;
		snprintf(fields[GC_PAUSES].text, sizeof(fields[0].text), "pauses %s",
			 text_share(text, gc->pause_share));
	}
	paint_fields(y, 0, COLS, fields, N_GC_FIELDS);
	return 1;
}

/* Draw the losses, if there are any. Return the number of lines used. */
static int draw_losses(const struct top *top, int y)
{
	struct watch_losses sum = { 0 };
	struct field fields[6] = { { "not measured:", 0 } };
	const struct view_snapshot *seen = top->view.seen;
	size_t n = 1;

	for (size_t i = 0; i < seen->n_targets; i++) {
		const struct watch_losses *losses = &seen->targets[i].losses;

		sum.pair_map_full += losses->pair_map_full;
		sum.pair_not_keyed += losses->pair_not_keyed;
		sum.rows_full += losses->rows_full;
		sum.children_full += losses->children_full;
		sum.filter_mismatches += losses->filter_mismatches;
	}
	const struct {
		uint64_t count;
		const char *what;
	} all[] = {
		{ sum.pair_map_full, "starts not recorded (map full)" },
		{ sum.pair_not_keyed, "starts without a key" },
		{ sum.rows_full, "hits in no row (map full)" },
		{ sum.children_full, "children not followed (map full)" },
		{ sum.filter_mismatches, "hits of another type than the filter's" },
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].count)
			snprintf(fields[n++].text, sizeof(fields[0].text), "%" PRIu64 " %s",
				 all[i].count, all[i].what);
	if (n == 1)
		return 0;
	attron(paint_colour(COLOUR_BAD));
	paint_fields(y, 0, COLS, fields, n);
	attroff(paint_colour(COLOUR_BAD));
	return 1;
}

/* Draw the filter mismatch of the first program that has one. Return the number of lines used. */
static int draw_mismatch(const struct top *top, int y)
{
	const struct view_snapshot *seen = top->view.seen;
	char text[256];
	size_t i = 0;

	while (i < seen->n_targets && !seen->targets[i].filter_mismatch)
		i++;
	if (i == seen->n_targets)
		return 0;
	snprintf(text, sizeof(text), "filter: %s", seen->targets[i].filter_mismatch);
	attron(paint_colour(COLOUR_BAD));
	paint_text(y, 0, COLS, text);
	attroff(paint_colour(COLOUR_BAD));
	return 1;
}

/*
 * Draw the problem of a single program; with several programs, the table has a column for problems.
 * Return the number of lines used.
 */
static int draw_problem(const struct top *top, int y)
{
	const struct view_snapshot *seen = top->view.seen;

	if (seen->n_targets != 1 || !seen->targets[0].problem)
		return 0;
	attron(paint_colour(COLOUR_NOTE));
	paint_text(y, 0, COLS, seen->targets[0].problem);
	attroff(paint_colour(COLOUR_NOTE));
	return 1;
}

static uint64_t faults_of(const struct seen_pair *pair)
{
	return pair->orphans + pair->mismatched;
}

/*
 * Draw advice about the pair with the most orphans and mismatches. Return the number of lines used.
 */
static int draw_pair_note(const struct top *top, int y)
{
	const struct view_snapshot *seen = top->view.seen;
	const struct seen_pair *worst = NULL;

	for (size_t i = 0; i < seen->n_pairs; i++)
		if (seen->pairs[i].note &&
		    (!worst || faults_of(&seen->pairs[i]) > faults_of(worst)))
			worst = &seen->pairs[i];
	if (!worst)
		return 0;
	attron(paint_colour(COLOUR_NOTE));
	paint_text(y, 0, COLS, worst->note);
	attroff(paint_colour(COLOUR_NOTE));
	return 1;
}

/*
 * Draw a line about the probes that have uses without a site, if there are any. Return the number
 * of lines used.
 */
static int draw_uses_without_site(const struct top *top, int y)
{
	const struct view_snapshot *seen = top->view.seen;
	const struct seen_probe *first = NULL;
	char text[256];
	size_t others = 0;

	for (size_t i = 0; i < seen->n_probes; i++) {
		const struct seen_probe *probe = &seen->probes[i];

		if (probe->n_uses_without_site && first)
			others++;
		else if (probe->n_uses_without_site)
			first = probe;
	}
	if (!first)
		return 0;
	snprintf(text, sizeof(text),
		 "probe '%.128s': %zu of its %zu uses have no site; their hits are not counted",
		 first->name, first->n_uses_without_site, first->n_uses);
	if (others)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " (and %zu other%s)",
			 others, others == 1 ? "" : "s");
	attron(paint_colour(COLOUR_NOTE));
	paint_text(y, 0, COLS, text);
	attroff(paint_colour(COLOUR_NOTE));
	return 1;
}

/* ---- below ---------------------------------------------------------------------------------- */

/*
 * Draw, at the right, the filter and the text FIRST-LAST/ALL: which lines of the table of probes
 * are visible, and how many lines it has. Return the number of columns to the left of this text.
 */
static int draw_position(const struct top *top, int y)
{
	const struct view *view = &top->view;
	const size_t n = view->n_lines < view->n_shown ? view->n_lines : view->n_shown;
	const bool is_filtered = view->filter[0] && top->mode != MODE_FILTER;
	char text[FILTER_BYTES + 128];
	int width;

	snprintf(text, sizeof(text), "%s%s%s%zu-%zu/%zu", is_filtered ? "/" : "",
		 is_filtered ? view->filter : "", is_filtered ? " " : "",
		 view->n_shown ? view->first + 1 : 0, view->first + n, view->n_shown);
	width = text_width(text);
	/* If the text is too long, show its end, which has the numbers. */
	width = width < COLS / 2 ? width : COLS / 2;
	paint_text_end(y, COLS - width, width, text);
	return COLS - width;
}

static void draw_status(const struct top *top, int y)
{
	const int room = draw_position(top, y) - TITLE_GAP;

	if (top->mode == MODE_FILTER) {
		/* Show the end of the filter, since that is where the user types. */
		paint_text(y, 0, 1, "/");
		move(y, 1 + paint_text_end(y, 1, room - 2, top->view.filter));
		return;
	}
	if (top->mode == MODE_CONFIRM) {
		/*
		 * If the question is too long, show only its end: the beginning names the probe,
		 * which is also marked in the table.
		 */
		attron(A_BOLD);
		mvhline(y, 0, ' ', COLS);
		paint_text_end(y, 0, COLS, top->question);
		attroff(A_BOLD);
		return;
	}
	paint_text(y, 0, room, top->message);
}

/*
 * Draw, at the right, the names of the parts that do not fit on the screen. Return the number of
 * columns to the left of this text.
 */
static int draw_hidden(const struct top *top, int y)
{
	char text[sizeof(top->hidden) + 16];
	int width;

	if (!top->hidden[0])
		return COLS;
	snprintf(text, sizeof(text), "hidden: %s", top->hidden);
	width = text_width(text);
	width = width < COLS - LEAST_KEYS ? width : COLS - LEAST_KEYS;
	attron(paint_colour(COLOUR_NOTE));
	paint_text(y, COLS - width, width, text);
	attroff(paint_colour(COLOUR_NOTE));
	return COLS - width;
}

static void draw_keys(const struct top *top, int y)
{
	static const struct {
		const char *key, *does;
	} normal[] = {
		{ "?", "help" },    { "q", "quit" },	 { "s", "sort" },    { "/", "filter" },
		{ "space", "freeze" }, { "e", "handler" }, { "c", "counter" }, { "S", "reverse" },
		{ "a", "scale" },
	}, filter[] = { { "Enter", "keep" }, { "Esc", "show all" } },
	  confirm[] = { { "y", "yes" }, { "n", "no" } };
	const bool is_filter = top->mode == MODE_FILTER, is_confirm = top->mode == MODE_CONFIRM;
	const size_t n = is_filter || is_confirm ? 2 : sizeof(normal) / sizeof(normal[0]);
	const int room = is_filter || is_confirm ? COLS : draw_hidden(top, y);
	int x = 0;

	for (size_t i = 0; i < n; i++) {
		const char *key = is_filter    ? filter[i].key
				  : is_confirm ? confirm[i].key
					       : normal[i].key;
		const char *does = is_filter	? filter[i].does
				   : is_confirm ? confirm[i].does
						: normal[i].does;

		if (x + (int)(strlen(key) + 1 + strlen(does)) > room)
			return;
		attron(A_BOLD);
		x += paint_text(y, x, COLS - x, key) + 1;
		attroff(A_BOLD);
		x += paint_text(y, x, COLS - x, does) + TITLE_GAP;
	}
}

/* ---- help ----------------------------------------------------------------------------------- */

enum { HELP_INDENT = 14 };

static const struct {
	const char *key, *does;
} help[] = {
	{ "up down j k", "move by a line; PgUp and PgDn move by a screen" },
	{ "Home End g G", "go to the first line, go to the last line" },
	{ "s", "sort by the next column; S reverses the order" },
	{ "r n h", "sort by rate, name, hits; the same key again reverses" },
	{ "/", "show only lines whose name contains a text" },
	{ "Esc", "show all lines again" },
	{ "space", "freeze the display, or unfreeze it; counting continues" },
	{ "a", "use one scale for all bars, or one for each" },
	{ "e c", "switch the probe's handlers, after a question, or its counter" },
	{ "q Ctrl-C", "quit; handlers stay on or off" },
	{ "hits/s", "hits in the last second; likewise pairs/s" },
	{ "last minute", "hits/s over time; the lowest bar is zero" },
	{ "p50 p99 max", "half, 99% of the last minute's pairs took this; the longest ever" },
	{ "open", "starts without a stop so far" },
	{ "orphans", "starts and stops without a partner: an exception skipped it (use Fun.protect "
		     "~finally), or another thread has it (use --key argN)" },
	{ "mismatched", "of two requests: an argument differs (leave out --key none)" },
	{ "handler", "on, off, mixed, or ? if it cannot be read" },
	{ "counted", "yes, no, or pair: the probe is part of a pair" },
	{ "live words", "words alive, of those allocated since the start (--memprof)" },
	{ "CPU overhead", "hits x cost per hit; over budget, counters go off" },
};

#define N_HELP (sizeof(help) / sizeof(help[0]))

/* Return how many bytes of TEXT, up to a space, fit into WIDTH columns. */
static size_t line_bytes(const char *text, size_t width)
{
	size_t bytes = strlen(text);

	if (bytes <= width)
		return bytes;
	for (bytes = width; bytes > 0 && text[bytes] != ' '; bytes--)
		;
	return bytes ? bytes : width;
}

/*
 * Draw the lines of the help from FIRST to END - 1. Return the number of lines of the whole help.
 */
static size_t draw_help_lines(const struct top *top, size_t first, size_t end)
{
	const size_t first_topic = top->hidden[0] ? 0 : 1;
	const size_t width = (size_t)COLS - HELP_INDENT - 1;
	size_t line = 0;

	/* If parts of the screen are hidden, the help lists these parts before its topics. */
	for (size_t i = first_topic; i <= N_HELP; i++) {
		const char *key = i ? help[i - 1].key : "hidden";
		const char *at = i ? help[i - 1].does : top->hidden;

		for (bool is_first = true; *at; line++, is_first = false) {
			const size_t bytes = line_bytes(at, width);
			const int y = (int)(line - first) + 1;

			if (line >= first && line < end && is_first)
				paint_text(y, 1, HELP_INDENT, key);
			if (line >= first && line < end)
				mvaddnstr(y, HELP_INDENT, at, (int)bytes);
			at += bytes;
			at += *at == ' ';
		}
	}
	return line;
}

/* Draw page number help_page of the help. Return false if the help has no such page. */
static bool draw_help(const struct top *top)
{
	const size_t page = (size_t)LINES - 3, first = top->help_page * page;
	const size_t n = draw_help_lines(top, first, first + page);

	if (first >= n)
		return false;
	attron(A_BOLD);
	paint_text(0, 0, COLS, "ocaml-probes top");
	attroff(A_BOLD);
	paint_text(LINES - 1, 0, COLS, first + page < n ? "any key: more" : "any key: back");
	return true;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void draw_too_small(void)
{
	char text[128];

	snprintf(text, sizeof(text), "%dx%d is too small (%dx%d)", COLS, LINES, LEAST_COLUMNS,
		 LEAST_LINES);
	paint_text(0, 0, COLS, text);
}

static void draw_all(struct top *top)
{
	const struct view_snapshot *seen = top->view.seen;
	struct heights heights;
	int y = HEAD_LINES, heap_lines;

	top->hidden[0] = '\0';
	draw_title(top);
	draw_summary(top);
	y += draw_collector(top, y);
	y += draw_problem(top, y);
	y += draw_uses_without_site(top, y);
	y += draw_losses(top, y);
	y += draw_mismatch(top, y);
	y += draw_pair_note(top, y);
	heap_lines = (LINES - FOOT_LINES - y) / 2;
	if (top->heap && heap_lines < HEAP_VIEW_LEAST_LINES)
		note_hidden(top, "live words");
	y += heap_view_draw(top->heap, y, heap_lines);
	heights = layout_heights(LINES - FOOT_LINES - y, seen->n_targets,
				 shown_pair_count(&top->view));
	y += heights.gap;
	if (seen->n_targets > 1 && !heights.programs)
		note_hidden(top, "programs");
	if (shown_pair_count(&top->view) && !heights.pairs)
		note_hidden(top, "pairs");
	if (heights.programs) {
		draw_programs(top, y, heights.programs);
		y += heights.programs + 1 + heights.gap;
	}
	if (heights.pairs) {
		draw_pairs(top, y, heights.pairs);
		y += heights.pairs + 1 + heights.gap;
	}
	view_set_lines(&top->view, (size_t)heights.probes);
	draw_probes(top, y, heights.probes);
	draw_keys(top, LINES - 1);
	draw_status(top, LINES - 2);
}

void draw(struct top *top)
{
	erase();
	curs_set(top->mode == MODE_FILTER);
	top->is_too_small = LINES < LEAST_LINES || COLS < LEAST_COLUMNS;
	if (top->is_too_small) {
		draw_too_small();
	} else {
		if (top->mode == MODE_HELP && !draw_help(top))
			top->mode = MODE_NORMAL;
		if (top->mode != MODE_HELP)
			draw_all(top);
	}
	refresh();
}
