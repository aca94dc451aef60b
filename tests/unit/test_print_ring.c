// SPDX-License-Identifier: MIT
/*
 * The reader of hits to be printed, on a ring buffer of our own, which is filled as the kernel does
 * it: a place first, then the time, then the record is finished; with any interruption in between.
 */
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "measure/engine/engine_bpf.h"
#include "measure_slower.h"
#include "unit.h"

enum {
	RING_BYTES = 16 << 20,
	RECORD_BYTES = BPF_RINGBUF_HDR_SZ + sizeof(struct hit_record),
	N_WRITERS = 12,
	N_RECORDS = RING_BYTES / 2 / RECORD_BYTES,
};

struct place {
	uint32_t header, offset;
	struct hit_record record;
};

struct ring {
	struct print_ring *reader;
	char *memory;
	unsigned long *producer;
	size_t page;
	uint64_t last_ns;
	size_t n_taken, n_disordered;
	bool is_taken[N_RECORDS];
};

static void set_up(struct ring *ring)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 2 * page + 2 * RING_BYTES;
	int fd = memfd_create("ring", MFD_CLOEXEC);

	*ring = (struct ring){ .page = page };
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	ring->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(ring->memory, MAP_FAILED);
	ring->producer = (unsigned long *)(void *)(ring->memory + page);
	assert_int_equal(print_ring_open(fd, RING_BYTES, 0, &ring->reader), 0);
	close(fd);
}

static void tear_down(struct ring *ring)
{
	print_ring_close(ring->reader);
	munmap(ring->memory, 2 * ring->page + 2 * RING_BYTES);
}

static struct place *reserve(struct ring *ring, uint32_t number)
{
	struct place *place = (void *)(ring->memory + 2 * ring->page + *ring->producer);

	place->header = sizeof(place->record) | BPF_RINGBUF_BUSY_BIT;
	place->record.site = number;
	*ring->producer += RECORD_BYTES;
	return place;
}

static void stamp(struct place *place)
{
	place->record.ts_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

static void finish(struct place *place)
{
	place->header &= ~BPF_RINGBUF_BUSY_BIT;
}

static void take_one(void *data, const struct hit_record *record, const struct stored_stack *stack)
{
	struct ring *ring = data;

	assert_null(stack);
	assert_true(record->site < N_RECORDS);
	assert_false(ring->is_taken[record->site]);
	ring->is_taken[record->site] = true;
	ring->n_disordered += record->ts_ns < ring->last_ns;
	ring->last_ns = record->ts_ns;
	ring->n_taken++;
}

static size_t take(struct ring *ring, bool all)
{
	const size_t before = ring->n_taken;

	assert_int_equal(print_ring_take(ring->reader, all, take_one, ring), 0);
	return ring->n_taken - before;
}

/* Long enough for all that was reserved to count as that. */
static void a_moment(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 2 * 1000 * 1000 }, NULL);
}

static void put(struct ring *ring, uint32_t number)
{
	struct place *place = reserve(ring, number);

	stamp(place);
	finish(place);
}

/* One task is interrupted for long, others print meanwhile. */
TEST(who_is_interrupted_is_waited_for)
{
	struct place *early, *late;
	static struct ring ring;

	set_up(&ring);
	early = reserve(&ring, 0);
	late = reserve(&ring, 1);
	stamp(late);
	a_moment();
	stamp(early);
	finish(early);
	a_moment();
	for (int i = 0; i < 5; i++) {
		/* Of number 1 nothing is known but that it may be older. */
		assert_int_equal(take(&ring, false), 0);
		assert_true(print_ring_until(ring.reader) < (int64_t)late->record.ts_ns);
		a_moment();
	}
	finish(late);
	a_moment();
	assert_int_equal(take(&ring, false), 2);
	assert_true(print_ring_until(ring.reader) >= (int64_t)early->record.ts_ns);
	assert_int_equal(ring.n_disordered, 0);
	/* What came after the last call waits for the next but one, at most. */
	put(&ring, 2);
	assert_int_equal(take(&ring, false), 0);
	assert_true(print_ring_until(ring.reader) < clock_ns(CLOCK_MONOTONIC) - 1000 * 1000);
	a_moment();
	take(&ring, false);
	take(&ring, false);
	assert_int_equal(ring.n_taken, 3);
	assert_true(print_ring_until(ring.reader) >= (int64_t)ring.last_ns);
	put(&ring, 3);
	assert_int_equal(take(&ring, true), 1);
	tear_down(&ring);
}

/* A slow pair of N bytes, sound but for what the caller writes into it before the next one. */
static struct slow_record *put_slow(struct ring *ring, uint32_t number, size_t n)
{
	struct place *place = reserve(ring, number);
	struct slow_record *slow = (void *)&place->record;

	memset(slow, 0, sizeof(*slow));
	slow->stop.site = number;
	slow->stop.kind = RECORD_SLOW;
	slow->has_start = 1;
	place->header = (uint32_t)n;
	*ring->producer += n - sizeof(place->record);
	stamp(place);
	return slow;
}

