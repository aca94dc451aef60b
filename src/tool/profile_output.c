// SPDX-License-Identifier: MIT
#include "tool/profile_output.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "tool/stack_output.h"
#include "tool/writer.h"

enum { TOP_FUNCTIONS = 25, TOP_STACKS = 5, STACK_LINES = 16 };

/* ---- tables --------------------------------------------------------------------------------- */

static void print_value(const struct profile *profile)
{
	const double seconds = (double)profile->duration_ns / 1e9, value = (double)profile->value;
	char time[TIME_BYTES];

	print_time(time, value);
	switch (profile->kind) {
	case PROFILE_CPU:
	case PROFILE_GC:
		printf("samples: %s %s, %.1f%% of a core", time,
		       profile->kind == PROFILE_CPU ? "on the CPU" : "in the collector",
		       seconds > 0 ? 100 * value / 1e9 / seconds : 0);
		if (profile->kind == PROFILE_GC && profile_knows_collector(profile))
			printf(", %.1f%% of the program's CPU time",
			       100 * value / (double)profile->collector.all);
		putchar('\n');
		break;
	case PROFILE_WAITS:
		printf("waits: %s in all threads\n", time);
		break;
	case PROFILE_WORDS:
		printf("samples: %" PRIu64 " words allocated, %.0f a second\n", profile->value,
		       seconds > 0 ? value / seconds : 0);
	}
}

static void print_profile_totals(const struct profile *profile)
{
	printf("%.3f s, ", (double)profile->duration_ns / 1e9);
	if (profile->processes > 1)
		printf("%zu processes, ", profile->processes);
	printf("%" PRIu64 " ", profile->samples);
	print_value(profile);
	if (profile->always_waiting)
		printf("%zu thread%s waited for all of the time\n", profile->always_waiting,
		       plural(profile->always_waiting));
	if (profile->large_ns)
		printf("large blocks: sampled for the first %.3f s, later ones are missing "
		       "(--budget)\n",
		       (double)profile->large_ns / 1e9);
	if (profile->truncated)
		printf("%" PRIu64 " stacks lack callers: they begin with [truncated: ...]\n",
		       profile->truncated);
	if (profile->lost)
		printf("%" PRIu64 " lost: stacks that had no room %llu, counts %llu, waits %llu, "
		       "collisions %llu, at busy times %llu, others %" PRIu64 "\n",
		       profile->lost, profile->stack_losses.full, profile->losses.counts_full,
		       profile->losses.waits_full, profile->stack_losses.collisions,
		       profile->stack_losses.ended[WALK_BUSY], profile->lost_otherwise);
	if (profile->missing_words)
		printf("%" PRIu64 " words of small blocks are missing: no minor heap ran out\n",
		       profile->missing_words);
	if (profile->unsure_words)
		printf("the words of small blocks may be wrong by %" PRIu64
		       ": this process waited for a processor\n",
		       profile->unsure_words);
}

static void print_source(const struct named_frame *frame)
{
	if (!frame->file || !frame->line)
		return;
	printf("  ");
	print_text(frame->file);
	printf(":%" PRIu32, frame->line);
}

static void print_functions(const struct profile *profile, const struct profile_function *functions,
			    size_t n)
{
	printf("\n%7s %7s  %s\n", "SELF", "TOTAL", "FUNCTION");
	for (size_t i = 0; i < n && i < TOP_FUNCTIONS; i++) {
		printf("%6.1f%% %6.1f%%  ", profile_share(profile, functions[i].self),
		       profile_share(profile, functions[i].total));
		print_text(functions[i].function);
		if (functions[i].frame->kind == FRAME_KERNEL)
			printf(" [kernel]");
		putchar('\n');
	}
	if (n > TOP_FUNCTIONS)
		printf("  and %zu more\n", n - TOP_FUNCTIONS);
}

void profile_print_stack(const struct named_stack *stack, int indent)
{
	size_t lines = 0;

	for (size_t i = stack->n; i-- > 0 && lines < STACK_LINES; lines++) {
		const struct named_frame *frame = stack->frames[i];

		printf("%*s", lines ? indent : 1, "");
		print_text(frame->function);
		if (frame->is_inlined)
			printf(" [inlined]");
		print_source(frame);
		putchar('\n');
		if (lines + 1 == STACK_LINES && i)
			printf("%*s... %zu more\n", indent, "", i);
	}
}

