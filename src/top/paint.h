/* SPDX-License-Identifier: MIT */
/* Text and colours on the screen. */
#ifndef TOP_PAINT_H
#define TOP_PAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <curses.h>
#include "top/text.h"

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_NOTE, COLOUR_BAD, COLOUR_DIM, COLOUR_BARS };

/*
 * Set up colours, unless the terminal has no colours or NO_COLOR is set. Return whether there are
 * colours.
 */
bool paint_begin(void);
/* Return the attribute for COLOUR; A_NORMAL if there are no colours. */
attr_t paint_colour(enum colour colour);

/*
 * Write TEXT at line Y and column X, in at most WIDTH columns. Return the number of columns used.
 */
int paint_text(int y, int x, int width, const char *text);
/* Like paint_text(), but show the end of a TEXT that is too long. */
int paint_text_end(int y, int x, int width, const char *text);
/* Write TEXT in COLUMN, unless COLUMN does not fit on the screen (width 0). */
void paint_cell(int y, const struct column *column, const char *text);
/* Like paint_cell(), for a name. If NAME is too long, leave out its middle. */
void paint_name(int y, const struct column *column, const char *name);
/*
 * Write the titles of N columns as a line in reverse video, with MARK after the title of column
 * MARKED.
 */
void paint_titles(int y, const struct column *columns, size_t n, size_t marked, const char *mark);

/* A field of a line. If the line is too short for all its fields, some are left out. */
struct field {
	char text[128];
	int rank; /* fields of higher ranks are left out first; -1: hidden */
};
void paint_fields(int y, int x, int width, struct field *fields, size_t n);

#endif
