// SPDX-License-Identifier: MIT
/* Reading another process's memory in pieces: here our own, which we know. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "look/memory_copies.h"
#include "unit.h"

enum { PAGE = 4096, PAGES = 700, HOLE = 350, PIECES = 20000, MAX_BYTES = 9 };

struct area {
	struct ocp_ctx *ctx;
	struct memory *memory;
	uint8_t *bytes; /* one page of them, HOLE, is not mapped */
};

static int set_up(void **state)
{
	static struct area area;

	area.ctx = ocp_ctx_new();
	assert_int_equal(memory_open(area.ctx, getpid(), &area.memory), 0);
	area.bytes = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	assert_true(area.bytes != MAP_FAILED);
	srandom(1);
	for (size_t i = 0; i < PAGES * PAGE; i++)
		area.bytes[i] = (uint8_t)random();
	assert_int_equal(munmap(area.bytes + HOLE * PAGE, PAGE), 0);
	*state = &area;
	return 0;
}

static int tear_down(void **state)
{
	struct area *area = *state;

	munmap(area->bytes, HOLE * PAGE);
	munmap(area->bytes + (HOLE + 1) * PAGE, (PAGES - HOLE - 1) * PAGE);
	memory_close(area->memory);
	ocp_ctx_free(area->ctx);
	return 0;
}

EACH_TEST(set_up, tear_down);

/* Offsets of pieces; some overlap, some are astride pages, none touches the hole. */
static size_t random_off(size_t bytes)
{
	size_t off;

	do
		off = (size_t)random() % (PAGES * PAGE - bytes);
	while (off + bytes > HOLE * PAGE && off < (HOLE + 1) * PAGE);
	return off;
}

TEST(pieces_come_in_the_order_asked_for)
{
	static uint8_t expected[PIECES * MAX_BYTES], got[PIECES * MAX_BYTES];
	static struct memory_piece pieces[PIECES];
	struct area *area = *state;
	size_t at = 0;

	for (size_t i = 0; i < PIECES; i++) {
		size_t bytes = 1 + (size_t)random() % MAX_BYTES, off = random_off(bytes);

		/* Where the hole begins and ends, exactly. */
		if (i == PIECES / 2)
			off = HOLE * PAGE - bytes;
		else if (i == PIECES / 2 + 1)
			off = (HOLE + 1) * PAGE;
		pieces[i] = (struct memory_piece){
			.addr = (uintptr_t)area->bytes + off,
			.bytes = (uint16_t)bytes,
		};
		memcpy(expected + at, area->bytes + off, bytes);
		at += bytes;
	}
	assert_int_equal(memory_read(area->memory, pieces, PIECES, got), 0);
	assert_memory_equal(got, expected, at);
}

TEST(nothing_is_read_where_nothing_is_asked_for)
{
	struct area *area = *state;

	assert_int_equal(memory_read(area->memory, NULL, 0, NULL), 0);
}

TEST(a_piece_that_is_not_there_is_named)
{
	struct area *area = *state;
	uintptr_t missing = (uintptr_t)area->bytes + (HOLE + 1) * PAGE - 2;
	struct memory_piece pieces[] = {
		{ .addr = missing + 10, .bytes = 4 },
		{ .addr = missing, .bytes = 4 },
		{ .addr = missing - PAGE - 10, .bytes = 4 },
	};
	uint8_t got[12];
	char text[32];

	snprintf(text, sizeof(text), "at 0x%lx", (unsigned long)missing);
	assert_int_equal(memory_read(area->memory, pieces, 3, got), -EFAULT);
	assert_non_null(strstr(ocp_error(area->ctx), text));
}

TEST(a_piece_at_the_end_of_the_addresses)
{
	struct area *area = *state;
	struct memory_piece pieces[] = {
		{ .addr = (uintptr_t)area->bytes, .bytes = 4 },
		{ .addr = UINT64_MAX - 1, .bytes = 2 },
	};
	uint8_t got[6];

	assert_int_equal(memory_read(area->memory, pieces, 2, got), -EFAULT);
}

/*
 * Each piece goes where the caller wants it, and is what the memory has at the time of the reading.
 */
