// SPDX-License-Identifier: MIT
/*
 * The reader of the ring that a program writes: whole records, the end of the circle, and damage.
 */
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
	ring_reader_fini(&reader);
	free(ring);
	return 0;
}

EACH_TEST(new_ring, free_ring);

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

enum { FIRST = MEMPROF_HAS_CONTEXT | MEMPROF_HAS_TIME };

/* The first words of a record with FLAGS. Returns the place behind its context and time. */
static uint64_t *begin(uint64_t *at, uint64_t id, unsigned int flags)
{
	at[1] = id;
	at += MEMPROF_LEAST_WORDS;
	if (flags & MEMPROF_HAS_CONTEXT) {
		at[0] = 7 | (uint64_t)8 << 32;
		at[1] = 3;
		at += MEMPROF_CONTEXT_WORDS;
	}
	if (flags & MEMPROF_HAS_TIME)
		*at++ = 5;
	return at;
}

static unsigned int words_of(unsigned int flags, unsigned int fresh)
{
	return MEMPROF_ALLOC_WORDS + (flags & MEMPROF_HAS_CONTEXT ? MEMPROF_CONTEXT_WORDS : 0) +
	       fresh;
}

/*
 * KEPT frames of the writer's last allocation, and FRESH ones before them: FRAME and the next
 * numbers.
 */
static void write_stack(unsigned int writer, unsigned int kept, unsigned int fresh, uint64_t frame)
{
	uint64_t *const record = take(words_of(FIRST, fresh)), *at = begin(record, 1, FIRST);

	at[0] = 1;
	at[1] = 10;
	for (unsigned int i = 0; i < fresh; i++)
		at[2 + i] = frame + i;
	*record = memprof_pack((struct memprof_head){ MEMPROF_ALLOC_MINOR, FIRST,
						      words_of(FIRST, fresh), writer, kept });
}

static void write_allocation_of(uint64_t source, uint64_t id, uint32_t depth)
{
	uint64_t *const record = take(words_of(FIRST, depth)), *at = begin(record, id, FIRST);

	at[0] = 2;
	at[1] = 10 | source << MEMPROF_SOURCE_SHIFT;
	for (uint32_t i = 0; i < depth; i++)
		at[2 + i] = 1000 + i;
	*record = memprof_pack(
		(struct memprof_head){ MEMPROF_ALLOC_MAJOR, FIRST, words_of(FIRST, depth), 0, 0 });
}

static void write_allocation(uint64_t id, uint32_t depth)
{
	write_allocation_of(MEMPROF_MARSHAL, id, depth);
}

static void assert_context(const struct memprof_event *event)
{
	assert_int_equal(event->domain, 3);
	assert_int_equal(event->minors, 7);
	assert_int_equal(event->majors, 8);
	assert_int_equal(event->time_ns, 5);
}

TEST(records_are_read)
{
	struct memprof_event event;
	uint64_t *at;

	assert_false(ring_reader_next(&reader, &event));
	write_allocation(42, 3);
	assert_true(ring_reader_next(&reader, &event));
	assert_int_equal(event.kind, MEMPROF_ALLOC_MAJOR);
	assert_int_equal(event.id, 42);
	assert_context(&event);
	assert_int_equal(event.n_samples, 2);
	assert_int_equal(event.size, 10);
	assert_int_equal(event.source, MEMPROF_MARSHAL);
	assert_int_equal(event.depth, 3);
	assert_int_equal(event.stack[2], 1002);
	assert_false(ring_reader_next(&reader, &event));
	assert_int_equal(ring->tail, ring->head);
	/* OCaml 5.4's source of mapped files, and sources that only a later OCaml can have. */
	for (uint64_t source = MEMPROF_MAP_FILE; source <= 0xff; source += 7) {
		write_allocation_of(source, 42, 0);
		assert_true(ring_reader_next(&reader, &event));
		assert_int_equal(event.source, source);
	}
	/* One that is not written yet, before one that is. */
	at = take(MEMPROF_LEAST_WORDS);
	write_allocation(43, 0);
	assert_false(ring_reader_next(&reader, &event));
	assert_true(ring_reader_has_rest(&reader));
	begin(at, 42, 0);
	*at = memprof_pack((struct memprof_head){ MEMPROF_PROMOTE, 0, MEMPROF_LEAST_WORDS, 0, 0 });
	assert_true(ring_reader_next(&reader, &event));
	assert_int_equal(event.kind, MEMPROF_PROMOTE);
	assert_int_equal(event.id, 42);
	assert_context(&event);
	assert_true(ring_reader_next(&reader, &event));
	assert_int_equal(event.id, 43);
	assert_false(reader.is_damaged);
}

