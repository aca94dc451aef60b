// SPDX-License-Identifier: MIT
#include "profile/formats/flame_json.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "profile/formats/numbering.h"
#include "profile/formats/page_frame.h"

/* Write OBJECT and free it. */
static int write_object(struct ocp_ctx *ctx, struct json_object *object, FILE *to)
{
	const char *json =
		object ? json_object_to_json_string_ext(
				 object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
		       : NULL;

	if (json)
		page_frame_write_json(json, to);
	json_object_put(object);
	return json ? 0 : ctx_no_memory(ctx);
}

static struct json_object *head_json(const struct profile *profile, const char *title)
{
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{ "hz", profile->hz },
		{ "start_ms", profile->start_ns / 1000000 },
		{ "duration_ns", profile->duration_ns },
		{ "large_ns", profile->large_ns },
		{ "processes", profile->processes },
		{ "samples", profile->samples },
		{ "value", profile->value },
		{ "truncated", profile->truncated },
		{ "lost", profile->lost },
	};
	struct json_object *head = json_object_new_object();

	json_object_object_add(head, "title", json_object_new_string(title));
	json_object_object_add(head, "kind",
			       json_object_new_string(profile_kind_name(profile->kind)));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_object_add(head, numbers[i].name,
				       json_object_new_uint64(numbers[i].value));
	return head;
}

static struct json_object *frame_json(const struct named_frame *frame)
{
	static const char *const kinds[] = {
		[FRAME_OCAML] = "ocaml",	 [FRAME_C] = "c",
		[FRAME_KERNEL] = "kernel",	 [FRAME_UNKNOWN] = "unknown",
		[FRAME_TRUNCATED] = "truncated", [FRAME_THREAD] = "thread",
	};
	struct json_object *array = json_object_new_array();

	json_object_array_add(array, json_object_new_string(frame->function));
	json_object_array_add(array, json_object_new_string(kinds[frame->kind]));
	json_object_array_add(array, frame->file ? json_object_new_string(frame->file) : NULL);
	json_object_array_add(array, json_object_new_uint64(frame->line));
	json_object_array_add(array, json_object_new_boolean(frame->is_inlined));
	if (frame->item)
		json_object_array_add(array, json_object_new_string(frame->item));
	return array;
}

static bool find_frame_number(struct numbering *numbers, const struct named_frame *frame,
			      size_t *number, bool *is_new)
{
	const uintptr_t key = (uintptr_t)frame;

	return numbering_of(numbers, &key, sizeof(key), number, is_new);
}

/* Write each frame once, and assign it a number in NUMBERS. */
static int write_frames(struct ocp_ctx *ctx, const struct profile *profile,
			struct numbering *numbers, FILE *to)
{
	for (size_t i = 0; i < profile->n; i++) {
		const struct named_stack *stack = &profile->stacks[i];

		for (size_t j = 0; j < stack->n; j++) {
			size_t number;
			bool is_new;

			if (!find_frame_number(numbers, stack->frames[j], &number, &is_new))
				return ctx_no_memory(ctx);
			if (!is_new)
				continue;
			if (number)
				fputs(",\n", to);
			if (write_object(ctx, frame_json(stack->frames[j]), to))
				return -ENOMEM;
		}
	}
	return 0;
}

static int write_stacks(struct ocp_ctx *ctx, const struct profile *profile,
			struct numbering *numbers, FILE *to)
{
	for (size_t i = 0; i < profile->n; i++) {
		const struct named_stack *stack = &profile->stacks[i];

		fprintf(to, "%s[%" PRIu64 ",%" PRIu64, i ? ",\n" : "", stack->samples,
			stack->value);
		for (size_t j = 0; j < stack->n; j++) {
			size_t number;
			bool is_new;

			if (!find_frame_number(numbers, stack->frames[j], &number, &is_new))
				return ctx_no_memory(ctx);
			fprintf(to, ",%zu", number);
		}
		fputc(']', to);
	}
	return 0;
}

static int write_function(struct ocp_ctx *ctx, struct numbering *numbers,
			  const struct named_frame *frame, bool is_first, FILE *to)
{
	size_t number;
	bool is_new;

	if (!find_frame_number(numbers, frame, &number, &is_new))
		return ctx_no_memory(ctx);
	fprintf(to, "%s[%zu", is_first ? "" : ",\n", number);
	return 0;
}

static int write_functions(struct ocp_ctx *ctx, const struct profile *profile,
			   struct numbering *numbers, FILE *to)
{
	struct profile_function *functions;
	size_t n;
	int err = profile_functions(ctx, profile, NULL, SITES_LEAF, &functions, &n);

	if (err)
		return err;
	for (size_t i = 0; i < n && !err; i++) {
		err = write_function(ctx, numbers, functions[i].frame, !i, to);
		fprintf(to, ",%" PRIu64 ",%" PRIu64 "]", functions[i].self, functions[i].total);
	}
	free(functions);
	return err;
}

static int write_changed_functions(struct ocp_ctx *ctx, const struct profile_diff *diff,
				   struct numbering *numbers, FILE *to)
{
	int err = 0;

	for (size_t i = 0; i < diff->n_functions && !err; i++) {
		const struct profile_diff_function *function = &diff->functions[i];

		err = write_function(ctx, numbers, function->frame, !i, to);
		fprintf(to, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
			function->self.new_value, function->total.new_value,
			function->self.old_value, function->total.old_value);
	}
	return err;
}

static void write_old_values(const struct profile_diff *diff, FILE *to)
{
	fputs(",\n\"old\":[", to);
	for (size_t i = 0; i < diff->n_stacks; i++)
		fprintf(to, "%s%" PRIu64, i ? "," : "", diff->stacks[i].change.old_value);
	fprintf(to, "],\n\"samples\":[%.1f,%.1f]", diff->old_samples, diff->new_samples);
}

int flame_json_write(struct ocp_ctx *ctx, const struct profile *profile,
		     const struct profile_diff *diff, const char *title, FILE *to)
{
	struct numbering numbers = { 0 };
	int err;

	fputs("{\"profile\":", to);
	err = write_object(ctx, head_json(profile, title), to);
	fputs(",\n\"frames\":[", to);
	if (!err)
		err = write_frames(ctx, profile, &numbers, to);
	fputs("],\n\"stacks\":[", to);
	if (!err)
		err = write_stacks(ctx, profile, &numbers, to);
	fputs("],\n\"functions\":[", to);
	if (!err)
		err = diff ? write_changed_functions(ctx, diff, &numbers, to)
			   : write_functions(ctx, profile, &numbers, to);
	fputs("]", to);
	if (diff)
		write_old_values(diff, to);
	fputs("}", to);
	numbering_free(&numbers);
	return err;
}
