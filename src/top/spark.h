/* SPDX-License-Identifier: MIT */
/* Rates of the last minute as a row of small bars. No screen is needed for it. */
#ifndef TOP_SPARK_H
#define TOP_SPARK_H

#include <stdbool.h>
#include <stddef.h>
#include "watch/watch.h"

/* The most cells, of at most ROOM, that a sparkline can have: a minute divides into them evenly. */
int spark_width(int room);

/*
 * Fold RATES, WATCH_COLUMNS of them, the oldest first and NAN where nothing is known, into WIDTH
 * cells that spark_width gave; each is the mean of what is known. TICK counts the columns ever: a
 * cell keeps the same seconds while it moves, so that a bar does not change its height once it is
 * complete.
 */
void spark_fold(const float *rates, size_t tick, float *cells, int width);

float spark_highest(const float *cells, int width);

/*
 * Draw the cells into TEXT, of WIDTH * 4 + 1 bytes, the highest bar for HIGHEST. Nothing for what
 * is not known, the lowest bar for 0 and for 0 only.
 */
void spark_draw(char *text, const float *cells, int width, float highest, bool utf8);

#endif
