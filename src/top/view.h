/* SPDX-License-Identifier: MIT */
/*
 * The visible probes, their order, and the cursor. Works without a screen.
 *
 * When the order changes, the cursor stays on its probe. But until the user moves the cursor, and
 * again after the key Home, the cursor stays on the first line, whichever probe is there.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include "top/view_snapshot.h"

enum sort_key { SORT_RATE, SORT_HITS, SORT_NAME, SORT_HANDLER, SORT_EXE, N_SORT_KEYS };

enum { FILTER_BYTES = 64 };

struct view {
	struct view_snapshot *seen; /* never NULL after the first view_show() */
	size_t *order;		    /* indices of the visible probes */
	size_t n_shown;
	enum sort_key key;
	/* The order is reversed; normally numbers are descending and texts ascending. */
	bool is_reversed;
	char filter[FILTER_BYTES]; /* text that visible names contain; case does not matter */
	size_t cursor, first;	   /* indices into `order`; `first` is the top line on the screen */
	size_t n_lines;		   /* lines on the screen for probes; 0: unknown */
	char *exe, *name;	   /* the probe that the cursor stays on; NULL: the first line */
};

void view_free(struct view *view);

/* Show SEEN, and take ownership of it, also after an error. Return 0 or -ENOMEM. */
int view_show(struct view *view, struct view_snapshot *seen);
/* Set the number of screen lines for probes. */
void view_set_lines(struct view *view, size_t n);

/* Sort by KEY. If the order is by KEY already, reverse it. */
void view_sort(struct view *view, enum sort_key key);
/*
 * view_filter_add() adds CHARACTER to the filter, and returns false if the filter is full.
 * view_filter_remove() removes the filter's last character, and returns false if the filter is
 * empty.
 */
bool view_filter_add(struct view *view, const char *character);
bool view_filter_remove(struct view *view);
void view_filter_clear(struct view *view);

/* Move the cursor down by LINES, which may be negative. */
void view_move(struct view *view, ptrdiff_t lines);
void view_home(struct view *view);
void view_end(struct view *view);
/* Let the cursor stay on its current probe. Return the probe, or NULL if no probe is visible. */
struct seen_probe *view_hold(struct view *view);

/* Return the probe at index LINE of the visible lines. */
const struct seen_probe *view_probe(const struct view *view, size_t line);
/* Return true if the pair matches the filter. */
bool view_shows_pair(const struct view *view, const struct seen_pair *pair);

#endif