/* What follows the stop is read only if it is there and sound. */
TEST(slow_pairs_are_checked)
{
	static struct ring ring;
	struct slow_record *slow;

	set_up(&ring);
	put_slow(&ring, 0, sizeof(*slow));
	slow = put_slow(&ring, 1, sizeof(*slow));
	slow->start.n_args = ARGS_MAX + 1;
	slow = put_slow(&ring, 2, sizeof(*slow));
	slow->start.n_args = ARGS_MAX + 1;
	slow->has_start = 0;
	slow = put_slow(&ring, 3, sizeof(*slow));
	memset(slow->stop.comm, 'x', sizeof(slow->stop.comm));
	slow = put_slow(&ring, 4, sizeof(*slow));
	memset(slow->start.comm, 'x', sizeof(slow->start.comm));
	slow = put_slow(&ring, 5, sizeof(*slow));
	slow->stop.n_args = ARGS_MAX + 1;
	put_slow(&ring, 6, sizeof(struct hit_record));
	put(&ring, 7);
	assert_int_equal(take(&ring, true), 3);
	assert_true(ring.is_taken[0] && ring.is_taken[2] && ring.is_taken[7]);
	tear_down(&ring);
}

/* A slow pair in the short form, sound but for what the caller writes into it. */
static struct slow_short *put_short(struct ring *ring, uint32_t number, size_t n)
{
	struct place *place = reserve(ring, number);
	struct slow_short *slow = (void *)&place->record;
	struct hit_record *stop = (void *)slow->stop, *start = (void *)slow->start;

	memset(slow, 0, sizeof(*slow));
	stop->site = number;
	stop->kind = RECORD_SLOW_SHORT;
	slow->ns = 1000 + number;
	slow->has_start = 1;
	start->site = 100 + number;
	start->n_args = start->n_nodes = SLOW_SHORT_NODES;
	for (int i = 0; i < SLOW_SHORT_NODES; i++)
		slow->nodes[i] = (struct value_node){ .kind = NODE_INT, .value = (uint64_t)i };
	place->header = (uint32_t)n;
	*ring->producer += n - sizeof(place->record);
	stamp(place);
	return slow;
}

static void check_whole_form(void *data, const struct hit_record *record,
			     const struct stored_stack *stack)
{
	const struct slow_record *slow = (const void *)record;
	size_t *n = data;

	assert_null(stack);
	assert_int_equal(record->kind, RECORD_SLOW);
	assert_int_equal(record->n_nodes, 0);
	assert_int_equal(slow->ns, 1000 + record->site);
	(*n)++;
	if (!slow->has_start)
		return;
	assert_int_equal(slow->start.site, 100 + record->site);
	assert_int_equal(slow->start.n_args, SLOW_SHORT_NODES);
	for (unsigned int i = 0; i < SLOW_SHORT_NODES; i++)
		assert_int_equal(slow->start.nodes[i].value, i);
}

/* A short record is passed on in its whole form, and only if all that it says has room in it. */
TEST(short_slow_pairs)
{
	static struct ring ring;
	struct slow_short *slow;
	size_t n = 0;

	set_up(&ring);
	put_short(&ring, 0, sizeof(*slow));
	slow = put_short(&ring, 1, sizeof(*slow));
	slow->has_start = 0;
	slow = put_short(&ring, 2, sizeof(*slow));
	((struct hit_record *)(void *)slow->start)->n_nodes = SLOW_SHORT_NODES + 1;
	slow = put_short(&ring, 3, sizeof(*slow));
	((struct hit_record *)(void *)slow->start)->n_text = 1;
	slow = put_short(&ring, 4, sizeof(*slow));
	((struct hit_record *)(void *)slow->stop)->n_nodes = 1;
	put_short(&ring, 5, sizeof(*slow) - 8);
	slow = put_short(&ring, 6, sizeof(*slow));
	slow->nodes[0].kind = NODE_KINDS;
	put_short(&ring, 7, sizeof(*slow));
	assert_int_equal(print_ring_take(ring.reader, true, check_whole_form, &n), 0);
	assert_int_equal(n, 3);
	tear_down(&ring);
}

/* What a writer does next: take a place, the time, or finish. */
static void step(struct ring *ring, struct place **place, bool *is_stamped, uint32_t *n)
{
	if (!*place) {
		if (*n < N_RECORDS)
			*place = reserve(ring, (*n)++);
		*is_stamped = false;
	} else if (!*is_stamped) {
		stamp(*place);
		*is_stamped = true;
	} else {
		finish(*place);
		*place = NULL;
	}
}

TEST(any_interruptions_keep_the_order)
{
	struct place *places[N_WRITERS] = { NULL };
	bool is_stamped[N_WRITERS];
	static struct ring ring;
	uint32_t n = 0;

	set_up(&ring);
	srandom(1);
	while (n < N_RECORDS) {
		const size_t writer = (size_t)random() % N_WRITERS;

		step(&ring, &places[writer], &is_stamped[writer], &n);
		if (random() % 32 == 0) {
			a_moment();
			take(&ring, false);
		}
	}
	assert_true(ring.n_taken > 0);
	for (size_t i = 0; i < N_WRITERS; i++)
		while (places[i])
			step(&ring, &places[i], &is_stamped[i], &n);
	take(&ring, true);
	assert_int_equal(ring.n_taken, N_RECORDS);
	assert_int_equal(ring.n_disordered, 0);
	tear_down(&ring);
}
