/* SPDX-License-Identifier: MIT */
/* Cells and colours on the screen. */
#ifndef TOP_PAINT_H
#define TOP_PAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <curses.h>
#include "top/layout.h"
#include "top/text.h"

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_NOTE, COLOUR_BAD, COLOUR_DIM, COLOUR_BARS };

/* Make colours ready, unless there are none or NO_COLOR asks for none. Are there any? */
bool paint_begin(void);
/* The attribute for it; where there are no colours, none. */
attr_t paint_colour(enum colour colour);

/* Write TEXT at line Y and column X, in WIDTH columns. Returns the columns that it took. */
int paint_text(int y, int x, int width, const char *text);
/* The same; of a text that is too long its end is shown. */
int paint_text_end(int y, int x, int width, const char *text);
/* The same in the place of COLUMN; nothing if that has none. */
void paint_cell(int y, const struct column *column, const char *text);
/* The same for a name: where it is too long, both its ends are left. */
void paint_name(int y, const struct column *column, const char *name);
/* The titles of N columns, as a line in reverse. MARKED gets MARK behind its title. */
void paint_titles(int y, const struct column *columns, size_t n, size_t marked, const char *mark);

/* Fields of a line, some of which are left out where there is no room for all. */
struct field {
	char text[128];
	int rank; /* the highest are left out first; -1: not wanted */
};
void paint_fields(int y, int x, int width, struct field *fields, size_t n);

#endif