static void assert_stack(const struct memprof_event *event, const uint64_t *frames, uint32_t depth)
{
	assert_int_equal(event->depth, depth);
	for (uint32_t i = 0; i < depth; i++)
		assert_int_equal(event->stack[i], frames[i]);
}

/* What a record leaves out is that of the last one of the same writer. */
TEST(differences_are_added)
{
	struct memprof_event event;

	write_stack(0, 0, 4, 10); /* 10 11 12 13 */
	write_stack(7, 0, 2, 50); /* 50 51 */
	write_stack(0, 3, 2, 20); /* 20 21 11 12 13 */
	write_stack(7, 2, 0, 0);  /* the same */
	write_stack(7, 1, 0, 0);  /* 51 */
	write_stack(0, 1, 3, 30); /* 30 31 32 13 */
	assert_true(ring_reader_next(&reader, &event));
	assert_stack(&event, (uint64_t[]){ 10, 11, 12, 13 }, 4);
	assert_true(ring_reader_next(&reader, &event));
	assert_stack(&event, (uint64_t[]){ 50, 51 }, 2);
	assert_true(ring_reader_next(&reader, &event));
	assert_stack(&event, (uint64_t[]){ 20, 21, 11, 12, 13 }, 5);
	assert_true(ring_reader_next(&reader, &event));
	assert_stack(&event, (uint64_t[]){ 50, 51 }, 2);
	assert_true(ring_reader_next(&reader, &event));
	assert_stack(&event, (uint64_t[]){ 51 }, 1);
	assert_true(ring_reader_next(&reader, &event));
	assert_stack(&event, (uint64_t[]){ 30, 31, 32, 13 }, 4);
	assert_false(ring_reader_next(&reader, &event));
	assert_false(reader.is_damaged);
}

/* Ten ticks a nanosecond; a look takes 1000 of them. */
static struct tick_moment look(void)
{
	static uint64_t ticks;

	ticks += 1000;
	return (struct tick_moment){ .ticks = ticks, .ns = (int64_t)ticks / 10 };
}

static void write_promotion(unsigned int writer, uint64_t time)
{
	enum { WORDS = MEMPROF_LEAST_WORDS + MEMPROF_CONTEXT_WORDS + 1 };
	uint64_t *const record = take(WORDS);

	begin(record, 1, FIRST)[-1] = time;
	*record = memprof_pack((struct memprof_head){ MEMPROF_PROMOTE, FIRST, WORDS, writer, 0 });
}

/* Ticks become nanoseconds. The times of a writer never go back; each writer has its own. */
TEST(ticks_are_converted)
{
	static const uint64_t ticks[] = { 1500, 1700, 1600, 1400, 1800, 2100 },
			      ns[] = { 150, 170, 160, 170, 180, 210 };
	static const unsigned int writers[] = { 0, 0, 1, 0, 1, 0 };
	struct memprof_event event;

	ring_reader_use_ticks(&reader, look);
	for (int i = 0; i < 6; i++)
		write_promotion(writers[i], ticks[i]);
	for (int i = 0; i < 6; i++) {
		assert_true(ring_reader_next(&reader, &event));
		assert_int_equal(event.time_ns, ns[i]);
	}
	/*
	 * Who has read all looks at the clocks: a time before that is not the time of the next
	 * look.
	 */
	assert_int_equal(reader.clock.last.ticks, 3000);
	assert_false(ring_reader_next(&reader, &event));
	assert_int_equal(reader.clock.last.ticks, 4000);
}

/* Many times around, with padding at the end of the circle. */
TEST(the_circle_is_closed)
{
	struct memprof_event event;

	for (uint64_t id = 1; id < 10000; id++) {
		const uint32_t depth = (uint32_t)(id % 50);
		const uint64_t left = (DATA - ring->head % DATA) / 8;

		if (left < words_of(FIRST, depth))
			*take(left) = memprof_pack((struct memprof_head){
				.kind = MEMPROF_PADDING, .words = (unsigned int)left });
		write_allocation(id, depth);
		assert_true(ring_reader_next(&reader, &event));
		assert_int_equal(event.id, id);
		assert_int_equal(event.depth, depth);
	}
}