TEST(a_plan_reads_again)
{
	static uint8_t expected[PIECES * MAX_BYTES], got[PIECES * MAX_BYTES];
	struct memory_piece *pieces = calloc(PIECES, sizeof(*pieces));
	struct area *area = *state;
	struct memory_plan *plan;
	uint64_t last = 0;

	for (size_t i = 0; i < PIECES; i++) {
		const size_t bytes = 1 + (size_t)random() % MAX_BYTES;

		pieces[i] = (struct memory_piece){
			.addr = (uintptr_t)area->bytes + random_off(bytes),
			.bytes = (uint16_t)bytes,
			.to = (uint32_t)((PIECES - 1 - i) * MAX_BYTES),
		};
	}
	assert_int_equal(memory_plan_make(area->memory, pieces, PIECES, &plan), 0);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < PIECES; i++) {
			const struct memory_piece *piece = &memory_plan_pieces(plan)[i];

			assert_true(piece->addr >= last);
			last = piece->addr;
			memcpy(expected + piece->to, (const void *)(uintptr_t)piece->addr,
			       piece->bytes);
		}
		last = 0;
		assert_int_equal(memory_plan_read(area->memory, plan, got), 0);
		assert_memory_equal(got, expected, sizeof(got));
		for (size_t i = 0; i < HOLE * PAGE; i++)
			area->bytes[i] ^= 0xff;
	}
	memory_plan_free(plan);
}

TEST(a_plan_of_what_is_not_there)
{
	struct area *area = *state;
	struct memory_piece *pieces = calloc(2, sizeof(*pieces));
	struct memory_plan *plan;
	uint8_t got[4];

	pieces[0] = (struct memory_piece){ .addr = UINT64_MAX - 1, .bytes = 2 };
	assert_int_equal(memory_plan_make(area->memory, pieces, 1, &plan), -EFAULT);
	assert_null(plan);
	pieces = calloc(1, sizeof(*pieces));
	pieces[0] =
		(struct memory_piece){ .addr = (uintptr_t)area->bytes + HOLE * PAGE, .bytes = 4 };
	assert_int_equal(memory_plan_make(area->memory, pieces, 1, &plan), 0);
	assert_int_equal(memory_plan_read(area->memory, plan, got), -EFAULT);
	memory_plan_free(plan);
	assert_int_equal(memory_plan_make(area->memory, NULL, 0, &plan), 0);
	assert_int_equal(memory_plan_read(area->memory, plan, NULL), 0);
	memory_plan_free(plan);
}

/* Copies keep what was there when they were made; what they lack is read at once. */
TEST(copies_are_found_by_their_address)
{
	struct area *area = *state;
	struct memory_piece *pieces = calloc(PIECES, sizeof(*pieces));
	struct memory_copies copies;
	uint64_t addrs[PIECES];
	uint8_t found[MAX_BYTES + 1];

	assert_non_null(pieces);
	for (size_t i = 0; i < PIECES; i++) {
		addrs[i] = (uint64_t)(uintptr_t)(area->bytes + random_off(MAX_BYTES));
		pieces[i] = (struct memory_piece){ .addr = addrs[i], .bytes = MAX_BYTES };
	}
	assert_int_equal(memory_copies_read(area->ctx, area->memory, pieces, PIECES, &copies), 0);
	for (size_t i = 0; i < PIECES; i++) {
		uint8_t *there = (uint8_t *)(uintptr_t)addrs[i];
		const uint8_t before = *there;

		*there = (uint8_t)~before;
		assert_true(memory_copies_get(area->memory, &copies, addrs[i], found, MAX_BYTES));
		assert_int_equal(found[0], before);
		assert_memory_equal(found + 1, there + 1, MAX_BYTES - 1);
		/* There is no copy of this size. */
		assert_true(
			memory_copies_get(area->memory, &copies, addrs[i], found, MAX_BYTES - 1));
		assert_int_equal(found[0], (uint8_t)~before);
		*there = before;
	}
	memory_copies_free(&copies);
	assert_true(memory_copies_get(area->memory, &copies, addrs[0], found, MAX_BYTES));
	assert_false(memory_copies_get(area->memory, &copies,
				       (uint64_t)(uintptr_t)(area->bytes + HOLE * PAGE), found, 1));
}

TEST(copies_of_what_is_not_there)
{
	struct area *area = *state;
	struct memory_piece *pieces = calloc(1, sizeof(*pieces));
	struct memory_copies copies;

	assert_non_null(pieces);
	*pieces = (struct memory_piece){ .addr = (uint64_t)(uintptr_t)(area->bytes + HOLE * PAGE),
					 .bytes = 1 };
	assert_int_equal(memory_copies_read(area->ctx, area->memory, pieces, 1, &copies), -EFAULT);
	assert_true(!copies.n && !copies.plan && !copies.bytes);
}
