// SPDX-License-Identifier: MIT
/*
 * Reads the ring buffer of printed hits in place. libbpf's reader prints errors to stderr, and
 * cannot look at a record without consuming it. The kernel maps the data twice in a row, so that
 * every record is contiguous.
 *
 * Order. Records are in the order of their reservation, but are passed on in the order of their
 * times. The two orders differ if a task is interrupted, for any length of time, after it has
 * reserved a record and before it reads the time for it. But a record's time is always later than
 * its reservation. So each call of print_ring_take() remembers a time T (mark_ns) and then the
 * position P (mark) up to which records are reserved: all records from P on are newer than T. Once
 * all records before the P of the previous call are complete, no further record up to that call's T
 * can appear. The current call then sorts all records up to that T and passes them on.
 *
 * The buffer can only be consumed from its beginning. So a record that was passed on stays in the
 * buffer if it is behind one that was not. The next call recognises it by its position and time
 * (seen, seen_ns), and does not pass it on again.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/array.h"
#include "base/clock.h"
#include "base/search.h"
#include "measure/engine/engine_bpf.h"
#include "measure/args/value.h"
#include "measure_slower.h"
#include "unwind/stack_store.h"

/*
 * An upper bound of the time until other processors see a reservation; the real time is much
 * shorter.
 */
enum { SETTLED_NS = 1000 * 1000 };

/* A record to pass on. */
struct found_record {
	const struct hit_record *record;
};

struct print_ring {
	unsigned long *consumer; /* positions increase without end */
	const unsigned long *producer;
	const char *data;
	void *producer_page;
	size_t page, bytes, record_bytes;
	unsigned long mark; /* end of the reserved records at the previous call */
	uint64_t mark_ns;   /* records from `mark` on are newer than this */
	unsigned long seen; /* the previous call looked at the records before this position */
	uint64_t seen_ns;   /* of the records before `seen`, those up to this time were passed on */
	struct found_record *batch;
	size_t n;
};

int print_ring_open(int map_fd, size_t bytes, unsigned int depth, struct print_ring **out)
{
	struct print_ring *ring = calloc(1, sizeof(*ring));
	void *at;
	int err;

	if (!ring)
		return -ENOMEM;
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ring->bytes = bytes;
	ring->record_bytes = depth ? measure_stack_record_bytes(depth) : sizeof(struct hit_record);
	at = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (at != MAP_FAILED) {
		ring->consumer = at;
		at = mmap(NULL, ring->page + 2 * bytes, PROT_READ, MAP_SHARED, map_fd,
			  (off_t)ring->page);
	}
	if (at == MAP_FAILED) {
		err = -errno;
		print_ring_close(ring);
		return err;
	}
	ring->producer_page = at;
	ring->producer = at;
	ring->data = (const char *)at + ring->page;
	*out = ring;
	return 0;
}

void print_ring_close(struct print_ring *ring)
{
	if (!ring)
		return;
	if (ring->consumer)
		munmap(ring->consumer, ring->page);
	if (ring->producer_page)
		munmap(ring->producer_page, ring->page + 2 * ring->bytes);
	free(ring->batch);
	free(ring);
}

static int add_to_batch(struct print_ring *ring, const struct hit_record *record)
{
	struct found_record *new = array_add(ring->batch, ring->n);

	if (!new)
		return -ENOMEM;
	new->record = record;
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	const struct hit_record *x = ((const struct found_record *)a)->record,
				*y = ((const struct found_record *)b)->record;

	if (x->ts_ns != y->ts_ns)
		return COMPARE(x->ts_ns, y->ts_ns);
	/* Records with equal times keep the order of the buffer. */
	return COMPARE(x, y);
}

static uint32_t header_at(const struct print_ring *ring, unsigned long at)
{
	const char *header = ring->data + (at & (ring->bytes - 1));

	return __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);
}

static unsigned long next_of(unsigned long at, uint32_t header)
{
	const uint32_t n = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

	return at + ((BPF_RINGBUF_HDR_SZ + n + 7) & ~7UL);
}

/* Return the end of the complete records at the beginning of the buffer. */
static unsigned long find_end(const struct print_ring *ring, unsigned long produced)
{
	unsigned long at = *ring->consumer;
	uint32_t header;

	for (; at < produced; at = next_of(at, header)) {
		header = header_at(ring, at);
		if (header & BPF_RINGBUF_BUSY_BIT)
			break;
	}
	return at;
}

