/* SPDX-License-Identifier: MIT */
/* Which columns of a table a screen has room for. No screen is needed for it. */
#ifndef TOP_LAYOUT_H
#define TOP_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

struct column {
	const char *title;
	int rank;      /* 0 is always there, the highest goes first; -1: it is not wanted */
	int min, want; /* columns of the screen; from `min` it grows to `want` as room allows */
	bool is_right; /* text ends at its right edge */
	int x, width;  /* what comes out; width 0: no room */
};

/*
 * Give each of N columns its place in WIDTH columns of the screen from X on, GAP between them. What
 * is left goes to those that want more, by rank.
 */
void layout_columns(struct column *columns, size_t n, int x, int width, int gap);

/* How many lines of a screen each part of it has. */
struct heights {
	/* 0: as with one program; a header in addition to them if there are several */
	int programs;
	int pairs;  /* without the header */
	int probes; /* without the header */
	int gap;    /* between tables */
};

/* LINES are those between the two above and the two below. The tables' headers take some. */
struct heights layout_heights(int lines, size_t n_programs, size_t n_pairs);

#endif
