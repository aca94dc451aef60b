/* SPDX-License-Identifier: MIT */
/* The columns that fit on a screen. Works without a screen. */
#ifndef TOP_LAYOUT_H
#define TOP_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

struct column {
	const char *title;
	int rank;      /* 0: always shown; higher ranks are dropped first; -1: hidden */
	int min, want; /* width in screen columns; `want` if there is room */
	bool is_right; /* right-aligned */
	int x, width;  /* the result; width 0: no room */
};

/*
 * Place N columns in WIDTH screen columns from X on, separated by GAP. Spare room goes to columns
 * that want more, by rank.
 */
void layout_columns(struct column *columns, size_t n, int x, int width, int gap);

/* The number of screen lines for each part. */
struct heights {
	/* without the header; 0: no table, as with one program */
	int programs;
	int pairs;  /* without the header */
	int probes; /* without the header */
	int gap;    /* between tables */
};

/*
 * LINES is the number of lines without the two at the top and the two at the bottom. The headers
 * of the tables count.
 */
struct heights layout_heights(int lines, size_t n_programs, size_t n_pairs);

#endif
