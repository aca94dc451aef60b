// SPDX-License-Identifier: MIT
#include "tool/profile_diff_output.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "profile/folded_writer.h"
#include "tool/profile_output.h"
#include "tool/stack_output.h"
#include "tool/writer.h"

enum { TOP_FUNCTIONS = 25, TOP_STACKS = 5, STACK_INDENT = 25 };

/* ---- tables --------------------------------------------------------------------------------- */

static void print_side(const char *side, const struct profile *profile)
{
	char time[TIME_BYTES];

	printf("%s: ", side);
	if (profile->duration_ns)
		printf("%.3f s, ", (double)profile->duration_ns / 1e9);
	printf("%" PRIu64 " samples", profile->samples);
	if (profile->kind == PROFILE_WORDS)
		printf(", %" PRIu64 " words", profile->value);
	else if (profile->kind == PROFILE_WAITS || profile->hz)
		printf(", %s", print_time(time, (double)profile->value));
	if (profile->truncated)
		printf(", %.1f%% of them lack callers",
		       100.0 * (double)profile->truncated / (double)profile->samples);
	if (profile->large_ns)
		printf(", large blocks only of the first %.3f s", (double)profile->large_ns / 1e9);
	if (profile->lost)
		printf(", %" PRIu64 " lost", profile->lost);
	putchar('\n');
}

/* Print, in 12 columns, the value that was added or saved in the time of the new profile. */
static void print_value(const struct profile_diff *diff, const struct profile_change *change)
{
	const double value = profile_change_value(diff, change);
	char time[TIME_BYTES], text[TIME_BYTES + 1];

	if (!diff->has_times)
		printf("%12s", "-");
	else if (diff->new_profile->kind == PROFILE_WORDS)
		printf("%+12.0f", value);
	else {
		snprintf(text, sizeof(text), "%c%s", value < 0 ? '-' : '+',
			 print_time(time, fabs(value)));
		printf("%12s", text);
	}
}

static void print_functions(const struct profile_diff *diff)
{
	printf("\n%7s %7s %7s %7s %11s  %s\n", "OLD", "NEW", "DIFF", "TOTAL",
	       diff->new_profile->kind == PROFILE_WORDS ? "WORDS" : "TIME", "FUNCTION");
	for (size_t i = 0; i < diff->n_functions && i < TOP_FUNCTIONS; i++) {
		const struct profile_diff_function *function = &diff->functions[i];

		printf("%6.1f%% %6.1f%% %+7.1f %+7.1f",
		       profile_share(diff->old_profile, function->self.old_value),
		       profile_share(diff->new_profile, function->self.new_value), function->points,
		       function->total_points);
		print_value(diff, &function->self);
		printf("  ");
		print_text(function->frame->function);
		if (function->frame->kind == FRAME_KERNEL)
			printf(" [kernel]");
		putchar('\n');
	}
	if (diff->n_functions > TOP_FUNCTIONS)
		printf("  and %zu more\n", diff->n_functions - TOP_FUNCTIONS);
}

/* Print the stacks that are whole, or if TRUNCATED the stacks that lack callers. */
static void print_diff_stacks(const struct profile_diff *diff, bool truncated, const char *title)
{
	size_t n = 0;

	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct profile_diff_stack *stack = &diff->stacks[i];

		if (profile_stack_is_truncated(stack->stack) != truncated || n++ >= TOP_STACKS)
			continue;
		if (n == 1)
			printf("\n%s\n", title);
		printf("%6.1f%% %6.1f%% %+7.1f",
		       profile_share(diff->old_profile, stack->change.old_value),
		       profile_share(diff->new_profile, stack->change.new_value), stack->points);
		profile_print_stack(stack->stack, STACK_INDENT);
	}
	if (n > TOP_STACKS)
		printf("  and %zu more\n", n - TOP_STACKS);
}

void profile_diff_print_table(const struct profile_diff *diff)
{
	print_side("old", diff->old_profile);
	print_side("new", diff->new_profile);
	print_functions(diff);
	print_diff_stacks(diff, false, "STACKS");
	print_diff_stacks(diff, true, "STACKS THAT LACK CALLERS");
}

/* ---- folded --------------------------------------------------------------------------------- */

/*
 * Return the number in the folded form for VALUE: a value of the new profile, or an old value to
 * multiply by FACTOR.
 */
