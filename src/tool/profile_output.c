// SPDX-License-Identifier: MIT
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "profile/folded_writer.h"
#include "profile/lock_releases.h"
#include "profile/profile_fold.h"
#include "profile/wait_kinds.h"
#include "tool/json.h"
#include "tool/profile_output.h"
#include "tool/writer.h"
#include "unwind/own_frames.h"

enum { PROFILE_JSON_VERSION = 1 };

enum {
	TOP_FUNCTIONS = 25,
	TOP_STACKS = 5,
	TOP_RELEASERS = 5,	/* for each kind of lock */
	TOP_RELEASE_STACKS = 3, /* for each kind of lock */
	STACK_LINES = 16,
	STACK_INDENT = 9, /* the indentation of the frames of a stack */
	TOP_THREADS = 25,
	THREADS_WITH_FUNCTIONS = 10, /* threads for which functions are listed */
	FUNCTIONS_OF_THREAD = 10,
	DIFF_INDENT = 26, /* the indentation of the frames of a stack in a comparison */
};

/* ---- tables --------------------------------------------------------------------------------- */

static void print_value(const struct profile *profile)
{
	const double seconds = (double)profile->duration_ns / 1e9, value = (double)profile->value;
	char time[TIME_BYTES];

	print_time(time, value);
	switch (profile->kind) {
	case PROFILE_CPU:
	case PROFILE_GC:
		printf("sample%s: %s %s, %.1f%% of a core", plural(profile->samples), time,
		       profile->kind == PROFILE_CPU ? "on the CPU" : "in the collector",
		       seconds > 0 ? 100 * value / 1e9 / seconds : 0);
		if (profile->kind == PROFILE_GC && profile_knows_collector(profile))
			printf(", %.1f%% of the program's CPU time",
			       100 * value / (double)profile->collector.all);
		putchar('\n');
		break;
	case PROFILE_WAITS:
		printf("wait%s: %s in all threads\n", plural(profile->samples), time);
		break;
	case PROFILE_WORDS:
		printf("sample%s: %" PRIu64 " words allocated, %.0f a second\n",
		       plural(profile->samples), profile->value, seconds > 0 ? value / seconds : 0);
	}
}

/* Print how long threads could run, but had no CPU. */
static void print_ready(const struct profile *profile)
{
	char time[TIME_BYTES];

	if (profile->knows_ready)
		printf("ready, but without a CPU: %s in all threads, in none of the waits\n",
		       print_time(time, (double)profile->ready_ns));
}

