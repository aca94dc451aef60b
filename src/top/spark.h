/* SPDX-License-Identifier: MIT */
/* Rates of the last minute as a row of small bars. Works without a screen. */
#ifndef TOP_SPARK_H
#define TOP_SPARK_H

#include <stdbool.h>
#include <stddef.h>
#include "watch/watch.h"

/* Return the largest number of cells, at most ROOM, that divides a minute evenly. */
int spark_width(int room);

/*
 * Compute WIDTH cells from RATES; a cell is the mean of its known rates. RATES has WATCH_COLUMNS
 * values, the oldest first; NAN is unknown. WIDTH must come from spark_width(). TICK is the number
 * of columns since the start. It determines where cells begin, so that a cell has the same seconds
 * at each tick while it moves to the left, and a finished bar keeps its height.
 */
void spark_fold(const float *rates, size_t tick, float *cells, int width);

float spark_highest(const float *cells, int width);

/*
 * Write a bar for each cell to TEXT, which has WIDTH * 4 + 1 bytes. The rate HIGHEST gets the
 * highest bar, and only the rate 0 gets the lowest bar. Unknown cells are blank.
 */
void spark_draw(char *text, const float *cells, int width, float highest, bool utf8);

#endif
