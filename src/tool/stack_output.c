// SPDX-License-Identifier: MIT
#include "tool/json.h"
#include "tool/stack_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "cli/pair_note.h"

enum {
	SHOWN_STACKS = 10, /* stacks of a probe or pair, in tables */
	SHOWN_FRAMES = 40, /* frames of such a stack */
};

/* ---- text ----------------------------------------------------------------------------------- */

static void print_frame(const struct named_frame *frame, int indent)
{
	printf("%*s", indent, "");
	print_text(frame->function);
	if (frame->file && frame->line) {
		printf(" (");
		print_text(frame->file);
		printf(":%" PRIu32 ")", frame->line);
	}
	puts(frame->is_inlined ? " (inlined)" : "");
}

static void print_frames(const struct named_frames *frames, size_t shown)
{
	for (size_t i = 0; i < frames->n && i < shown; i++)
		print_frame(frames->list[i], 8);
	if (frames->n > shown)
		printf("%*s... %zu more\n", 8, "", frames->n - shown);
}

void print_hit_frames(const struct named_frames *frames)
{
	print_frames(frames, frames->n);
}

/* Count the rows from FIRST on that belong to the same probe or pair. */
static size_t count_rows(const struct stack_rows *rows, size_t first)
{
	const struct stack_row *row = &rows->list[first];
	size_t n = 1;

	while (first + n < rows->n && rows->list[first + n].probe == row->probe &&
	       rows->list[first + n].pair == row->pair)
		n++;
	return n;
}

static void print_stack_row(const struct stack_row *row, double share)
{
	char sum[TIME_BYTES], mean[TIME_BYTES], max[TIME_BYTES];

	if (row->probe) {
		printf("  %" PRIu64 " hit%s, %.1f%%\n", row->n, plural(row->n), 100 * share);
		return;
	}
	print_time(sum, (double)row->sum_ns);
	print_time(mean, row->n ? (double)row->sum_ns / (double)row->n : 0);
	print_time(max, (double)row->max_ns);
	printf("  %s, %.1f%%: %" PRIu64 " time%s, mean %s, max %s\n", sum, 100 * share, row->n,
	       plural(row->n), mean, max);
}

static void print_title(const struct report *report, const struct stack_row *row)
{
	const struct ocp_pair *pair;
	char name[512];

	if (row->probe) {
		printf("\nstacks of ");
		print_text(row->probe);
		putchar('\n');
		return;
	}
	pair = ocp_sample_pair(report->sample, row->pair);
	pair_name(name, sizeof(name), pair->start, pair->stop);
	printf("\nstacks at the end of ");
	print_text(name);
	putchar('\n');
}

/* Print the stacks of one probe or pair. */
static void print_group(const struct stack_row *rows, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += rows[i].probe ? rows[i].n : rows[i].sum_ns;
	for (size_t i = 0; i < n && i < SHOWN_STACKS; i++) {
		const uint64_t its = rows[i].probe ? rows[i].n : rows[i].sum_ns;

		print_stack_row(&rows[i], all ? (double)its / (double)all : 0);
		print_frames(&rows[i].frames, SHOWN_FRAMES);
	}
	if (n > SHOWN_STACKS)
		printf("  %zu more stack%s not shown; --json has all\n", n - SHOWN_STACKS,
		       n - SHOWN_STACKS == 1 ? " is" : "s are");
}

void print_stacks(const struct report *report)
{
	const struct stack_rows *rows = report->stacks;
	size_t n;

	for (size_t i = 0; i < rows->n; i += n) {
		n = count_rows(rows, i);
		print_title(report, &rows->list[i]);
		print_group(&rows->list[i], n);
	}
	printf("\n%" PRIu64 " stack%s walked, %" PRIu64 " truncated, %" PRIu64
	       " without room, %" PRIu64 " in no row (map full)\n",
	       rows->walks, plural(rows->walks), rows->truncated, rows->lost, rows->not_counted);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static const char *kind_text(enum frame_kind kind)
{
	static const char *const texts[] = {
		[FRAME_OCAML] = "ocaml",	 [FRAME_C] = "c",
		[FRAME_KERNEL] = "kernel",	 [FRAME_UNKNOWN] = "unknown",
		[FRAME_TRUNCATED] = "truncated",
	};

	return texts[kind];
}

void write_frames_json(const struct named_frames *frames)
{
	putchar('[');
	for (size_t i = 0; i < frames->n; i++) {
		const struct named_frame *frame = frames->list[i];

		printf("%s{\"function\":", i ? "," : "");
		write_json_text(frame->function, strlen(frame->function));
		printf(",\"kind\":\"%s\"", kind_text(frame->kind));
		if (frame->file) {
			fputs(",\"file\":", stdout);
			write_json_text(frame->file, strlen(frame->file));
			printf(",\"line\":%" PRIu32, frame->line);
		}
		fputs(frame->is_inlined ? ",\"inlined\":true}" : "}", stdout);
	}
	putchar(']');
}

struct json_object *json_of_frame(const struct named_frame *frame)
{
	struct json_object *object = json_object_new_object();

	json_add_string(object, "function", frame->function);
	json_add_string(object, "kind", kind_text(frame->kind));
	if (frame->file) {
		json_add_string(object, "file", frame->file);
		json_add_uint(object, "line", frame->line);
	}
	if (frame->is_inlined)
		json_add_bool(object, "inlined", true);
	return object;
}

static struct json_object *json_of_row(const struct report *report, const struct stack_row *row)
{
	struct json_object *object = json_object_new_object(), *frames = json_object_new_array();

	if (row->probe) {
		json_add_string(object, "name", row->probe);
		json_add_uint(object, "hits", row->n);
	} else {
		const struct ocp_pair *pair = ocp_sample_pair(report->sample, row->pair);

		json_add_string(object, "start", pair->start);
		json_add_string(object, "stop", pair->stop);
		json_add_uint(object, "count", row->n);
		json_add_uint(object, "sum_ns", row->sum_ns);
		json_add_uint(object, "max_ns", row->max_ns);
	}
	for (size_t i = 0; i < row->frames.n; i++)
		json_object_array_add(frames, json_of_frame(row->frames.list[i]));
	json_object_object_add(object, "frames", frames);
	return object;
}

void add_stacks_json(struct json_object *top, const struct report *report)
{
	const struct stack_rows *rows = report->stacks;
	struct json_object *stacks = json_object_new_array(), *walks = json_object_new_object();

	for (size_t i = 0; i < rows->n; i++)
		json_object_array_add(stacks, json_of_row(report, &rows->list[i]));
	json_object_object_add(top, "stacks", stacks);
	json_add_uint(walks, "walked", rows->walks);
	json_add_uint(walks, "truncated", rows->truncated);
	json_add_uint(walks, "lost", rows->lost);
	json_add_uint(walks, "rows_full", rows->not_counted);
	json_object_object_add(top, "walks", walks);
}
