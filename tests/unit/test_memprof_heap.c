// SPDX-License-Identifier: MIT
/* The books of blocks: against a table without any structure. */
#include <stdlib.h>
#include <string.h>

#include "memprof/heap.h"
#include "unit.h"

enum { BLOCKS = 20000, STACKS = 600 };

struct known {
	uint64_t samples;
	size_t stack;
	bool is_alive, is_major;
};

static uint64_t state_of_random = 1;

static uint64_t any(uint64_t below)
{
	state_of_random = state_of_random * 6364136223846793005 + 1442695040888963407;
	return (state_of_random >> 33) % below;
}

static struct memprof_event allocation(uint64_t id, const uint64_t *frames, uint32_t depth)
{
	return (struct memprof_event){ .kind = MEMPROF_ALLOC_MINOR,
				       .id = id,
				       .n_samples = 1 + any(3),
				       .size = 9,
				       .stack = frames,
				       .depth = depth,
				       .majors = 100 };
}

TEST(books_are_kept)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct known *known = calloc(BLOCKS + 1, sizeof(*known));
	uint64_t live[STACKS] = { 0 }, all[STACKS] = { 0 };
	const struct heap_stack *stacks;
	struct heap *heap;
	size_t n, stack;

	assert_int_equal(heap_new(ctx, &heap), 0);
	for (uint64_t id = 1; id <= BLOCKS; id++) {
		const uint64_t frames[] = { any(STACKS), 7, 8 };
		const struct memprof_event event = allocation(id, frames, 3);
		const uint64_t dying = 1 + any(id);

		assert_int_equal(heap_enter(heap, &event, &stack), 0);
		assert_int_equal(heap_block_number(heap), id - 1);
		known[id] = (struct known){ event.n_samples, (size_t)frames[0], true, false };
		live[frames[0]] += event.n_samples;
		all[frames[0]] += event.n_samples;
		if (known[dying].is_alive && any(4)) {
			const struct memprof_event death = { .kind = MEMPROF_DEALLOC_MINOR,
							     .id = dying };

			assert_int_equal(heap_enter(heap, &death, &stack), 0);
			assert_int_equal(heap_block_number(heap), dying - 1);
			known[dying].is_alive = false;
			live[known[dying].stack] -= known[dying].samples;
		}
	}
	stacks = heap_stacks(heap, &n);
	assert_int_equal(n, STACKS);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(stacks[i].samples, all[stacks[i].frames[0]]);
		assert_int_equal(stacks[i].live_samples, live[stacks[i].frames[0]]);
		assert_int_equal(stacks[i].minor_deaths,
				 stacks[i].samples - stacks[i].live_samples);
	}
	assert_int_equal(heap_totals(heap).live_minor_samples, heap_totals(heap).live_samples);
	assert_int_equal(heap_totals(heap).unknown, 0);
	heap_free(heap);
	free(known);
	ocp_ctx_free(ctx);
}

TEST(lives_are_classed)
{
	static const unsigned int majors[] = { 0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 100000 };
	static const uint64_t expected[LIFE_CLASSES] = { 1, 1, 1, 2, 2, 2, 2, 2 };
	struct ocp_ctx *ctx = ocp_ctx_new();
	const uint64_t frames[] = { 1 };
	struct heap *heap;
	size_t n, stack;

	assert_int_equal(heap_new(ctx, &heap), 0);
	for (size_t i = 0; i < sizeof(majors) / sizeof(*majors); i++) {
		struct memprof_event event = allocation(i + 1, frames, 1);

		event.kind = MEMPROF_ALLOC_MAJOR;
		event.n_samples = 1;
		assert_int_equal(heap_enter(heap, &event, &stack), 0);
		assert_int_equal(heap_totals(heap).live_samples, 1);
		assert_int_equal(heap_totals(heap).live_minor_samples, 0);
		event = (struct memprof_event){ .kind = MEMPROF_DEALLOC_MAJOR,
						.id = i + 1,
						.majors = 100 + majors[i] };
		assert_int_equal(heap_enter(heap, &event, &stack), 0);
	}
	assert_memory_equal(heap_stacks(heap, &n)->major_deaths, expected, sizeof(expected));
	heap_free(heap);
	ocp_ctx_free(ctx);
}

