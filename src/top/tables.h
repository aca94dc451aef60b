/* SPDX-License-Identifier: MIT */
/*
 * The tables of programs, pairs and probes. Each table begins at line Y with its titles, followed
 * by at most LINES rows. Columns that do not fit on the screen are noted in top->hidden.
 */
#ifndef TOP_TABLES_H
#define TOP_TABLES_H

#include "top/top.h"

void draw_programs(struct top *top, int y, int lines);
void draw_pairs(struct top *top, int y, int lines);
void draw_probes(struct top *top, int y, int lines);

/* Add PART to top->hidden, the list of the parts that do not fit on the screen. */
void note_hidden(struct top *top, const char *part);

/* Return the number of pairs that match the filter. */
size_t shown_pair_count(const struct view *view);
/* Return the state of TARGET in a word or two, such as "up" or "waiting". */
const char *target_state(const struct top *top, const struct seen_target *target);
/*
 * Write "pid 12", "pids 12 34" (at most 8 pids, then the number of others), "no process" or "pids
 * unknown" to TEXT, which has SIZE bytes.
 */
void write_pids(char *text, size_t size, const struct seen_target *target);

#endif