static double folded_value(const struct profile_diff *diff, uint64_t value, double factor)
{
	const struct profile *now = diff->new_profile;
	const double scaled = factor * (double)value;

	if (now->kind == PROFILE_WAITS)
		return scaled / 1000;
	return now->kind != PROFILE_WORDS && now->hz ? scaled * now->hz / 1e9 : scaled;
}

void profile_diff_print_folded(const struct profile_diff *diff)
{
	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct profile_diff_stack *stack = &diff->stacks[i];

		folded_write_stack(stack->stack, stdout);
		printf(" %.0f %.0f\n", folded_value(diff, stack->change.old_value, diff->scale),
		       folded_value(diff, stack->change.new_value, 1));
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_diff_uint(struct json_object *to, const char *name, uint64_t value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static void add_percentage(struct json_object *to, const char *name, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%.4f", value);
	json_object_object_add(to, name, json_object_new_double_s(value, text));
}

static const char *unit_of(const struct profile *profile)
{
	return profile->kind == PROFILE_WORDS		       ? "words"
	       : profile->kind == PROFILE_WAITS || profile->hz ? "ns"
							       : "value";
}

static struct json_object *json_of_side(const struct profile *profile)
{
	struct json_object *object = json_object_new_object();

	if (profile->hz && profile_is_sampled(profile->kind))
		add_diff_uint(object, "hz", profile->hz);
	if (profile->duration_ns)
		add_diff_uint(object, "duration_ns", profile->duration_ns);
	if (profile->large_ns)
		add_diff_uint(object, "large_blocks_ns", profile->large_ns);
	add_diff_uint(object, "samples", profile->samples);
	add_diff_uint(object, unit_of(profile), profile->value);
	add_diff_uint(object, "truncated", profile->truncated);
	add_diff_uint(object, "lost", profile->lost);
	return object;
}

static struct json_object *json_of_change(const struct profile_diff *diff,
					  const struct profile_change *change, double points)
{
	struct json_object *object = json_object_new_object();

	add_diff_uint(object, "old", change->old_value);
	add_diff_uint(object, "new", change->new_value);
	add_percentage(object, "old_percent", profile_share(diff->old_profile, change->old_value));
	add_percentage(object, "new_percent", profile_share(diff->new_profile, change->new_value));
	add_percentage(object, "points", points);
	if (diff->has_times) {
		const double value = profile_change_value(diff, change);

		json_object_object_add(
			object, "change",
			json_object_new_int64((int64_t)(value < 0 ? value - 0.5 : value + 0.5)));
	}
	return object;
}

static struct json_object *json_of_function(const struct profile_diff *diff,
					    const struct profile_diff_function *function)
{
	struct json_object *object = json_of_frame(function->frame);

	/*
	 * Remove the line and inlining of this frame: they belong to one call, not to the function.
	 */
	json_object_object_del(object, "line");
	json_object_object_del(object, "inlined");
	json_object_object_add(object, "self",
			       json_of_change(diff, &function->self, function->points));
	json_object_object_add(object, "total",
			       json_of_change(diff, &function->total, function->total_points));
	return object;
}

static struct json_object *json_of_stack(const struct profile_diff *diff,
					 const struct profile_diff_stack *stack)
{
	struct json_object *object = json_of_change(diff, &stack->change, stack->points);
	struct json_object *frames = json_object_new_array();

	json_object_object_add(object, "truncated",
			       json_object_new_boolean(profile_stack_is_truncated(stack->stack)));
	for (size_t i = 0; i < stack->stack->n; i++)
		json_object_array_add(frames, json_of_frame(stack->stack->frames[i]));
	json_object_object_add(object, "frames", frames);
	return object;
}

void profile_diff_print_json(const struct profile_diff *diff)
{
	struct json_object *root = json_object_new_object(), *functions = json_object_new_array(),
			   *stacks = json_object_new_array();

	add_diff_uint(root, "version", PROFILE_JSON_VERSION);
	json_object_object_add(root, "diff",
			       json_object_new_string(profile_kind_name(diff->new_profile->kind)));
	json_object_object_add(root, "old", json_of_side(diff->old_profile));
	json_object_object_add(root, "new", json_of_side(diff->new_profile));
	for (size_t i = 0; i < diff->n_functions; i++)
		json_object_array_add(functions, json_of_function(diff, &diff->functions[i]));
	for (size_t i = 0; i < diff->n_stacks; i++)
		json_object_array_add(stacks, json_of_stack(diff, &diff->stacks[i]));
	json_object_object_add(root, "functions", functions);
	json_object_object_add(root, "stacks", stacks);
	puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}
