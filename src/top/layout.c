// SPDX-License-Identifier: MIT
#include "top/layout.h"

enum { FEWEST_PROBES = 4, ROOMY = 16 };

static int least(int a, int b)
{
	return a < b ? a : b;
}

static bool has_rank(const struct column *columns, size_t n, int rank)
{
	for (size_t i = 0; i < n; i++)
		if (columns[i].rank >= rank)
			return true;
	return false;
}

void layout_columns(struct column *columns, size_t n, int x, int width, int gap)
{
	int used = x - gap;

	for (size_t i = 0; i < n; i++)
		columns[i].width = 0;
	for (int rank = 0; has_rank(columns, n, rank); rank++)
		for (size_t i = 0; i < n; i++) {
			if (columns[i].rank != rank)
				continue;
			if (rank > 0 && used + gap + columns[i].min > width)
				continue;
			columns[i].width = columns[i].min;
			used += gap + columns[i].min;
		}
	for (int rank = 0; has_rank(columns, n, rank); rank++)
		for (size_t i = 0; i < n; i++) {
			int more = least(columns[i].want - columns[i].min, width - used);

			if (columns[i].rank != rank || !columns[i].width || more <= 0)
				continue;
			columns[i].width += more;
			used += more;
		}
	for (size_t i = 0; i < n; i++) {
		columns[i].x = x;
		if (columns[i].width)
			x += columns[i].width + gap;
	}
}

struct heights layout_heights(int lines, size_t n_programs, size_t n_pairs)
{
	struct heights heights = { .gap = lines >= ROOMY };
	int left = lines - heights.gap - 1;

	if (n_programs > 1) {
		int room = least(lines / 4, left - FEWEST_PROBES) - 1 - heights.gap;

		heights.programs = room > 0 ? least(room, (int)n_programs) : 0;
		if (heights.programs)
			left -= heights.programs + 1 + heights.gap;
	}
	if (n_pairs) {
		int room = least(lines / 3, left - FEWEST_PROBES - 1 - heights.gap);

		heights.pairs = room > 0 ? least(room, (int)n_pairs) : 0;
		if (heights.pairs)
			left -= heights.pairs + 1 + heights.gap;
	}
	heights.probes = left > 0 ? left : 0;
	return heights;
}
