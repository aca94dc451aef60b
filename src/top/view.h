/* SPDX-License-Identifier: MIT */
/*
 * The visible probes, their order, and the cursor. Works without a screen.
 *
 * The cursor stays on its probe when the order changes. Before it has been moved, and after Home,
 * it stays on the first line.
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
	size_t *order;		    /* indices of the visible probes */
	size_t n_shown;
	enum sort_key key;
	bool is_reversed;	   /* reversed; normal is high to low, and a to z */
	char filter[FILTER_BYTES]; /* part of the name; case does not matter */
	size_t cursor, first;	   /* indices of visible lines; `first` is at the top */
	size_t n_lines;		   /* lines on the screen; 0: unknown */
	char *exe, *name;	   /* the probe under the cursor; NULL: the first line */
};

void view_free(struct view *view);

/* Show SEEN, and take ownership of it. Returns 0 or -ENOMEM. */
int view_show(struct view *view, struct view_snapshot *seen);
/* Set the number of screen lines for probes. */
void view_set_lines(struct view *view, size_t n);

/* Sort by KEY, or reverse the order if KEY is already the key. */
void view_sort(struct view *view, enum sort_key key);
/*
 * Add CHARACTER to the filter, or remove the filter's last character. Returns false if it cannot.
 */
bool view_filter_add(struct view *view, const char *character);
bool view_filter_remove(struct view *view);
void view_filter_clear(struct view *view);

/* Move the cursor by LINES. */
void view_move(struct view *view, ptrdiff_t lines);
void view_home(struct view *view);
void view_end(struct view *view);
/* Keep the cursor on its current probe. Returns the probe, or NULL if none is visible. */
struct seen_probe *view_hold(struct view *view);

/* The probe at visible line LINE. */
const struct seen_probe *view_probe(const struct view *view, size_t line);
/* Does the pair match the filter? */
bool view_shows_pair(const struct view *view, const struct seen_pair *pair);

#endif
