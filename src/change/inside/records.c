// SPDX-License-Identifier: MIT
/*
 * Order. A thread takes a position, reads the time, and completes the record, and only then does
 * anything else. So if an event has a time T, all earlier events of its thread, and all events that
 * have led to it in other threads, are complete at T. Each call notes the time before it reads the
 * first ring, reads every record that is complete, and passes those with earlier times: of these,
 * no earlier event of the same thread can be missing.
 *
 * A thread can be interrupted for any length of time before it completes its record. The positions
 * of such records are remembered as gaps, and looked at again in later calls. The space of a ring
 * is given back up to its first gap.
 */
#include "change/inside/records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "change/inside/rings.h"
#include "kernel/ticks.h"

enum {
	/*
	 * How many ticks before the present events are passed: more than it takes until a record
	 * can be seen by another CPU, and than the counters of two CPUs differ.
	 */
	SETTLED_TICKS = 1 << 13,
	FIRST_ROOM = 1024,
};

/* A ring, as far as it was read. */
struct ring_place {
	uint64_t next;	/* all records before this position were read, but for the gaps */
	uint64_t lost;	/* the newest value of event_ring.lost */
	uint64_t *gaps; /* positions of records that were not complete; ascending */
	size_t n_gaps, room;
};

struct taken_record {
	struct inside_record record;
	uint32_t ring;
	uint64_t position;
};

struct records {
	const struct block_header *header;
	uint8_t *rings; /* in the block */
	struct ring_place places[RINGS_MAX];
	uint64_t without_stack; /* the newest value of rings_shared.without_stack */
	uint64_t n_damaged;
	uint64_t n_unfinished; /* gaps at the last call, if it was to pass all */
	uint64_t newest;       /* a time of the counter that is not in the future */
	uint32_t n_points;
	struct taken_record *taken; /* read, and not yet passed */
	size_t n_taken, room;
};

struct records *records_new(const struct block_header *header, void *block)
{
	struct records *records = calloc(1, sizeof(*records));

	if (!records)
		return NULL;
	records->header = header;
	records->rings = (uint8_t *)block + header->rings_off;
	return records;
}

void records_free(struct records *records)
{
	if (!records)
		return;
	for (size_t i = 0; i < RINGS_MAX; i++)
		free(records->places[i].gaps);
	free(records->taken);
	free(records);
}

static struct event_ring *ring_at(const struct records *records, uint32_t i)
{
	return (struct event_ring *)(records->rings + sizeof(struct rings_shared) +
				     i * rings_stride(records->header));
}

static const struct event_slot *slot_at(const struct records *records,
					const struct event_ring *ring, uint64_t position)
{
	const uint64_t i = position & (records->header->ring_slots - 1);

	return (const struct event_slot *)((const uint8_t *)(ring + 1) +
					   i * records->header->slot_bytes);
}

/* Double the array *LIST of elements of SIZE bytes, which has ROOM of them. */
static int double_room(void **list, size_t *room, size_t size)
{
	const size_t more = *room ? 2 * *room : FIRST_ROOM;
	void *grown = reallocarray(*list, more, size);

	if (!grown)
		return -ENOMEM;
	*list = grown;
	*room = more;
	return 0;
}

/* Return true if TICKS is neither before the attach nor in the future. */
static bool is_sound_time(struct records *records, uint64_t ticks)
{
	if (ticks > records->newest)
		records->newest = ticks_now() + SETTLED_TICKS;
	return ticks <= records->newest && ticks >= records->header->start_ticks;
}

/*
 * Copy the record at POSITION of ring number RING if it is complete. Set *IS_COMPLETE to whether it
 * is. A complete record that cannot be an event is counted, and not copied.
 */
static int take_slot(struct records *records, uint32_t ring, uint64_t position, bool *is_complete)
{
	const struct event_slot *slot = slot_at(records, ring_at(records, ring), position);
	const size_t n_args = (records->header->slot_bytes - sizeof(*slot)) / sizeof(slot->args[0]);
	struct taken_record *taken;
	int err = 0;

	*is_complete = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE) == position + 1;
	if (!*is_complete)
		return 0;
	if (records->n_taken == records->room)
		err = double_room((void **)&records->taken, &records->room, sizeof(*taken));
	if (err)
		return err;
	taken = &records->taken[records->n_taken];
	taken->ring = ring;
	taken->position = position;
	taken->record.ticks = __atomic_load_n(&slot->ticks, __ATOMIC_RELAXED);
	taken->record.tid = __atomic_load_n(&slot->tid, __ATOMIC_RELAXED);
	taken->record.point = __atomic_load_n(&slot->point, __ATOMIC_RELAXED);
	taken->record.frame = __atomic_load_n(&slot->frame, __ATOMIC_RELAXED) - 1;
	for (size_t i = 0; i < n_args && i < INSIDE_EVENT_ARGS; i++)
		taken->record.args[i] = __atomic_load_n(&slot->args[i], __ATOMIC_RELAXED);
	if (taken->record.point >= records->n_points || !taken->record.tid ||
	    taken->record.tid > INT32_MAX || !is_sound_time(records, taken->record.ticks))
		records->n_damaged++;
	else
		records->n_taken++;
	return 0;
}

