/* SPDX-License-Identifier: MIT */
/* Numbers and names for narrow table cells. Works without a screen. */
#ifndef TOP_TEXT_H
#define TOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "watch/watch.h"

enum { TEXT_BYTES = 32 }; /* enough for any of the numbers below */

/* Return true if the locale's encoding is UTF-8. */
bool text_is_utf8(void);

/*
 * Write a number to TEXT, which has TEXT_BYTES, with about three digits, and return TEXT. Examples
 * follow the functions.
 */
const char *text_rate(char *text, double rate);		 /* 0, 9.8, 998, 1.23k; "-" for NAN */
const char *text_ns(char *text, uint64_t ns, bool utf8); /* 998ns, 12.3us, 1.23ms, 17s; "-" for 0 */
const char *text_share(char *text, double share);	 /* 0.12%, 12.3%, 130% */
/* Write all digits of COUNT if they fit into WIDTH columns, otherwise write it like a rate. */
const char *text_count(char *text, uint64_t count, int width);
const char *text_duration(char *text, int64_t seconds); /* 12s, 3m12s, 2h05m, 3d04h */

/* Which part to cut from a text that is too long. Names often differ at both ends. */
enum text_cut { TEXT_CUT_END, TEXT_CUT_FRONT, TEXT_CUT_MIDDLE };

/*
 * Write TEXT to OUT, which has SIZE bytes, in at most WIDTH columns. Characters that do not print,
 * or that change the direction of text, become '?'. Return the number of columns used.
 */
int text_fit(char *out, size_t size, const char *text, int width, enum text_cut cut);
/* Return the width of TEXT in columns. */
int text_width(const char *text);

/* Return the last component of PATH. */
const char *text_base_name(const char *path);

/* ---- rates as bars -------------------------------------------------------------------------- */

/* Rates of the last minute as a row of small bars. Works without a screen. */

/* Return the largest number of cells, at most ROOM, that divides a minute evenly. */
int spark_width(int room);

/*
 * Compute WIDTH cells from RATES; a cell is the mean of its known rates. RATES has WATCH_COLUMNS
 * values, the oldest first; NAN is unknown. WIDTH must come from spark_width(). TICK is the number
 * of columns since the start. TICK determines where the cells begin, so that a complete bar covers
 * the same seconds, and keeps its height, while it moves to the left.
 */
void spark_fold(const float *rates, size_t tick, float *cells, int width);

float spark_highest(const float *cells, int width);

/*
 * Write a bar for each cell to TEXT, which has WIDTH * 4 + 1 bytes. The rate HIGHEST gets the
 * highest bar, and only the rate 0 gets the lowest bar. Unknown cells are blank.
 */
void spark_draw(char *text, const float *cells, int width, float highest, bool utf8);

/* ---- what fits on a screen ------------------------------------------------------------------ */

/* Compute which columns and tables fit on a screen, and where. Works without a screen. */

struct column {
	const char *title;
	int rank;      /* 0: always shown; columns of higher ranks are dropped first; -1: hidden */
	int min, want; /* least and desired width, in screen columns */
	bool is_right; /* right-aligned */
	int x, width;  /* set by layout_columns(); width 0: the column does not fit */
};

/*
 * Place N columns between the screen columns X and WIDTH, separated by GAP. Spare width goes to
 * columns whose desired width is larger than their least width, in the order of their ranks.
 */
void layout_columns(struct column *columns, size_t n, int x, int width, int gap);

/* How many screen lines each part gets. */
struct heights {
	/*
	 * rows of the table of programs, without the titles; 0: no such table, as for a single
	 * program
	 */
	int programs;
	int pairs;  /* rows of the table of pairs, without the titles; 0: no such table */
	int probes; /* rows of the table of probes, without the titles */
	int gap;    /* blank lines between tables */
};

/*
 * Divide LINES among the tables and their titles. LINES is the height of the screen without the two
 * lines at the top and the two lines at the bottom.
 */
struct heights layout_heights(int lines, size_t n_programs, size_t n_pairs);

#endif
