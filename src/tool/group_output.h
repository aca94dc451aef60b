/* SPDX-License-Identifier: MIT */
/* Print the groups of a sample: hits and times by the value of an argument (--by). */
#ifndef TOOL_GROUP_OUTPUT_H
#define TOOL_GROUP_OUTPUT_H

#include "tool/writer.h"

/*
 * Print a table for each probe and pair of REPORT that has groups. List the groups with the most
 * hits, or with the longest sum of times, then the sum of the remaining groups.
 */
void print_groups(const struct report *report);

/*
 * Add the member "groups" to TOP, with all groups, sorted by value. Add nothing if the hits are not
 * grouped (--by).
 */
void add_groups_json(struct json_object *top, const struct report *report);

#endif
