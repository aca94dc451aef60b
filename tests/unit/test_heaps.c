// SPDX-License-Identifier: MIT
/* Following processes for profiles of their heaps: those that cannot be profiled, and too many. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memprof/heaps.h"
#include "unit.h"

static const struct heaps_mark all;
static const struct record_filter every;

/* This program is not linked with the library. */
TEST(a_program_without_the_library)
{
	const struct recorded_process process = { getpid(), "/a" };
	const struct record_filter other = { .exe = "/b" };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct process_profile *list;
	const struct watched_heap *is;
	struct heaps *heaps;
	struct heap_site *sites;
	bool more;
	size_t n;

	assert_int_equal(heaps_new(ctx, 1e-4, &heaps), 0);
	assert_int_equal(heaps_follow(heaps, &process, 1), 0);
	assert_int_equal(heaps_read(heaps, &more), 0);
	assert_false(more);
	assert_int_equal(heaps_count(heaps), 1);
	is = heaps_at(heaps, 0);
	assert_int_equal(is->state, HEAP_NONE);
	assert_int_equal(is->err, -ENODATA);
	assert_non_null(strstr(is->problem, "is not linked with ocaml-probes.memprof"));
	assert_int_equal(heaps_take(heaps, &every, &all, &list, &n), -ENODATA);
	assert_string_equal(ocp_error(ctx), is->problem);
	assert_string_equal(ocp_hint(ctx), is->hint);
	/* No process of it: an empty profile. */
	assert_int_equal(heaps_take(heaps, &other, &all, &list, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(list->profile.n, 0);
	assert_true(list->profile.is_live);
	assert_int_equal(list->profile.word_period, 10000);
	process_profiles_free(list, n);
	assert_int_equal(heaps_sites(heaps, &every, false, &sites, &n), 0);
	assert_int_equal(n, 0);
	free(sites);
	heaps_programs(heaps, &n);
	assert_int_equal(n, 0);
	assert_int_equal(heaps_follow(heaps, NULL, 0), 0);
	assert_int_equal(heaps_count(heaps), 0);
	heaps_free(heaps);
	ocp_ctx_free(ctx);
}

/* The first ones are followed; others take the places of those that end. */
TEST(too_many_processes)
{
	struct recorded_process list[HEAPS_MAX + 3];
	char names[HEAPS_MAX + 3][8];
	struct ocp_ctx *ctx = ocp_ctx_new();
	const struct record_filter none = { .exe = "/none" };
	struct process_profile *profiles;
	struct heaps *heaps;
	size_t n;

	for (size_t i = 0; i < HEAPS_MAX + 3; i++) {
		snprintf(names[i], sizeof(names[i]), "/%zu", i);
		list[i] = (struct recorded_process){ getpid(), names[i] };
	}
	assert_int_equal(heaps_new(ctx, 1e-4, &heaps), 0);
	assert_int_equal(heaps_follow(heaps, list, HEAPS_MAX + 3), 0);
	assert_int_equal(heaps_count(heaps), HEAPS_MAX);
	assert_int_equal(heaps_take(heaps, &none, &all, &profiles, &n), 0);
	assert_string_equal(profiles->profile.comments,
			    "3 more processes: not profiled; the limit is 32\n");
	process_profiles_free(profiles, n);
	assert_int_equal(heaps_follow(heaps, list + 2, HEAPS_MAX + 1), 0);
	assert_int_equal(heaps_count(heaps), HEAPS_MAX);
	for (size_t i = 0; i < HEAPS_MAX; i++)
		assert_string_not_equal(heaps_at(heaps, i)->exe, "/0");
	assert_int_equal(heaps_take(heaps, &none, &all, &profiles, &n), 0);
	assert_string_equal(profiles->profile.comments,
			    "1 more process: not profiled; the limit is 32\n");
	process_profiles_free(profiles, n);
	heaps_free(heaps);
	ocp_ctx_free(ctx);
}

static void enter(struct heap *heap, enum memprof_kind kind, uint64_t id, uint64_t frame)
{
	const struct memprof_event event = {
		.kind = kind, .id = id, .n_samples = 2, .size = 3, .stack = &frame, .depth = 1
	};
	size_t stack;

	assert_int_equal(heap_enter(heap, &event, &stack), 0);
}

/* The difference of two moments: less may be alive than before. */
TEST(a_difference)
{
	const uint64_t a = (uintptr_t)a_program_without_the_library,
		       b = (uintptr_t)too_many_processes;
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct heap_names *names;
	struct heap_mark mark;
	struct profile p;
	struct heap *heap;

	assert_int_equal(heap_names_open(ctx, getpid(), &names), 0);
	assert_int_equal(heap_new(ctx, &heap), 0);
	enter(heap, MEMPROF_ALLOC_MINOR, 1, a);
	enter(heap, MEMPROF_ALLOC_MINOR, 2, a);
	assert_int_equal(heap_mark(heap, &mark), 0);
	enter(heap, MEMPROF_DEALLOC_MINOR, 1, a);
	enter(heap, MEMPROF_ALLOC_MINOR, 3, b);
	assert_int_equal(heap_profile_since(ctx, heap, names, 0.5, &mark, &p), 0);
	assert_int_equal(p.n, 2);
	/* Two samples at this rate are four words: a block of three, and its header. */
	assert_int_equal(p.stacks[0].value, 4);
	assert_int_equal(p.stacks[0].objects, 1);
	assert_int_equal(p.stacks[0].live, 4);
	assert_int_equal(p.stacks[0].live_objects, 1);
	assert_int_equal(p.stacks[1].value, 0);
	assert_int_equal(p.stacks[1].objects, 0);
	assert_int_equal((int64_t)p.stacks[1].live, -4);
	assert_int_equal((int64_t)p.stacks[1].live_objects, -1);
	profile_free(&p);
	/* All of it. */
	assert_int_equal(heap_profile_since(ctx, heap, names, 0.5, NULL, &p), 0);
	assert_int_equal(p.value, 12);
	profile_free(&p);
	heap_mark_free(&mark);
	heap_free(heap);
	heap_names_close(names);
	ocp_ctx_free(ctx);
}
