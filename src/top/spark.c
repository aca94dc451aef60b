// SPDX-License-Identifier: MIT
#include "top/spark.h"

#include <math.h>
#include <string.h>

int spark_width(int room)
{
	int width = room < WATCH_COLUMNS ? room : WATCH_COLUMNS;

	while (width > 0 && WATCH_COLUMNS % width != 0)
		width--;
	return width > 0 ? width : 0;
}

void spark_fold(const float *rates, size_t tick, float *cells, int width)
{
	const int seconds = WATCH_COLUMNS / width;
	/* The number of ticks in the newest cell, which is not complete yet. */
	const int newest = tick ? (int)((tick - 1) % (size_t)seconds) + 1 : seconds;
	int end = WATCH_COLUMNS, begin = WATCH_COLUMNS - newest;

	for (int cell = width - 1; cell >= 0; cell--) {
		float sum = 0;
		int n = 0;

		for (int i = begin > 0 ? begin : 0; i < end; i++) {
			if (isnan(rates[i]))
				continue;
			sum += rates[i];
			n++;
		}
		cells[cell] = n ? sum / (float)n : NAN;
		end = begin;
		begin = end - seconds;
	}
}

float spark_highest(const float *cells, int width)
{
	float highest = 0;

	for (int i = 0; i < width; i++)
		if (cells[i] > highest)
			highest = cells[i];
	return highest;
}

void spark_draw(char *text, const float *cells, int width, float highest, bool utf8)
{
	static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	const int last = sizeof(bars) / sizeof(bars[0]) - 1;

	for (int i = 0; i < width; i++) {
		const char *bar = " ";
		int level = 0;

		if (cells[i] > 0)
			level = highest > 0 ? 1 + (int)(cells[i] / highest * (float)(last - 1)) : 1;
		if (!isnan(cells[i]))
			bar = (utf8 ? bars : ascii)[level < last ? level : last];
		memcpy(text, bar, strlen(bar));
		text += strlen(bar);
	}
	*text = '\0';
}
