/* SPDX-License-Identifier: MIT */
/*
 * Which probes are shown, in which order, and where the cursor is. No screen is needed for it.
 *
 * The cursor is on a probe, wherever that goes when the order changes; but until it has been moved,
 * and after Home, it is on the first line, whichever probe that is.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include "top/view_snapshot.h"

enum sort_key { SORT_RATE, SORT_HITS, SORT_NAME, SORT_HANDLER, SORT_EXE, N_SORT_KEYS };

enum { FILTER_BYTES = 64 };

struct view {
	struct view_snapshot *seen; /* never NULL after the first view_show */
	size_t *order;		    /* numbers of the probes that are shown */
	size_t n_shown;
	enum sort_key key;
	bool is_reversed;	   /* not the key's own order: much before little, a before z */
	char filter[FILTER_BYTES]; /* a part of the name; case is ignored */
	size_t cursor, first;	   /* lines among those shown; `first` is at the top */
	size_t n_lines;		   /* that the screen has for them; 0: not known yet */
	char *exe, *name;	   /* what the cursor is on; NULL: the first line */
};

void view_free(struct view *view);

/* Show SEEN from now on, which then is the view's. Returns 0 or -ENOMEM. */
int view_show(struct view *view, struct view_snapshot *seen);
/* The screen has N lines for probes. */
void view_set_lines(struct view *view, size_t n);

/* Sort by KEY; if that is so already, the other way round. */
void view_sort(struct view *view, enum sort_key key);
/* Add C to the filter, or take the last character away; false: that cannot be done. */
bool view_filter_add(struct view *view, const char *character);
bool view_filter_remove(struct view *view);
void view_filter_clear(struct view *view);

/* By so many lines. */
void view_move(struct view *view, ptrdiff_t lines);
void view_home(struct view *view);
void view_end(struct view *view);
/* Stay on the probe that the cursor is on. Returns it; NULL: none is shown. */
struct seen_probe *view_hold(struct view *view);

/* Line LINE of those shown. */
const struct seen_probe *view_probe(const struct view *view, size_t line);
/* Does the filter let this pair through? */
bool view_shows_pair(const struct view *view, const struct seen_pair *pair);

#endif