static void empty_ring(void)
{
	memset(ring, 0, MEMPROF_RING_BYTES + DATA);
	ring_reader_fini(&reader);
	ring_reader_init(&reader, ring, DATA);
}

/* HEAD stands where a record of WORDS should, in a ring that is otherwise sound. */
static void assert_damaged(struct memprof_head head, uint64_t words)
{
	struct memprof_event event;

	empty_ring();
	*take(words) = memprof_pack(head);
	assert_false(ring_reader_next(&reader, &event));
	assert_true(reader.is_damaged);
	assert_false(ring_reader_next(&reader, &event));
}

TEST(damage_is_seen)
{
	enum { ALLOC = MEMPROF_ALLOC_MINOR, LEAST = MEMPROF_LEAST_WORDS };
	const unsigned int change = LEAST + MEMPROF_CONTEXT_WORDS + 1,
			   alloc = MEMPROF_ALLOC_WORDS + MEMPROF_CONTEXT_WORDS;
	struct memprof_event event;

	assert_damaged((struct memprof_head){ MEMPROF_KINDS, FIRST, 10, 0, 0 }, 10);
	assert_damaged((struct memprof_head){ MEMPROF_PROMOTE, FIRST, 0, 0, 0 }, 10);
	assert_damaged((struct memprof_head){ MEMPROF_PROMOTE, FIRST, change + 1, 0, 0 }, 20);
	assert_damaged((struct memprof_head){ MEMPROF_PROMOTE, FIRST, change, 0, 0 }, change - 1);
	assert_damaged((struct memprof_head){ MEMPROF_PROMOTE, FIRST, change, 4096, 0 }, change);
	assert_damaged((struct memprof_head){ ALLOC, FIRST, alloc - 1, 0, 0 }, 20);
	assert_damaged((struct memprof_head){ ALLOC, FIRST, alloc + 1025, 0, 0 }, 4000);
	/*
	 * The first record of a writer lacks something; no samples; more words than the ring has.
	 */
	assert_damaged((struct memprof_head){ MEMPROF_PROMOTE, 0, LEAST, 0, 0 }, LEAST);
	assert_damaged((struct memprof_head){ ALLOC, MEMPROF_HAS_TIME, 5, 0, 0 }, 5);
	assert_damaged((struct memprof_head){ ALLOC, FIRST, alloc, 0, 0 }, alloc);
	assert_damaged((struct memprof_head){ .kind = MEMPROF_PADDING, .words = 4 }, 4);
	assert_damaged((struct memprof_head){ MEMPROF_PROMOTE, FIRST, change, 0, 0 }, DATA / 8 + 1);
	/* Frames that the last call stack does not have, and too many of them. */
	for (unsigned int kept = 3; kept <= 1023; kept += 1020) {
		empty_ring();
		write_stack(0, 0, kept - 1, 10);
		write_stack(0, kept - (kept > 3), 2 + (kept > 3), 10);
		assert_true(ring_reader_next(&reader, &event));
		assert_false(ring_reader_next(&reader, &event));
		assert_true(reader.is_damaged);
	}
}

/* Whatever stands there, it is read within its bounds: the sanitizers would tell. */
TEST(noise_is_harmless)
{
	uint64_t random = 88172645463325252;

	for (int round = 0; round < 300; round++) {
		struct memprof_event event;

		empty_ring();
		for (int i = 0; i < DATA / 8; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			/* Often something like a record. */
			word_at(8 * (uint64_t)i)[0] =
				random % 3 ? memprof_pack((struct memprof_head){
						     random >> 8 & 7, random >> 12 & 3,
						     random >> 16 & 63, random >> 24 & 1,
						     random >> 32 & 15 })
					   : random;
		}
		ring->head = round % 2 ? DATA : random;
		for (int i = 0; i < DATA / 8 && ring_reader_next(&reader, &event); i++)
			for (uint32_t j = 0; j < event.depth; j++)
				random += event.stack[j];
		assert_in_range(reader.tail, 0, DATA);
	}
}
