// SPDX-License-Identifier: MIT
#include "profile/formats/flame_json.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "profile/formats/numbering.h"
#include "profile/formats/page_writer.h"
#include "profile/profile_fold.h"

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
			if (page_write_object(ctx, frame_json(stack->frames[j]), to))
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
	fputs("]", to);
}

/* ---- whole and folded ----------------------------------------------------------------------- */

/* What one graph shows. */
struct flame_graph {
	const struct profile *profile;	 /* in a comparison: the stacks of both profiles */
	const struct profile_diff *diff; /* NULL: no comparison */
};

/* Write the members "stacks", "functions" and, in a comparison, "old". */
static int write_graph(struct ocp_ctx *ctx, const struct flame_graph *graph,
		       struct numbering *numbers, FILE *to)
{
	int err;

	fputs("\"stacks\":[", to);
	err = write_stacks(ctx, graph->profile, numbers, to);
	fputs("],\n\"functions\":[", to);
	if (!err)
		err = graph->diff ? write_changed_functions(ctx, graph->diff, numbers, to)
				  : write_functions(ctx, graph->profile, numbers, to);
	fputs("]", to);
	if (graph->diff)
		write_old_values(graph->diff, to);
	return err;
}

/* Write all. FOLDED is NULL if nothing is folded; otherwise LIBRARIES names the folded ones. */
static int write_flame(struct ocp_ctx *ctx, const struct flame_graph *whole,
		       const struct flame_graph *folded, const char *libraries,
		       const struct flame_form *form, FILE *to)
{
	struct json_object *head = head_json(whole->profile, form->title);
	struct numbering numbers = { 0 };
	int err;

	if (form->is_unfolded)
		json_object_object_add(head, "unfolded", json_object_new_boolean(true));
	fputs("{\"profile\":", to);
	err = page_write_object(ctx, head, to);
	fputs(",\n\"frames\":[", to);
	if (!err)
		err = write_frames(ctx, whole->profile, &numbers, to);
	if (!err && folded)
		err = write_frames(ctx, folded->profile, &numbers, to);
	fputs("],\n", to);
	if (!err)
		err = write_graph(ctx, whole, &numbers, to);
	if (whole->diff)
		fprintf(to, ",\n\"samples\":[%.1f,%.1f]", whole->diff->old_samples,
			whole->diff->new_samples);
	if (!err && folded) {
		fprintf(to, ",\n\"folded\":{\"libraries\":\"%s\",\n", libraries);
		err = write_graph(ctx, folded, &numbers, to);
		fputs("}", to);
	}
	fputs("}", to);
	numbering_free(&numbers);
	return err;
}

int flame_json_write(struct ocp_ctx *ctx, const struct profile *profile,
		     const struct flame_form *form, FILE *to)
{
	const struct flame_graph whole = { .profile = profile };
	char libraries[FOLDED_TEXT_BYTES] = "";
	struct folded_profile copy;
	int err = profile_fold_copy(ctx, profile, &copy, libraries);

	if (!err)
		err = write_flame(ctx, &whole,
				  copy.is_same ? NULL
					       : &(struct flame_graph){ .profile = &copy.profile },
				  libraries, form, to);
	folded_profile_free(&copy);
	return err;
}

/*
 * Set BOTH to the new profile with the stacks of DIFF, and their new values. The caller frees the
 * stacks, and not their frames.
 */
static int join_stacks(struct ocp_ctx *ctx, const struct profile_diff *diff, struct profile *both)
{
	*both = *diff->new_profile;
	both->n = diff->n_stacks;
	both->stacks = calloc(both->n + 1, sizeof(*both->stacks));
	if (!both->stacks)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < both->n; i++) {
		const struct profile_diff_stack *from = &diff->stacks[i];

		both->stacks[i] = *from->stack;
		both->stacks[i].value = from->change.new_value;
		if (!from->change.new_value)
			both->stacks[i].samples = 0;
	}
	return 0;
}

/* A comparison of two profiles that are folded. */
struct folded_diff {
	char libraries[FOLDED_TEXT_BYTES];
	struct folded_profile before, now;
	struct profile_diff diff;
	struct profile both;
};

/* Fold the profiles of DIFF, and compare them again. The caller frees FOLDED in all cases. */
static int fold_diff(struct ocp_ctx *ctx, const struct profile_diff *diff,
		     struct folded_diff *folded)
{
	int err;

	*folded = (struct folded_diff){ 0 };
	err = profile_fold_copy(ctx, diff->old_profile, &folded->before, folded->libraries);
	if (!err)
		err = profile_fold_copy(ctx, diff->new_profile, &folded->now, folded->libraries);
	if (!err)
		err = profile_diff_make(ctx, &folded->before.profile, &folded->now.profile,
					&folded->diff);
	return err ? err : join_stacks(ctx, &folded->diff, &folded->both);
}

static void folded_diff_free(struct folded_diff *folded)
{
	free(folded->both.stacks);
	profile_diff_free(&folded->diff);
	folded_profile_free(&folded->now);
	folded_profile_free(&folded->before);
}

int flame_json_write_diff(struct ocp_ctx *ctx, const struct profile_diff *diff,
			  const struct flame_form *form, FILE *to)
{
	struct folded_diff folded;
	struct profile both = { 0 };
	int err = fold_diff(ctx, diff, &folded);

	if (!err)
		err = join_stacks(ctx, diff, &both);
	if (!err)
		err = write_flame(ctx, &(struct flame_graph){ &both, diff },
				  folded.before.is_same && folded.now.is_same
					  ? NULL
					  : &(struct flame_graph){ &folded.both, &folded.diff },
				  folded.libraries, form, to);
	free(both.stacks);
	folded_diff_free(&folded);
	return err;
}
