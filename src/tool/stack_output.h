/* SPDX-License-Identifier: MIT */
/* Stacks of hits, as text and as JSON. */
#ifndef TOOL_STACK_OUTPUT_H
#define TOOL_STACK_OUTPUT_H

#include "measure/stacks.h"
#include "tool/writer.h"

struct json_object;

/* Print the frames of a hit, one per line. */
void print_hit_frames(const struct named_frames *frames);
/* Print the heaviest stacks of each probe and pair in REPORT. */
void print_stacks(const struct report *report);

/* Write the frames of a hit as a JSON array. */
void write_frames_json(const struct named_frames *frames);
/* Add the stacks of REPORT to the total TOP. */
void add_stacks_json(struct json_object *top, const struct report *report);

struct json_object *json_of_frame(const struct named_frame *frame);

#endif
