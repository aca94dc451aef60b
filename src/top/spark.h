/* SPDX-License-Identifier: MIT */
/* Rates of the last minute as a row of small bars. Works without a screen. */
#ifndef TOP_SPARK_H
#define TOP_SPARK_H

#include <stdbool.h>
#include <stddef.h>
#include "watch/watch.h"

/* The largest number of cells, at most ROOM, that divides a minute evenly. */
int spark_width(int room);

/*
 * Fold RATES into WIDTH cells, the means of the known rates. RATES has WATCH_COLUMNS values,
 * oldest first; NAN is unknown. WIDTH is from spark_width. TICK is the number of columns since the
 * start: a cell keeps its seconds while it moves, so a finished bar keeps its height.
 */
void spark_fold(const float *rates, size_t tick, float *cells, int width);

float spark_highest(const float *cells, int width);

/*
 * Draw the cells into TEXT, of WIDTH * 4 + 1 bytes. HIGHEST has the highest bar, and only 0 has
 * the lowest one. Unknown cells are blank.
 */
void spark_draw(char *text, const float *cells, int width, float highest, bool utf8);

#endif