void profile_print_collector(const struct profile *profile)
{
	const struct collector_time *time = &profile->collector;
	const uint64_t others = time->collector - time->minor - time->major;
	const double percent = 100 / (double)time->all, least = 0.05;

	if (!profile_knows_collector(profile))
		return;
	printf("\nthe collector takes %.1f%% of this program's CPU time (minor %.1f, major %.1f",
	       (double)time->collector * percent, (double)time->minor * percent,
	       (double)time->major * percent);
	if ((double)others * percent >= least)
		printf(", other %.1f", (double)others * percent);
	puts(")");
}

int profile_print_table(struct ocp_ctx *ctx, struct profile *profile)
{
	struct profile_function *functions;
	size_t n;
	int err = profile_functions(ctx, profile, &functions, &n);

	if (err)
		return err;
	print_profile_totals(profile);
	if (n)
		print_functions(profile, functions, n);
	free(functions);
	if (profile->n)
		printf("\nSTACKS\n");
	profile_fold_recursion(profile);
	for (size_t i = 0; i < profile->n && i < TOP_STACKS; i++) {
		printf("%6.1f%%", profile_share(profile, profile->stacks[i].value));
		profile_print_stack(&profile->stacks[i], 9);
	}
	if (profile->n > TOP_STACKS)
		printf("  and %zu more\n", profile->n - TOP_STACKS);
	if (profile->kind == PROFILE_CPU)
		profile_print_collector(profile);
	return 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_profile_uint(struct json_object *to, const char *name, uint64_t value)
{
	json_object_object_add(to, name, json_object_new_uint64(value));
}

static struct json_object *json_of_stack(const struct named_stack *stack, const char *unit)
{
	struct json_object *object = json_object_new_object(), *frames = json_object_new_array();

	add_profile_uint(object, "samples", stack->samples);
	add_profile_uint(object, unit, stack->value);
	for (size_t i = 0; i < stack->n; i++)
		json_object_array_add(frames, json_of_frame(stack->frames[i]));
	json_object_object_add(object, "frames", frames);
	return object;
}

static struct json_object *json_of_losses(const struct profile *profile)
{
	struct json_object *object = json_object_new_object();

	add_profile_uint(object, "stacks_full", profile->stack_losses.full);
	add_profile_uint(object, "counts_full", profile->losses.counts_full);
	add_profile_uint(object, "waits_full", profile->losses.waits_full);
	add_profile_uint(object, "collisions", profile->stack_losses.collisions);
	add_profile_uint(object, "busy", profile->stack_losses.ended[WALK_BUSY]);
	add_profile_uint(object, "others", profile->lost_otherwise);
	return object;
}

static struct json_object *json_of_collector(const struct profile *profile)
{
	struct json_object *object = json_object_new_object();

	add_profile_uint(object, "cpu_ns", profile->collector.all);
	add_profile_uint(object, "collector_ns", profile->collector.collector);
	add_profile_uint(object, "minor_ns", profile->collector.minor);
	add_profile_uint(object, "major_ns", profile->collector.major);
	return object;
}

int profile_print_json(struct ocp_ctx *ctx, const struct profile *profile)
{
	struct json_object *root = json_object_new_object(), *stacks = json_object_new_array();
	const char *unit = profile->kind == PROFILE_WORDS ? "words" : "ns";

	(void)ctx;
	add_profile_uint(root, "version", PROFILE_JSON_VERSION);
	json_object_object_add(root, "profile",
			       json_object_new_string(profile_kind_name(profile->kind)));
	if (profile_is_sampled(profile->kind))
		add_profile_uint(root, "hz", profile->hz);
	add_profile_uint(root, "duration_ns", profile->duration_ns);
	if (profile->large_ns)
		add_profile_uint(root, "large_blocks_ns", profile->large_ns);
	add_profile_uint(root, "processes", profile->processes);
	if (profile->kind == PROFILE_WAITS)
		add_profile_uint(root, "always_waiting", profile->always_waiting);
	add_profile_uint(root, "samples", profile->samples);
	add_profile_uint(root, unit, profile->value);
	if (profile_knows_collector(profile))
		json_object_object_add(root, "collector", json_of_collector(profile));
	add_profile_uint(root, "truncated", profile->truncated);
	if (profile->unsure_words)
		add_profile_uint(root, "unsure_words", profile->unsure_words);
	if (profile->missing_words)
		add_profile_uint(root, "missing_words", profile->missing_words);
	add_profile_uint(root, "lost", profile->lost);
	json_object_object_add(root, "losses", json_of_losses(profile));
	for (size_t i = 0; i < profile->n; i++)
		json_object_array_add(stacks, json_of_stack(&profile->stacks[i], unit));
	json_object_object_add(root, "stacks", stacks);
	puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
	return 0;
}
