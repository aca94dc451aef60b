/* SPDX-License-Identifier: MIT */
/* Text and colours on the screen. */
#ifndef TOP_PAINT_H
#define TOP_PAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <curses.h>
#include "top/layout.h"
#include "top/text.h"

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_NOTE, COLOUR_BAD, COLOUR_DIM, COLOUR_BARS };

/*
 * Set up colours, unless the terminal has none or NO_COLOR is set. Returns whether there are
 * colours.
 */
bool paint_begin(void);
/* The attribute of COLOUR, or none without colours. */
attr_t paint_colour(enum colour colour);

/* Write TEXT at line Y and column X, in at most WIDTH columns. Returns the columns used. */
int paint_text(int y, int x, int width, const char *text);
/* Like paint_text(), but show the end of a text that is too long. */
int paint_text_end(int y, int x, int width, const char *text);
/* Write TEXT in COLUMN, if it has room on the screen. */
void paint_cell(int y, const struct column *column, const char *text);
/* Like paint_cell(), for a name; the middle of a long name is cut. */
void paint_name(int y, const struct column *column, const char *name);
/*
 * Write the titles of N columns as a line in reverse video, with MARK after the title of column
 * MARKED.
 */
void paint_titles(int y, const struct column *columns, size_t n, size_t marked, const char *mark);

/* The fields of a line. Some are left out if the line is too short. */
struct field {
	char text[128];
	int rank; /* higher ranks are left out first; -1: hidden */
};
void paint_fields(int y, int x, int width, struct field *fields, size_t n);

#endif
