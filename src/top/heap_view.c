// SPDX-License-Identifier: MIT
#include "top/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memprof/heaps.h"
#include "memprof/session.h"
#include "top/paint.h"

enum { MOST_SITES = 40, NAME_BYTES = 512, MARGIN = 2 };

struct line {
	char name[NAME_BYTES];
	uint64_t live, allocated; /* words */
};

struct heap_view {
	struct ocp_ctx *ctx;
	struct heaps *heaps;
	bool by_leaf;
	/* The members from here on are set by heap_view_show() and drawn by heap_view_draw(). */
	char head[NAME_BYTES], problem[2 * HEAPS_TEXT_BYTES + 16];
	uint64_t live;
	struct line sites[MOST_SITES];
	size_t n, n_sites;
};

int heap_view_open(struct ocp_ctx *ctx, double rate, bool by_leaf, struct heap_view **out)
{
	struct heap_view *view = calloc(1, sizeof(*view));
	int err = view ? heaps_new(ctx, rate, &view->heaps) : ctx_no_memory(ctx);

	if (err) {
		free(view);
		return err;
	}
	view->ctx = ctx;
	view->by_leaf = by_leaf;
	*out = view;
	return 0;
}

void heap_view_close(struct heap_view *view)
{
	if (!view)
		return;
	heaps_free(view->heaps);
	free(view);
}

int heap_view_read(struct heap_view *view)
{
	bool more;

	return view ? heaps_read(view->heaps, &more) : 0;
}

int heap_view_follow(struct heap_view *view, struct watch *watch)
{
	struct recorded_process list[HEAPS_MAX + 1];
	size_t n = 0;

	if (!view)
		return 0;
	watch_leave_probes(watch, MEMPROF_PROBES);
	for (size_t i = 0; i < watch_target_count(watch); i++) {
		const struct watch_target *target = watch_target(watch, i);

		for (size_t j = 0; j < target->n_pids && n <= HEAPS_MAX; j++)
			list[n++] = (struct recorded_process){ target->pids[j], target->exe };
	}
	return heaps_follow(view->heaps, list, n);
}

/* ---- the numbers ---------------------------------------------------------------------------- */

static uint64_t words(const struct heap_view *view, uint64_t samples)
{
	return (uint64_t)((double)samples / heaps_rate(view->heaps));
}

static void describe_heap(struct heap_view *view)
{
	uint64_t live = 0, samples = 0, lost = 0;
	size_t n = 0, waiting = 0, length;

	view->problem[0] = '\0';
	for (size_t i = 0; i < heaps_count(view->heaps); i++) {
		const struct watched_heap *is = heaps_at(view->heaps, i);

		if (is->heap) {
			const struct heap_totals totals = heap_totals(is->heap);

			live += totals.live_samples;
			samples += totals.samples;
			lost += totals.left_out;
			for (int kind = 0; kind < MEMPROF_KINDS; kind++)
				lost += kind == MEMPROF_PROMOTE ? 0 : is->losses.events[kind];
		}
		n += is->state == HEAP_RUNS;
		waiting += is->state == HEAP_ASKED;
		if (is->problem[0])
			snprintf(view->problem, sizeof(view->problem), "memprof: %s%s%s",
				 is->problem, is->hint[0] ? "; " : "", is->hint);
	}
	if (waiting && !view->problem[0])
		snprintf(view->problem, sizeof(view->problem),
			 "memprof: the program waits; the profile starts when it continues");
	view->live = words(view, live);
	view->head[0] = '\0';
	if (!n)
		return;
	length = (size_t)snprintf(view->head, sizeof(view->head),
				  "live words by site: %" PRIu64 " alive of %" PRIu64
				  " allocated since the start",
				  view->live, words(view, samples));
	if (lost)
		snprintf(view->head + length, sizeof(view->head) - length,
			 "; %" PRIu64 " events lost: not exact", lost);
}

static void write_name(char *name, const struct heap_site *site)
{
	const struct named_frame *frame = site->frame;
	const char *via = site->via ? site->via->function : NULL;

	if (frame->file && frame->line)
		snprintf(name, NAME_BYTES, "%s  %s:%" PRIu32 "%s%s", frame->function, frame->file,
			 frame->line, via ? "  via " : "", via ? via : "");
	else
		snprintf(name, NAME_BYTES, "%s%s%s", frame->function, via ? "  via " : "",
			 via ? via : "");
}

int heap_view_show(struct heap_view *view)
{
	const struct record_filter all = { 0 };
	struct heap_site *sites;
	int err;

	if (!view)
		return 0;
	err = heaps_sites(view->heaps, &all, view->by_leaf, &sites, &view->n_sites);
	if (err)
		return err;
	view->n = view->n_sites < MOST_SITES ? view->n_sites : MOST_SITES;
	for (size_t i = 0; i < view->n; i++) {
		write_name(view->sites[i].name, &sites[i]);
		view->sites[i].live = words(view, sites[i].sum.live_samples);
		view->sites[i].allocated = words(view, sites[i].sum.samples);
	}
	free(sites);
	describe_heap(view);
	return 0;
}

/* ---- on the screen -------------------------------------------------------------------------- */

static void draw_site(const struct heap_view *view, int y, const struct column *columns,
		      const struct line *site)
{
	char text[TEXT_BYTES];

	paint_name(y, &columns[0], site->name);
	paint_cell(y, &columns[1],
		   text_share(text, view->live ? (double)site->live / (double)view->live : 0));
	paint_cell(y, &columns[2], text_count(text, site->live, columns[2].width));
	paint_cell(y, &columns[3], text_count(text, site->allocated, columns[3].width));
}

static int draw_sites(const struct heap_view *view, int y, int lines)
{
	struct column columns[] = {
		{ .title = "site", .rank = 0, .min = 16, .want = COLS },
		{ .title = "live", .rank = 2, .min = 6, .want = 6, .is_right = true },
		{ .title = "live words", .rank = 1, .min = 10, .want = 12, .is_right = true },
		{ .title = "allocated", .rank = 3, .min = 9, .want = 12, .is_right = true },
	};
	const size_t n = sizeof(columns) / sizeof(columns[0]);
	int drawn = 0;

	/*
	 * First lay out the columns with the least width for the name, so that the numbers get
	 * their desired width; then give the rest to the name.
	 */
	columns[0].want = columns[0].min;
	layout_columns(columns, n, MARGIN, COLS, 2);
	columns[0].want = COLS - (columns[n - 1].x + columns[n - 1].width) + columns[0].min;
	layout_columns(columns, n, MARGIN, COLS, 2);
	paint_titles(y, columns, n, n, "");
	for (; drawn < lines - 1 && (size_t)drawn < view->n; drawn++)
		draw_site(view, y + 1 + drawn, columns, &view->sites[drawn]);
	return drawn + 1;
}

int heap_view_draw(const struct heap_view *view, int y, int lines)
{
	const int first = y;

	if (!view || lines < HEAP_VIEW_LEAST_LINES)
		return 0;
	if (view->problem[0]) {
		attron(paint_colour(COLOUR_NOTE));
		paint_text(y++, 0, COLS, view->problem);
		attroff(paint_colour(COLOUR_NOTE));
	}
	if (!view->head[0])
		return y - first;
	paint_text(y++, 0, COLS, view->head);
	return y - first + draw_sites(view, y, lines - (y - first));
}