/* Numbers that a damaged program might send. */
TEST(unknown_blocks_are_counted)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const uint64_t frames[] = { 1 };
	struct memprof_event event = allocation(5, frames, 1);
	struct heap *heap;
	size_t stack;

	assert_int_equal(heap_new(ctx, &heap), 0);
	assert_int_equal(heap_enter(heap, &event, &stack), 0);
	assert_int_equal(heap_block_number(heap), 0);
	assert_true(heap_totals(heap).live_minor_samples > 0);
	assert_int_equal(heap_enter(heap, &event, &stack), 0); /* twice */
	assert_true(heap_block_number(heap) == UINT64_MAX);
	event.id = 0;
	assert_int_equal(heap_enter(heap, &event, &stack), 0);
	event = (struct memprof_event){ .kind = MEMPROF_DEALLOC_MAJOR, .id = 6 };
	assert_int_equal(heap_enter(heap, &event, &stack), 0);
	assert_int_equal(stack, SIZE_MAX);
	assert_true(heap_block_number(heap) == UINT64_MAX);
	event = (struct memprof_event){ .kind = MEMPROF_PROMOTE, .id = 5 };
	assert_int_equal(heap_enter(heap, &event, &stack), 0);
	assert_int_equal(heap_block_number(heap), 0);
	assert_int_equal(heap_enter(heap, &event, &stack), 0); /* twice */
	assert_true(heap_block_number(heap) == UINT64_MAX);
	assert_int_equal(heap_totals(heap).unknown, 3);
	assert_int_equal(heap_totals(heap).live_blocks, 1);
	assert_int_equal(heap_totals(heap).live_minor_samples, 0); /* promoted */
	heap_free(heap);
	ocp_ctx_free(ctx);
}

/* What is above the limits is counted; the words are in the sums. */
TEST(limits_are_kept)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	uint64_t samples = 0, sum = 0;
	const struct heap_stack *stacks;
	struct heap_totals totals;
	struct heap *heap;
	size_t n, stack;

	assert_int_equal(heap_new(ctx, &heap), 0);
	heap_limit(heap, 100, 10, SIZE_MAX);
	for (uint64_t id = 1; id <= 300; id++) {
		const uint64_t frames[] = { id % 20, 7 };
		const struct memprof_event event = allocation(id, frames, 2);

		assert_int_equal(heap_enter(heap, &event, &stack), 0);
		samples += event.n_samples;
	}
	totals = heap_totals(heap);
	stacks = heap_stacks(heap, &n);
	assert_int_equal(n, 10);
	for (size_t i = 0; i < n; i++)
		sum += stacks[i].samples;
	assert_int_equal(stacks[9].depth, 0);
	assert_int_equal(sum, samples);
	assert_int_equal(totals.samples, samples);
	assert_int_equal(totals.live_blocks, 100);
	assert_int_equal(totals.left_out, 200);
	assert_int_equal(totals.other_stacks, 15 * 11);
	heap_free(heap);
	ocp_ctx_free(ctx);
}

TEST(a_mark_stays)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const uint64_t frames[] = { 1 };
	struct memprof_event event = allocation(1, frames, 1);
	const uint64_t before = event.n_samples;
	struct heap_mark mark;
	struct heap *heap;
	size_t stack;

	assert_int_equal(heap_new(ctx, &heap), 0);
	assert_int_equal(heap_mark(heap, &mark), 0);
	assert_int_equal(mark.n, 0);
	heap_mark_free(&mark);
	assert_int_equal(heap_enter(heap, &event, &stack), 0);
	assert_int_equal(heap_mark(heap, &mark), 0);
	event.id = 2;
	assert_int_equal(heap_enter(heap, &event, &stack), 0);
	assert_int_equal(mark.n, 1);
	assert_int_equal(mark.stacks[0].samples, before);
	assert_int_equal(mark.stacks[0].live_blocks, 1);
	heap_mark_free(&mark);
	heap_free(heap);
	ocp_ctx_free(ctx);
}
