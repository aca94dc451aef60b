/* SPDX-License-Identifier: MIT */
/* The tables of programs, pairs and probes. Each is drawn from line Y on, its titles first. */
#ifndef TOP_TABLES_H
#define TOP_TABLES_H

#include "top/top.h"

void draw_programs(const struct top *top, int y, int lines);
void draw_pairs(const struct top *top, int y, int lines);
void draw_probes(const struct top *top, int y, int lines);

/* How many pairs the filter lets through. */
size_t shown_pair_count(const struct view *view);
/* Is TARGET measured, or what does it wait for: a word. */
const char *target_state(const struct top *top, const struct seen_target *target);
/* "pid 12", "pids 12 34", cut to SIZE. */
void write_pids(char *text, size_t size, const struct seen_target *target);

#endif
