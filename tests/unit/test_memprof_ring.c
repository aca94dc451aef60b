// SPDX-License-Identifier: MIT
/* The reader of the ring that a program writes: whole records, the end of the circle, and damage. */
#include <stdlib.h>
#include <string.h>

#include "memprof/ring_reader.h"
#include "unit.h"

enum { DATA = MEMPROF_MIN_DATA };

static struct ring_reader reader;
static struct memprof_ring *ring;

static int new_ring(void **state)
{
	(void)state;
	ring = aligned_alloc(64, MEMPROF_RING_BYTES + DATA);
	assert_non_null(ring);
	memset(ring, 0, MEMPROF_RING_BYTES + DATA);
	ring_reader_init(&reader, ring, DATA);
	return 0;
}

static int free_ring(void **state)
{
	(void)state;
	free(ring);
	return 0;
}

static uint64_t *word_at(uint64_t offset)
{
	return (uint64_t *)((char *)ring + MEMPROF_RING_BYTES + offset % DATA);
}

/* Move HEAD on by WORDS, as a writer does. Returns their place. */
static uint64_t *take(uint64_t words)
{
	uint64_t *at = word_at(ring->head);

	ring->head += 8 * words;
	return at;
}

static void write_allocation(uint64_t id, uint32_t depth)
{
	uint64_t *at = take(MEMPROF_STACK + depth);

	at[MEMPROF_TIME] = 5;
	at[MEMPROF_ID] = id;
	at[MEMPROF_COLLECTIONS] = 7 | (uint64_t)8 << 32;
	at[MEMPROF_SAMPLES] = 2;
	at[MEMPROF_SIZE] = 10;
	at[MEMPROF_SOURCE] = MEMPROF_MARSHAL | depth << 8;
	for (uint32_t i = 0; i < depth; i++)
		at[MEMPROF_STACK + i] = 1000 + i;
	at[MEMPROF_HEAD] = memprof_head(MEMPROF_ALLOC_MAJOR, MEMPROF_STACK + depth, 3);
}

static void records_are_read(void **state)
{
	struct memprof_event event;
	uint64_t *at;

	(void)state;
	assert_false(ring_reader_next(&reader, &event));
	write_allocation(42, 3);
	assert_true(ring_reader_next(&reader, &event));
	assert_int_equal(event.kind, MEMPROF_ALLOC_MAJOR);
	assert_int_equal(event.domain, 3);
	assert_int_equal(event.id, 42);
	assert_int_equal(event.minors, 7);
	assert_int_equal(event.majors, 8);
	assert_int_equal(event.n_samples, 2);
	assert_int_equal(event.size, 10);
	assert_int_equal(event.source, MEMPROF_MARSHAL);
	assert_int_equal(event.depth, 3);
	assert_int_equal(event.stack[2], 1002);
	assert_false(ring_reader_next(&reader, &event));
	assert_int_equal(ring->tail, ring->head);
	/* One that is not written yet, before one that is. */
	at = take(MEMPROF_WORDS);
	write_allocation(43, 0);
	assert_false(ring_reader_next(&reader, &event));
	assert_true(ring_reader_has_rest(&reader));
	at[MEMPROF_ID] = 42;
	at[MEMPROF_HEAD] = memprof_head(MEMPROF_PROMOTE, MEMPROF_WORDS, 0);
	assert_true(ring_reader_next(&reader, &event));
	assert_int_equal(event.kind, MEMPROF_PROMOTE);
	assert_true(ring_reader_next(&reader, &event));
	assert_int_equal(event.id, 43);
	assert_false(reader.is_damaged);
}

/* Many times around, with padding at the end of the circle. */
static void the_circle_is_closed(void **state)
{
	struct memprof_event event;

	(void)state;
	for (uint64_t id = 1; id < 10000; id++) {
		const uint32_t depth = (uint32_t)(id % 50);
		const uint64_t left = (DATA - ring->head % DATA) / 8;

		if (left < MEMPROF_STACK + depth)
			*take(left) = memprof_head(MEMPROF_PADDING, left, 0);
		write_allocation(id, depth);
		assert_true(ring_reader_next(&reader, &event));
		assert_int_equal(event.id, id);
		assert_int_equal(event.depth, depth);
	}
}

/* HEAD stands where a record should, in a ring that is otherwise sound. */
static void assert_damaged(uint64_t head, uint64_t words)
{
	struct memprof_event event;

	memset(ring, 0, MEMPROF_RING_BYTES + DATA);
	ring_reader_init(&reader, ring, DATA);
	*take(words) = head;
	assert_false(ring_reader_next(&reader, &event));
	assert_true(reader.is_damaged);
	assert_false(ring_reader_next(&reader, &event));
}

static void damage_is_seen(void **state)
{
	struct memprof_event event;

	(void)state;
	assert_damaged(memprof_head(MEMPROF_KINDS, 10, 0), 10);
	assert_damaged(memprof_head(MEMPROF_PROMOTE, 0, 0), 10);
	assert_damaged(memprof_head(MEMPROF_PROMOTE, MEMPROF_WORDS + 1, 0), 20);
	assert_damaged(memprof_head(MEMPROF_PROMOTE, MEMPROF_WORDS, 0), MEMPROF_WORDS - 1);
	assert_damaged(memprof_head(MEMPROF_ALLOC_MINOR, MEMPROF_STACK - 1, 0), 20);
	assert_damaged(memprof_head(MEMPROF_ALLOC_MINOR, MEMPROF_STACK + MEMPROF_MAX_DEPTH + 1, 0),
		       4000);
	/* No samples; and more words than the ring has. */
	assert_damaged(memprof_head(MEMPROF_ALLOC_MINOR, MEMPROF_STACK, 0), MEMPROF_STACK);
	assert_damaged(memprof_head(MEMPROF_PADDING, 4, 0), 4);
	assert_damaged(memprof_head(MEMPROF_PROMOTE, MEMPROF_WORDS, 0), DATA / 8 + 1);
	/* A depth that the record does not have. */
	memset(ring, 0, MEMPROF_RING_BYTES + DATA);
	ring_reader_init(&reader, ring, DATA);
	write_allocation(1, 2);
	word_at(0)[MEMPROF_SOURCE] = (uint64_t)MEMPROF_MAX_DEPTH << 8;
	assert_false(ring_reader_next(&reader, &event));
	assert_true(reader.is_damaged);
}

/* Whatever stands there, it is read within its bounds: the sanitizers would tell. */
static void noise_is_harmless(void **state)
{
	uint64_t random = 88172645463325252;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct memprof_event event;

		memset(ring, 0, MEMPROF_RING_BYTES + DATA);
		ring_reader_init(&reader, ring, DATA);
		for (int i = 0; i < DATA / 8; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			/* Often something like a record. */
			word_at(8 * (uint64_t)i)[0] =
				random % 3 ? memprof_head(random >> 8 & 7, (random >> 16) & 63, 0)
					   : random;
		}
		ring->head = round % 2 ? DATA : random;
		for (int i = 0; i < DATA / 8 && ring_reader_next(&reader, &event); i++)
			for (uint32_t j = 0; j < event.depth; j++)
				random += event.stack[j];
		assert_in_range(reader.tail, 0, DATA);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_are_read, new_ring, free_ring),
		cmocka_unit_test_setup_teardown(the_circle_is_closed, new_ring, free_ring),
		cmocka_unit_test_setup_teardown(damage_is_seen, new_ring, free_ring),
		cmocka_unit_test_setup_teardown(noise_is_harmless, new_ring, free_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