/* Look again at the records that were not complete. */
static int take_gaps(struct records *records, uint32_t ring)
{
	struct ring_place *place = &records->places[ring];
	size_t n = 0;
	int err = 0;

	for (size_t i = 0; i < place->n_gaps; i++) {
		bool is_complete = false;

		if (!err)
			err = take_slot(records, ring, place->gaps[i], &is_complete);
		if (!is_complete)
			place->gaps[n++] = place->gaps[i];
	}
	place->n_gaps = n;
	return err;
}

static int add_gap(struct ring_place *place)
{
	int err = 0;

	if (place->n_gaps == place->room)
		err = double_room((void **)&place->gaps, &place->room, sizeof(*place->gaps));
	if (!err)
		place->gaps[place->n_gaps++] = place->next;
	return err;
}

/* Read ring number RING. */
static int take_ring(struct records *records, uint32_t ring)
{
	struct event_ring *shared = ring_at(records, ring);
	struct ring_place *place = &records->places[ring];
	const uint64_t head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
	const uint64_t lost = __atomic_load_n(&shared->lost, __ATOMIC_RELAXED);
	const uint64_t first = place->n_gaps ? place->gaps[0] : place->next;
	bool is_complete;
	int err;

	if (head < place->next || head - first > records->header->ring_slots || lost < place->lost)
		return -EBADMSG;
	place->lost = lost;
	err = take_gaps(records, ring);
	while (!err && place->next < head) {
		err = take_slot(records, ring, place->next, &is_complete);
		if (!err && !is_complete)
			err = add_gap(place);
		place->next += !err;
	}
	__atomic_store_n(&shared->tail, place->n_gaps ? place->gaps[0] : place->next,
			 __ATOMIC_RELEASE);
	return err;
}

static int compare_taken(const void *a, const void *b)
{
	const struct taken_record *x = a, *y = b;

	if (x->record.ticks != y->record.ticks)
		return COMPARE(x->record.ticks, y->record.ticks);
	return x->ring != y->ring ? COMPARE(x->ring, y->ring) : COMPARE(x->position, y->position);
}

static void sort_taken(struct records *records)
{
	size_t i = 1;

	/* Records of one thread are in order, as a rule. */
	while (i < records->n_taken &&
	       compare_taken(&records->taken[i - 1], &records->taken[i]) < 0)
		i++;
	if (i < records->n_taken)
		qsort(records->taken, records->n_taken, sizeof(*records->taken), compare_taken);
}

/* Pass the records up to UNTIL, a time of the counter. */
static void pass_records(struct records *records, uint64_t until, inside_record_fn fn, void *data)
{
	size_t n = 0;

	sort_taken(records);
	while (n < records->n_taken && records->taken[n].record.ticks <= until)
		fn(data, &records->taken[n++].record);
	records->n_taken -= n;
	if (records->n_taken)
		memmove(records->taken, records->taken + n,
			records->n_taken * sizeof(*records->taken));
}

int records_take(struct records *records, uint32_t n_points, bool all, inside_record_fn fn,
		 void *data)
{
	const struct rings_shared *shared = (const struct rings_shared *)records->rings;
	const uint64_t until = all ? UINT64_MAX : ticks_now() - SETTLED_TICKS;
	const uint64_t without = __atomic_load_n(&shared->without_stack, __ATOMIC_RELAXED);
	int err = without < records->without_stack ? -EBADMSG : 0;

	records->without_stack = without;
	records->n_points = n_points;
	records->n_unfinished = 0;
	for (uint32_t i = 0; !err && i < records->header->n_rings; i++) {
		err = take_ring(records, i);
		if (all)
			records->n_unfinished += records->places[i].n_gaps;
	}
	if (!err)
		pass_records(records, until, fn, data);
	return err;
}

uint64_t records_lost(const struct records *records)
{
	uint64_t n = records->without_stack + records->n_damaged + records->n_unfinished;

	for (size_t i = 0; i < RINGS_MAX; i++)
		n += records->places[i].lost;
	return n;
}

uint64_t records_damaged(const struct records *records)
{
	return records->n_damaged;
}