static void print_profile_totals(const struct profile *profile)
{
	printf("%.3f s, ", (double)profile->duration_ns / 1e9);
	if (profile->processes > 1)
		printf("%zu processes, ", profile->processes);
	printf("%" PRIu64 " ", profile->samples);
	print_value(profile);
	if (profile->always_waiting)
		printf("%zu thread%s waited the whole time%s\n", profile->always_waiting,
		       plural(profile->always_waiting),
		       profile->lacks_idle ? ", left out here: --idle shows them" : "");
	print_ready(profile);
	if (profile->large_ns)
		printf("large blocks: sampled for the first %.3f s, later ones are missing "
		       "(--budget)\n",
		       (double)profile->large_ns / 1e9);
	if (profile->truncated)
		printf("%" PRIu64 " stacks lack callers: they begin with [truncated: ...]\n",
		       profile->truncated);
	if (profile->in_calls > profile->samples / 10)
		printf("%" PRIu64
		       " samples are at the end of system calls: short calls may have too "
		       "large a share, see --engine bpf\n",
		       profile->in_calls);
	if (profile->by_ptrace && profile->lost_otherwise)
		printf("%" PRIu64 " samples missed: a thread began to wait or ended before it was "
		       "stopped, or had another tracer\n",
		       profile->lost_otherwise);
	else if (profile->lost)
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

static const struct lock_releases *find_releases(const struct profile *profile, enum wait_kind kind)
{
	for (size_t i = 0; i < N_LOCK_KINDS && profile->locks; i++)
		if (profile->locks[i].kind == kind)
			return &profile->locks[i];
	return NULL;
}

/* Print the columns of a row of waits, and what the text that follows is indented by. */
static void print_waits(const struct profile *profile, const struct wait_sum *sum, const char *gap)
{
	char time[TIME_BYTES];

	printf("%6.1f%% %10s %10" PRIu64 "  %s", profile_share(profile, sum->ns),
	       print_time(time, (double)sum->ns), sum->samples, gap);
}

/* Print who ended the waits for LOCK, below the row of all of its waits. */
static int print_releasers(struct ocp_ctx *ctx, const struct profile *profile,
			   const struct lock_releases *lock)
{
	struct lock_releaser *releasers;
	size_t n;
	int err = lock_releases_list(ctx, lock, &releasers, &n);

	for (size_t i = 0; i < n && i < TOP_RELEASERS && !err; i++) {
		print_waits(profile, &releasers[i].sum, "  ");
		printf("released by %s in ", releasers[i].thread->text);
		print_text(releasers[i].function->function);
		putchar('\n');
	}
	if (n > TOP_RELEASERS)
		printf("%31s  and %zu more\n", "", n - TOP_RELEASERS);
	if (!err && lock->open.samples) {
		print_waits(profile, &lock->open, "  ");
		puts("not released before the end");
	}
	if (!err && lock->unknown.samples) {
		print_waits(profile, &lock->unknown, "  ");
		puts("released by an unknown thread");
	}
	free(releasers);
	return err;
}

/* Print what the threads have waited for, the longest first. */
static int print_wait_kinds(struct ocp_ctx *ctx, const struct profile *profile)
{
	struct wait_sum sums[N_WAIT_KINDS];
	int err = 0;

	wait_kinds_sum(profile, sums);
	printf("\n%7s %10s %10s  %s\n", "SHARE", "TIME", "WAITS", "FOR");
	while (!err) {
		const enum wait_kind longest = wait_kinds_longest(sums);
		const struct lock_releases *lock = find_releases(profile, longest);

		if (!sums[longest].ns)
			break;
		print_waits(profile, &sums[longest], "");
		puts(wait_kind_text(longest));
		if (lock)
			err = print_releasers(ctx, profile, lock);
		sums[longest].ns = 0;
	}
	return err;
}

static void print_source(const struct named_frame *frame)
{
	if (!frame->file || !frame->line)
		return;
	printf("  ");
	print_text(frame->file);
	printf(":%" PRIu32, frame->line);
}

static void print_function(const struct profile *profile, const struct profile_function *function)
{
	printf("%6.1f%% %6.1f%%  ", profile_share(profile, function->self),
	       profile_share(profile, function->total));
	print_text(function->function);
	if (function->frame->kind == FRAME_KERNEL)
		printf(" [kernel]");
	if (function->via) {
		printf("  via ");
		print_text(function->via->function);
	}
	putchar('\n');
}

/* Remove functions that only start others and have no value. Return the number of the rest. */
static size_t remove_entry_functions(struct profile_function *functions, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (functions[i].self || !is_entry_function(functions[i].frame, functions[i].depth))
			functions[left++] = functions[i];
	return left;
}

/*
 * Print the first MAX functions of THREAD or, if THREAD is NULL, of all stacks. In both cases, the
 * shares are those of the sum of all stacks.
 */
static int print_functions(struct ocp_ctx *ctx, const struct profile *profile,
			   const struct profile_thread *thread, enum profile_sites sites,
			   size_t max)
{
	struct profile_function *functions;
	size_t n;
	int err = profile_functions(ctx, profile, thread, sites, &functions, &n);

	if (err)
		return err;
	n = remove_entry_functions(functions, n);
	if (n)
		printf("%7s %7s  %s\n", "SELF", "TOTAL", "FUNCTION");
	for (size_t i = 0; i < n && i < max; i++)
		print_function(profile, &functions[i]);
	if (n > max)
		printf("  and %zu more\n", n - max);
	free(functions);
	return 0;
}

/* Print the threads, and then the functions of each of the first threads. */
static int print_threads(struct ocp_ctx *ctx, const struct profile *profile,
			 enum profile_sites sites)
{
	int err = 0;

	printf("\n%7s %10s %8s  %s\n", "SHARE", "SAMPLES", "PID", "THREAD");
	for (size_t i = 0; i < profile->n_threads && i < TOP_THREADS; i++) {
		const struct profile_thread *thread = profile->threads[i];

		printf("%6.1f%% %10" PRIu64 " %8d  %s\n", profile_share(profile, thread->value),
		       thread->samples, (int)thread->pid, thread->text);
	}
	if (profile->n_threads > TOP_THREADS)
		printf("  and %zu more\n", profile->n_threads - TOP_THREADS);
	for (size_t i = 0; i < profile->n_threads && i < THREADS_WITH_FUNCTIONS && !err; i++) {
		printf("\n%s\n", profile->threads[i]->text);
		err = print_functions(ctx, profile, profile->threads[i], sites,
				      FUNCTIONS_OF_THREAD);
	}
	return err;
}

/* Print the frames of a stack, innermost first; indent all but the first by INDENT. */
static void print_stack(const struct named_stack *stack, int indent)
{
	const struct profile_thread *thread = profile_stack_thread(stack);
	const size_t first = profile_stack_first(stack);
	size_t lines = 0;

	if (thread)
		printf(" %s\n%*s", thread->text, indent - 1, "");
	for (size_t i = stack->n; i-- > first && lines < STACK_LINES; lines++) {
		const struct named_frame *frame = stack->frames[i];

		printf("%*s", lines ? indent : 1, "");
		print_text(frame->function);
		if (frame->is_inlined)
			printf(" [inlined]");
		print_source(frame);
		putchar('\n');
		if (lines + 1 == STACK_LINES && i > first)
			printf("%*s... %zu more\n", indent, "", i - first);
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

/* Print the stacks in which locks of one kind were released. This folds the stacks. */
static void print_release_stacks(const struct profile *profile, struct lock_releases *lock)
{
	struct profile *by = &lock->by;

	if (!by->n)
		return;
	printf("\nSTACKS THAT RELEASED %s\n",
	       lock->kind == WAIT_MUTEX ? "A MUTEX" : "THE LOCK OF THE RUNTIME");
	profile_fold_repeats(by);
	for (size_t i = 0; i < by->n && i < TOP_RELEASE_STACKS; i++) {
		printf("%6.1f%%", profile_share(profile, by->stacks[i].value));
		print_stack(&by->stacks[i], STACK_INDENT);
	}
	if (by->n > TOP_RELEASE_STACKS)
		printf("  and %zu more\n", by->n - TOP_RELEASE_STACKS);
}

/* If LIBRARIES are folded, say so. */
static void print_folded_note(const char *libraries)
{
	if (*libraries)
		printf("functions of a library in a row are one here: %s; --unfold shows them\n",
		       libraries);
}

int profile_print_table(struct ocp_ctx *ctx, struct profile *profile,
			const struct profile_table *table)
{
	const enum profile_sites sites = table->sites;
	char folded[FOLDED_TEXT_BYTES] = "";
	int err = 0;

	if (!table->is_unfolded)
		profile_fold_libraries(profile, folded);
	print_profile_totals(profile);
	if (profile->kind == PROFILE_WAITS && profile->value)
		err = print_wait_kinds(ctx, profile);
	if (!err && profile->n_threads) {
		err = print_threads(ctx, profile, sites);
	} else if (!err && profile->n) {
		putchar('\n');
		err = print_functions(ctx, profile, NULL, sites, TOP_FUNCTIONS);
	}
	if (err)
		return err;
	print_folded_note(folded);
	if (profile->n)
		printf("\nSTACKS\n");
	profile_fold_repeats(profile);
	for (size_t i = 0; i < profile->n && i < TOP_STACKS; i++) {
		printf("%6.1f%%", profile_share(profile, profile->stacks[i].value));
		print_stack(&profile->stacks[i], STACK_INDENT);
	}
	if (profile->n > TOP_STACKS)
		printf("  and %zu more\n", profile->n - TOP_STACKS);
	for (size_t i = 0; i < N_LOCK_KINDS && profile->locks; i++)
		print_release_stacks(profile, &profile->locks[i]);
	if (profile->kind == PROFILE_CPU)
		profile_print_collector(profile);
	return 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void add_thread(struct json_object *to, const struct profile_thread *thread)
{
	json_add_int(to, "pid", thread->pid);
	json_add_int(to, "tid", thread->tid);
	json_add_string(to, "comm", thread->name);
}

static struct json_object *json_of_threads(const struct profile *profile, const char *unit)
{
	struct json_object *threads = json_object_new_array();

	for (size_t i = 0; i < profile->n_threads; i++) {
		struct json_object *object = json_object_new_object();

		add_thread(object, profile->threads[i]);
		json_add_uint(object, "samples", profile->threads[i]->samples);
		json_add_uint(object, unit, profile->threads[i]->value);
		json_object_array_add(threads, object);
	}
	return threads;
}

/* Add the indices in `frames` of the site of the stack NUMBER, and of the innermost function. */
static void add_site(struct json_object *to, const struct profile *profile, size_t number)
{
	const size_t first = profile_stack_first(&profile->stacks[number]);
	const struct profile_site site = profile_site_of(profile, number, SITES_OWN);

	json_add_uint(to, "site", site.frame - first);
	if (site.leaf != site.frame)
		json_add_uint(to, "via", site.leaf - first);
}

static struct json_object *json_of_frames(const struct named_stack *stack)
{
	struct json_object *frames = json_object_new_array();

	for (size_t i = profile_stack_first(stack); i < stack->n; i++)
		json_object_array_add(frames, json_of_frame(stack->frames[i]));
	return frames;
}

static struct json_object *json_of_stack(const struct profile *profile, size_t number,
					 const char *unit)
{
	const struct named_stack *stack = &profile->stacks[number];
	struct json_object *object = json_object_new_object();
	const struct profile_thread *thread = profile_stack_thread(stack);

	if (thread)
		add_thread(object, thread);
	json_add_uint(object, "samples", stack->samples);
	json_add_uint(object, unit, stack->value);
	if (profile->kind == PROFILE_WORDS)
		add_site(object, profile, number);
	if (profile->kind == PROFILE_WAITS)
		json_add_string(object, "wait", wait_kind_name(wait_kind_of(stack)));
	json_object_object_add(object, "frames", json_of_frames(stack));
	return object;
}

static struct json_object *json_of_losses(const struct profile *profile)
{
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "stacks_full", profile->stack_losses.full);
	json_add_uint(object, "counts_full", profile->losses.counts_full);
	json_add_uint(object, "waits_full", profile->losses.waits_full);
	if (profile->locks)
		json_add_uint(object, "releases_full", profile->losses.releases_full);
	json_add_uint(object, "collisions", profile->stack_losses.collisions);
	json_add_uint(object, "busy", profile->stack_losses.ended[WALK_BUSY]);
	json_add_uint(object, "others", profile->lost_otherwise);
	return object;
}

static struct json_object *json_of_collector(const struct profile *profile)
{
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "cpu_ns", profile->collector.all);
	json_add_uint(object, "collector_ns", profile->collector.collector);
	json_add_uint(object, "minor_ns", profile->collector.minor);
	json_add_uint(object, "major_ns", profile->collector.major);
	return object;
}

static struct json_object *json_of_waits(const struct wait_sum *sum)
{
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "samples", sum->samples);
	json_add_uint(object, "ns", sum->ns);
	return object;
}

static struct json_object *json_of_wait_kinds(const struct profile *profile)
{
	struct json_object *object = json_object_new_object();
	struct wait_sum sums[N_WAIT_KINDS];

	wait_kinds_sum(profile, sums);
	for (size_t i = 0; i < N_WAIT_KINDS; i++) {
		struct json_object *kind = json_of_waits(&sums[i]);
		const struct lock_releases *lock = find_releases(profile, (enum wait_kind)i);

		if (lock) {
			json_object_object_add(kind, "not_released", json_of_waits(&lock->open));
			json_object_object_add(kind, "by_unknown", json_of_waits(&lock->unknown));
		}
		json_object_object_add(object, wait_kind_name((enum wait_kind)i), kind);
	}
	return object;
}

void profile_json_waits(struct json_object *root, const struct profile *profile)
{
	if (profile->kind != PROFILE_WAITS)
		return;
	json_add_uint(root, "always_waiting", profile->always_waiting);
	json_add_bool(root, "lacks_idle", profile->lacks_idle);
	if (profile->knows_ready)
		json_add_uint(root, "ready_ns", profile->ready_ns);
	json_object_object_add(root, "waits", json_of_wait_kinds(profile));
}

static struct json_object *json_of_release(const struct lock_releases *lock, size_t number)
{
	const struct named_stack *stack = &lock->by.stacks[number];
	const size_t first = profile_stack_first(stack);
	const struct profile_site site = profile_site_of(&lock->by, number, SITES_OWN);
	struct json_object *object =
		json_of_waits(&(struct wait_sum){ .samples = stack->samples, .ns = stack->value });

	json_add_string(object, "wait", wait_kind_name(lock->kind));
	add_thread(object, profile_stack_thread(stack));
	json_add_uint(object, "site", site.frame - first);
	json_object_object_add(object, "frames", json_of_frames(stack));
	return object;
}

/* List who has ended waits for locks, the kinds of locks one after the other. */
static struct json_object *json_of_releases(const struct profile *profile)
{
	struct json_object *releases = json_object_new_array();

	for (size_t i = 0; i < N_LOCK_KINDS; i++)
		for (size_t j = 0; j < profile->locks[i].by.n; j++)
			json_object_array_add(releases, json_of_release(&profile->locks[i], j));
	return releases;
}

int profile_print_json(struct ocp_ctx *ctx, const struct profile *profile)
{
	struct json_object *root = json_object_new_object(), *stacks = json_object_new_array();
	const char *unit = profile->kind == PROFILE_WORDS ? "words" : "ns";

	(void)ctx;
	json_add_uint(root, "version", PROFILE_JSON_VERSION);
	json_add_string(root, "profile", profile_kind_name(profile->kind));
	if (profile_is_sampled(profile->kind))
		json_add_uint(root, "hz", profile->hz);
	if (profile->by_ptrace)
		json_add_string(root, "engine", "ptrace");
	json_add_uint(root, "duration_ns", profile->duration_ns);
	if (profile->large_ns)
		json_add_uint(root, "large_blocks_ns", profile->large_ns);
	json_add_uint(root, "processes", profile->processes);
	profile_json_waits(root, profile);
	json_add_uint(root, "samples", profile->samples);
	if (profile->by_ptrace && profile_is_sampled(profile->kind))
		json_add_uint(root, "in_calls", profile->in_calls);
	json_add_uint(root, unit, profile->value);
	if (profile_knows_collector(profile))
		json_object_object_add(root, "collector", json_of_collector(profile));
	json_add_uint(root, "truncated", profile->truncated);
	if (profile->unsure_words)
		json_add_uint(root, "unsure_words", profile->unsure_words);
	if (profile->missing_words)
		json_add_uint(root, "missing_words", profile->missing_words);
	json_add_uint(root, "lost", profile->lost);
	json_object_object_add(root, "losses", json_of_losses(profile));
	if (profile->n_threads)
		json_object_object_add(root, "threads", json_of_threads(profile, unit));
	for (size_t i = 0; i < profile->n; i++)
		json_object_array_add(stacks, json_of_stack(profile, i, unit));
	json_object_object_add(root, "stacks", stacks);
	if (profile->locks)
		json_object_object_add(root, "releases", json_of_releases(profile));
	json_print(root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	return 0;
}

/* ---- two profiles compared: tables ---------------------------------------------------------- */

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

/*
 * Print CHANGE in 12 columns: the new value minus the old one, which is scaled to the duration of
 * the new profile.
 */
static void print_change_value(const struct profile_diff *diff, const struct profile_change *change)
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

/* Return the mark of a difference that is within the sampling error. */
static char mark_of(const struct profile_diff *diff, const struct profile_change *change)
{
	return profile_diff_is_within_error(diff, change) ? '~' : ' ';
}

static void print_diff_functions(const struct profile_diff *diff)
{
	printf("\n%7s %7s %7s  %7s  %11s  %s\n", "OLD", "NEW", "DIFF", "TOTAL",
	       diff->new_profile->kind == PROFILE_WORDS ? "WORDS" : "TIME", "FUNCTION");
	for (size_t i = 0; i < diff->n_functions && i < TOP_FUNCTIONS; i++) {
		const struct profile_diff_function *function = &diff->functions[i];

		printf("%6.1f%% %6.1f%% %+7.1f%c %+7.1f%c",
		       profile_share(diff->old_profile, function->self.old_value),
		       profile_share(diff->new_profile, function->self.new_value), function->points,
		       mark_of(diff, &function->self), function->total_points,
		       mark_of(diff, &function->total));
		print_change_value(diff, &function->self);
		printf("  ");
		print_text(function->frame->function);
		if (function->frame->kind == FRAME_KERNEL)
			printf(" [kernel]");
		putchar('\n');
	}
	if (diff->n_functions > TOP_FUNCTIONS)
		printf("  and %zu more\n", diff->n_functions - TOP_FUNCTIONS);
}

/* Print the complete stacks or, if TRUNCATED, the stacks whose outer callers are missing. */
static void print_diff_stacks(const struct profile_diff *diff, bool truncated, const char *title)
{
	size_t n = 0;

	for (size_t i = 0; i < diff->n_stacks; i++) {
		const struct profile_diff_stack *stack = &diff->stacks[i];

		if (profile_stack_is_truncated(stack->stack) != truncated || n++ >= TOP_STACKS)
			continue;
		if (n == 1)
			printf("\n%s\n", title);
		printf("%6.1f%% %6.1f%% %+7.1f%c",
		       profile_share(diff->old_profile, stack->change.old_value),
		       profile_share(diff->new_profile, stack->change.new_value), stack->points,
		       mark_of(diff, &stack->change));
		print_stack(stack->stack, DIFF_INDENT);
	}
	if (n > TOP_STACKS)
		printf("  and %zu more\n", n - TOP_STACKS);
}

void profile_diff_print_table(const struct profile_diff *diff, const char *libraries)
{
	print_side("old", diff->old_profile);
	print_side("new", diff->new_profile);
	print_diff_functions(diff);
	print_folded_note(libraries);
	print_diff_stacks(diff, false, "STACKS");
	print_diff_stacks(diff, true, "STACKS THAT LACK CALLERS");
	printf(diff->old_samples > 0 && diff->new_samples > 0
		       ? "\n~ is within the sampling error, at 95%%\n"
		       : "\nthe sampling error is not known: the folded form lacks the number of "
			 "samples\n");
}

/* ---- two profiles compared: folded ---------------------------------------------------------- */

/*
 * Convert VALUE to the unit of the folded form, and multiply it by FACTOR, which scales values of
 * the old profile and is 1 for values of the new one.
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

/* ---- two profiles compared: JSON ------------------------------------------------------------ */

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
		json_add_uint(object, "hz", profile->hz);
	if (profile->duration_ns)
		json_add_uint(object, "duration_ns", profile->duration_ns);
	if (profile->large_ns)
		json_add_uint(object, "large_blocks_ns", profile->large_ns);
	json_add_uint(object, "samples", profile->samples);
	json_add_uint(object, unit_of(profile), profile->value);
	json_add_uint(object, "truncated", profile->truncated);
	json_add_uint(object, "lost", profile->lost);
	return object;
}

static struct json_object *json_of_change(const struct profile_diff *diff,
					  const struct profile_change *change, double points)
{
	const double error = profile_diff_error(diff, change);
	struct json_object *object = json_object_new_object();

	json_add_uint(object, "old", change->old_value);
	json_add_uint(object, "new", change->new_value);
	add_percentage(object, "old_percent", profile_share(diff->old_profile, change->old_value));
	add_percentage(object, "new_percent", profile_share(diff->new_profile, change->new_value));
	add_percentage(object, "points", points);
	if (isnan(error)) {
		json_object_object_add(object, "error_points", NULL);
		json_object_object_add(object, "within_error", NULL);
	} else {
		add_percentage(object, "error_points", error);
		json_add_bool(object, "within_error", profile_diff_is_within_error(diff, change));
	}
	if (diff->has_times) {
		const double value = profile_change_value(diff, change);

		json_add_int(object, "change", (int64_t)(value < 0 ? value - 0.5 : value + 0.5));
	}
	return object;
}

static struct json_object *json_of_function(const struct profile_diff *diff,
					    const struct profile_diff_function *function)
{
	struct json_object *object = json_of_frame(function->frame);
	const size_t bytes = named_frame_item_bytes(function->frame);

	/*
	 * Remove the members for the line and the inlining of the frame: these belong to one call,
	 * not to the function.
	 */
	json_object_object_del(object, "line");
	json_object_object_del(object, "inlined");
	if (bytes)
		json_object_object_add(
			object, "item",
			json_object_new_string_len(function->frame->item, (int)bytes));
	json_object_object_add(object, "self",
			       json_of_change(diff, &function->self, function->points));
	json_object_object_add(object, "total",
			       json_of_change(diff, &function->total, function->total_points));
	return object;
}

static struct json_object *json_of_diff_stack(const struct profile_diff *diff,
					      const struct profile_diff_stack *stack)
{
	struct json_object *object = json_of_change(diff, &stack->change, stack->points);
	struct json_object *frames = json_object_new_array();

	json_add_bool(object, "truncated", profile_stack_is_truncated(stack->stack));
	for (size_t i = 0; i < stack->stack->n; i++)
		json_object_array_add(frames, json_of_frame(stack->stack->frames[i]));
	json_object_object_add(object, "frames", frames);
	return object;
}

void profile_diff_print_json(const struct profile_diff *diff)
{
	struct json_object *root = json_object_new_object(), *functions = json_object_new_array(),
			   *stacks = json_object_new_array();

	json_add_uint(root, "version", PROFILE_JSON_VERSION);
	json_add_string(root, "diff", profile_kind_name(diff->new_profile->kind));
	json_object_object_add(root, "old", json_of_side(diff->old_profile));
	json_object_object_add(root, "new", json_of_side(diff->new_profile));
	for (size_t i = 0; i < diff->n_functions; i++)
		json_object_array_add(functions, json_of_function(diff, &diff->functions[i]));
	for (size_t i = 0; i < diff->n_stacks; i++)
		json_object_array_add(stacks, json_of_diff_stack(diff, &diff->stacks[i]));
	json_object_object_add(root, "functions", functions);
	json_object_object_add(root, "stacks", stacks);
	json_print(root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}
