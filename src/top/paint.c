// SPDX-License-Identifier: MIT
#include "top/paint.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { CELL_BYTES = 2048, FIELD_GAP = 3 };

bool paint_begin(void)
{
	static const short of[] = {
		[COLOUR_GOOD] = COLOR_GREEN, [COLOUR_NOTE] = COLOR_YELLOW, [COLOUR_BAD] = COLOR_RED,
		[COLOUR_DIM] = COLOR_BLUE,   [COLOUR_BARS] = COLOR_CYAN,
	};
	const char *no_color = getenv("NO_COLOR");

	if ((no_color && *no_color) || !has_colors() || start_color() != OK)
		return false;
	use_default_colors();
	for (int i = COLOUR_GOOD; i <= COLOUR_BARS; i++)
		init_pair((short)i, of[i], -1);
	return true;
}

attr_t paint_colour(enum colour colour)
{
	/* If the colours could not be defined, show the text without colour. */
	return COLOR_PAIRS > COLOUR_BARS ? (attr_t)COLOR_PAIR(colour) : A_NORMAL;
}

static int paint_cut(int y, int x, int width, const char *text, enum text_cut cut)
{
	char cell[CELL_BYTES];
	int used;

	if (y < 0 || y >= LINES || width <= 0)
		return 0;
	used = text_fit(cell, sizeof(cell), text, width, cut);
	mvaddstr(y, x, cell);
	return used;
}

int paint_text(int y, int x, int width, const char *text)
{
	return paint_cut(y, x, width, text, TEXT_CUT_END);
}

int paint_text_end(int y, int x, int width, const char *text)
{
	return paint_cut(y, x, width, text, TEXT_CUT_FRONT);
}

void paint_cell(int y, const struct column *column, const char *text)
{
	const int width = text_width(text);
	const int indent = column->is_right && width < column->width ? column->width - width : 0;

	paint_text(y, column->x + indent, column->width - indent, text);
}

void paint_name(int y, const struct column *column, const char *name)
{
	paint_cut(y, column->x, column->width, name, TEXT_CUT_MIDDLE);
}

void paint_titles(int y, const struct column *columns, size_t n, size_t marked, const char *mark)
{
	char title[128];

	attron(A_REVERSE);
	mvhline(y, 0, ' ', COLS);
	for (size_t i = 0; i < n; i++) {
		snprintf(title, sizeof(title), "%s%s", columns[i].title, i == marked ? mark : "");
		paint_cell(y, &columns[i], title);
	}
	attroff(A_REVERSE);
}

void paint_fields(int y, int x, int width, struct field *fields, size_t n)
{
	int used = -FIELD_GAP, highest = 0;

	for (size_t i = 0; i < n; i++) {
		if (fields[i].rank < 0)
			continue;
		used += FIELD_GAP + text_width(fields[i].text);
		highest = fields[i].rank > highest ? fields[i].rank : highest;
	}
	for (; used > width && highest > 0; highest--)
		for (size_t i = 0; i < n; i++)
			if (fields[i].rank == highest) {
				used -= FIELD_GAP + text_width(fields[i].text);
				fields[i].rank = -1;
			}
	for (size_t i = 0; i < n; i++)
		if (fields[i].rank >= 0)
			x += paint_text(y, x, width - x, fields[i].text) + FIELD_GAP;
}
