/* SPDX-License-Identifier: MIT */
/*
 * The tables of programs, pairs and probes. Each starts at line Y with its titles. Columns without
 * room are noted in `hidden`.
 */
#ifndef TOP_TABLES_H
#define TOP_TABLES_H

#include "top/top.h"

void draw_programs(struct top *top, int y, int lines);
void draw_pairs(struct top *top, int y, int lines);
void draw_probes(struct top *top, int y, int lines);

/* Note that PART has no room on the screen. */
void note_hidden(struct top *top, const char *part);

/* Return the number of pairs that match the filter. */
size_t shown_pair_count(const struct view *view);
/* Return the state of TARGET in a word or two: measured, or what it waits for. */
const char *target_state(const struct top *top, const struct seen_target *target);
/* Write "pid 12" or "pids 12 34", cut to SIZE. */
void write_pids(char *text, size_t size, const struct seen_target *target);

#endif