/* Return true if the N bytes of RECORD are enough for its kind. */
static bool is_whole(const struct print_ring *ring, const struct hit_record *record, size_t n)
{
	if (n < ring->record_bytes)
		return false;
	return record->kind != RECORD_SLOW || n >= sizeof(struct slow_record);
}

/*
 * Return true if the arguments of RECORD are valid and, for a slow pair, the arguments of its
 * start.
 */
static bool is_valid(const struct hit_record *record)
{
	const struct slow_record *slow;

	if (!value_record_is_sound(record, sizeof(*record)))
		return false;
	if (record->kind != RECORD_SLOW)
		return true;
	slow = (const struct slow_record *)record;
	if (memchr(slow->comm, 0, sizeof(slow->comm)) == NULL)
		return false;
	return !slow->has_start || (value_record_is_sound(&slow->start, sizeof(slow->start)) &&
				    memchr(slow->start_comm, 0, sizeof(slow->start_comm)) != NULL);
}

/*
 * Collect the records before position END that are not newer than UNTIL_NS and have not been passed
 * on. Set *KEEP to the position of the first record that must stay in the buffer.
 */
static int collect_records(struct print_ring *ring, unsigned long end, uint64_t until_ns,
			   unsigned long *keep)
{
	unsigned long at = *ring->consumer;
	bool keeps = false;
	int err = 0;

	ring->n = 0;
	*keep = at;
	while (!err && at < end) {
		const uint32_t header = header_at(ring, at);
		const unsigned long next = next_of(at, header);
		const struct hit_record *record =
			(const void *)(ring->data + (at & (ring->bytes - 1)) + BPF_RINGBUF_HDR_SZ);
		const bool is_sound = !(header & BPF_RINGBUF_DISCARD_BIT) &&
				      is_whole(ring, record, next - at - BPF_RINGBUF_HDR_SZ);

		if (is_sound && record->ts_ns > until_ns)
			keeps = true;
		else if (is_sound && !(at < ring->seen && record->ts_ns <= ring->seen_ns))
			err = add_to_batch(ring, record);
		at = next;
		if (!keeps)
			*keep = at;
	}
	return err;
}

/* Set *STACK to the stack of RECORD and return STACK, or NULL if RECORD has no stack. */
static const struct stored_stack *
stack_of(const struct print_ring *ring, const struct hit_record *record, struct stored_stack *stack)
{
	const struct measure_stack_record *walked = (const void *)record;

	if (record->kind != RECORD_HIT || ring->record_bytes == sizeof(*record) ||
	    walked->end >= WALK_ENDS || measure_stack_record_bytes(walked->n) > ring->record_bytes)
		return NULL;
	*stack = (struct stored_stack){ .end = (enum walk_end)walked->end,
					.n = walked->n,
					.frames = (const uint64_t *)walked->frames };
	return stack;
}

int print_ring_take(struct print_ring *ring, bool all, engine_print_fn fn, void *data)
{
	const uint64_t now_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC) - SETTLED_NS;
	const unsigned long produced = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
	const unsigned long end = find_end(ring, produced);
	/* If the buffer is filling up, room is more important than order. */
	const bool is_short = produced - *ring->consumer > ring->bytes / 2;
	struct stored_stack stack;
	const uint64_t until_ns = all || is_short ? UINT64_MAX : ring->mark_ns;
	unsigned long keep;
	int err;

	if (!all && !is_short && end < ring->mark)
		return 0;
	err = collect_records(ring, end, until_ns, &keep);
	if (err)
		return err;
	if (ring->n)
		qsort(ring->batch, ring->n, sizeof(*ring->batch), compare_times);
	for (size_t i = 0; i < ring->n; i++)
		if (is_valid(ring->batch[i].record))
			fn(data, ring->batch[i].record,
			   stack_of(ring, ring->batch[i].record, &stack));
	ring->mark = produced;
	ring->mark_ns = now_ns;
	ring->seen = end;
	ring->seen_ns = until_ns;
	__atomic_store_n(ring->consumer, keep, __ATOMIC_RELEASE);
	return 0;
}
