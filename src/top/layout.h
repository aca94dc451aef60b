/* SPDX-License-Identifier: MIT */
/* Compute which columns and tables fit on a screen, and where. Works without a screen. */
#ifndef TOP_LAYOUT_H
#define TOP_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

struct column {
	const char *title;
	int rank;      /* 0: always shown; columns of higher ranks are dropped first; -1: hidden */
	int min, want; /* least and desired width, in screen columns */
	bool is_right; /* right-aligned */
	int x, width;  /* set by layout_columns(); width 0: the column does not fit */
};

/*
 * Place N columns between the screen columns X and WIDTH, separated by GAP. Spare width goes to
 * columns that want more than their least width, by rank.
 */
void layout_columns(struct column *columns, size_t n, int x, int width, int gap);

/* The number of screen lines of each part. */
struct heights {
	/* Without the titles; 0: no table of programs, as for a single program. */
	int programs;
	int pairs;  /* without the titles; 0: no table of pairs */
	int probes; /* without the titles */
	int gap;    /* blank lines between tables */
};

/*
 * Divide LINES, the number of lines between the two at the top and the two at the bottom, into the
 * tables with their titles.
 */
struct heights layout_heights(int lines, size_t n_programs, size_t n_pairs);

#endif
