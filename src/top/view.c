// SPDX-License-Identifier: MIT
#include "top/view.h"
#include "base/search.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void view_free(struct view *view)
{
	view_snapshot_free(view->seen);
	free(view->order);
	free(view->exe);
	free(view->name);
	*view = (struct view){ 0 };
}

const struct seen_probe *view_probe(const struct view *view, size_t line)
{
	return &view->seen->probes[view->order[line]];
}

static const char *exe_of(const struct view *view, const struct seen_probe *probe)
{
	return view->seen->targets[probe->target].exe;
}

/* ---- the order ------------------------------------------------------------------------------ */

static int compare_numbers(double a, double b)
{
	/* Unknown rates sort as if they were below 0. */
	a = isnan(a) ? -1 : a;
	b = isnan(b) ? -1 : b;
	return COMPARE(a, b);
}

static int compare_exe(const struct view *view, const struct seen_probe *a,
		       const struct seen_probe *b)
{
	int order;

	if (a->target == b->target)
		return 0;
	order = strcmp(view->seen->targets[a->target].name, view->seen->targets[b->target].name);
	return order ? order : strcmp(exe_of(view, a), exe_of(view, b));
}

/* Return the rank for sorting by handler; the highest rank comes first. */
static int handler_rank(const struct seen_probe *probe)
{
	static const int ranks[] = {
		[WATCH_HANDLER_ON] = 3,	     [WATCH_HANDLER_MIXED] = 2, [WATCH_HANDLER_OFF] = 1,
		[WATCH_HANDLER_UNKNOWN] = 0, [WATCH_HANDLER_NONE] = 0,
	};

	return ranks[probe->handler];
}

static int compare_by_key(const struct view *view, const struct seen_probe *a,
			  const struct seen_probe *b)
{
	switch (view->key) {
	case SORT_RATE:
		return compare_numbers(b->rate, a->rate);
	case SORT_HITS:
		return COMPARE(b->hits, a->hits);
	case SORT_HANDLER:
		return handler_rank(b) - handler_rank(a);
	case SORT_EXE:
		return compare_exe(view, a, b);
	default:
		return strcmp(a->name, b->name);
	}
}

static int compare_seen_probes(const void *left, const void *right, void *data)
{
	const struct view *view = data;
	const struct seen_probe *a = &view->seen->probes[*(const size_t *)left];
	const struct seen_probe *b = &view->seen->probes[*(const size_t *)right];
	int order = compare_by_key(view, a, b);

	if (view->is_reversed)
		order = -order;
	/* Order equal probes by name and program, so that their order does not change. */
	if (!order)
		order = strcmp(a->name, b->name);
	return order ? order : compare_exe(view, a, b);
}

static bool is_shown(const struct view *view, const struct seen_probe *probe)
{
	return !view->filter[0] || strcasestr(probe->name, view->filter) ||
	       (view->seen->n_targets > 1 &&
		strcasestr(view->seen->targets[probe->target].name, view->filter));
}

bool view_shows_pair(const struct view *view, const struct seen_pair *pair)
{
	return !view->filter[0] || strcasestr(pair->start, view->filter) ||
	       strcasestr(pair->stop, view->filter);
}

/* ---- the cursor ----------------------------------------------------------------------------- */

/* Scroll so that the line of the cursor is visible, without blank lines at the end. */
static void scroll_to_cursor(struct view *view)
{
	const size_t n = view->n_lines;

	if (view->cursor >= view->n_shown)
		view->cursor = view->n_shown ? view->n_shown - 1 : 0;
	if (n && view->cursor >= view->first + n)
		view->first = view->cursor - n + 1;
	if (n && view->first + n > view->n_shown)
		view->first = view->n_shown > n ? view->n_shown - n : 0;
	if (view->cursor < view->first)
		view->first = view->cursor;
}

static void forget_held(struct view *view)
{
	free(view->exe);
	free(view->name);
	view->exe = view->name = NULL;
}

struct seen_probe *view_hold(struct view *view)
{
	struct seen_probe *probe;

	if (!view->n_shown)
		return NULL;
	probe = &view->seen->probes[view->order[view->cursor]];
	forget_held(view);
	view->exe = strdup(exe_of(view, probe));
	view->name = strdup(probe->name);
	/* Out of memory: from now on the cursor stays on the first line, not on a probe. */
	if (!view->exe || !view->name)
		forget_held(view);
	return probe;
}

/*
 * Move the cursor to the line of its probe. If the probe is not visible, the cursor stays on its
 * line.
 */
static void find_held(struct view *view)
{
	if (!view->name) {
		view->cursor = 0;
		return;
	}
	for (size_t i = 0; i < view->n_shown; i++) {
		const struct seen_probe *probe = view_probe(view, i);

		if (strcmp(probe->name, view->name) == 0 &&
		    strcmp(exe_of(view, probe), view->exe) == 0) {
			view->cursor = i;
			return;
		}
	}
}

void view_move(struct view *view, ptrdiff_t lines)
{
	if (lines < 0 && (size_t)-lines > view->cursor)
		view->cursor = 0;
	else
		view->cursor += (size_t)lines;
	scroll_to_cursor(view);
	view_hold(view);
}

void view_home(struct view *view)
{
	view->cursor = 0;
	scroll_to_cursor(view);
	forget_held(view);
}

void view_end(struct view *view)
{
	view->cursor = view->n_shown ? view->n_shown - 1 : 0;
	scroll_to_cursor(view);
	view_hold(view);
}

void view_set_lines(struct view *view, size_t n)
{
	view->n_lines = n;
	scroll_to_cursor(view);
}

/* ---- showing -------------------------------------------------------------------------------- */

/*
 * Choose and sort the visible lines. Called when the data, the key, the order or the filter has
 * changed.
 */
static void arrange(struct view *view)
{
	view->n_shown = 0;
	for (size_t i = 0; i < view->seen->n_probes; i++)
		if (is_shown(view, &view->seen->probes[i]))
			view->order[view->n_shown++] = i;
	qsort_r(view->order, view->n_shown, sizeof(*view->order), compare_seen_probes, view);
	find_held(view);
	scroll_to_cursor(view);
}

int view_show(struct view *view, struct view_snapshot *seen)
{
	size_t *order = calloc(seen->n_probes + 1, sizeof(*order));

	if (!order) {
		view_snapshot_free(seen);
		return -ENOMEM;
	}
	view_snapshot_free(view->seen);
	free(view->order);
	view->seen = seen;
	view->order = order;
	arrange(view);
	return 0;
}

void view_sort(struct view *view, enum sort_key key)
{
	view_hold(view);
	view->is_reversed = view->key == key && !view->is_reversed;
	view->key = key;
	arrange(view);
}

bool view_filter_add(struct view *view, const char *character)
{
	const size_t bytes = strlen(view->filter), more = strlen(character);

	if (bytes + more >= sizeof(view->filter))
		return false;
	memcpy(view->filter + bytes, character, more + 1);
	arrange(view);
	return true;
}

bool view_filter_remove(struct view *view)
{
	size_t bytes = strlen(view->filter);

	if (!bytes)
		return false;
	/* Remove all bytes of one UTF-8 character. */
	do
		bytes--;
	while (bytes && (view->filter[bytes] & 0xc0) == 0x80);
	view->filter[bytes] = '\0';
	arrange(view);
	return true;
}

void view_filter_clear(struct view *view)
{
	view->filter[0] = '\0';
	arrange(view);
}
