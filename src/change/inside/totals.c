// SPDX-License-Identifier: MIT
#include "change/inside/totals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include "look/proc_file.h"

/*
 * Load NUMBER while the process may be counting. An aligned load of 64 bits sees the number either
 * before or after a change.
 */
static uint64_t load_count(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

static const struct pairs_shared *shared_of_pair(const struct block_header *header,
						 const void *block, uint32_t pair)
{
	const char *area = (const char *)block + pairs_area_off(header, pair);

	return (const struct pairs_shared *)area;
}

static const struct pairs_slot *slots_of_pair(const struct block_header *header, const void *block,
					      uint32_t pair)
{
	const char *area = (const char *)block + pairs_area_off(header, pair);

	return (const struct pairs_slot *)(area + pairs_slots_off(header->n_threads));
}

/* Return true if a thread has ever taken slot number I. */
static bool is_used(const struct pairs_shared *shared, uint32_t i)
{
	return load_count(&shared->used[i / 64]) >> (i % 64) & 1;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static const uint64_t *counters_in(const struct block_header *header, const void *block)
{
	return (const uint64_t *)((const char *)block + header->counters_off);
}

void totals_filtered(const struct block_header *header, const void *block,
		     struct inside_filtered *filtered)
{
	const uint64_t *counter = counters_in(header, block) + block_rejected(header);
	const struct block_mismatches *mismatches =
		(const void *)((const char *)block + block_mismatches_off(header));
	const uint64_t last = load_count(&mismatches->last);

	*filtered = (struct inside_filtered){
		.mismatches = load_count(&mismatches->n),
		.site = (uint32_t)last & ((1U << BLOCK_MISMATCH_SITE_BITS) - 1),
		.arg = (uint8_t)(last >> BLOCK_MISMATCH_SITE_BITS),
	};
	for (uint32_t i = 0; i < header->n_shards; i++)
		filtered->rejected += load_count(counter + i * header->shard_stride);
}

void totals_hits(const struct block_header *header, const void *block, uint64_t *hits)
{
	const uint64_t *counters = counters_in(header, block);

	memset(hits, 0, header->n_sites * sizeof(*hits));
	for (uint32_t shard = 0; shard < header->n_shards; shard++)
		for (uint32_t site = 0; site < header->n_sites; site++)
			hits[site] += load_count(&counters[shard * header->shard_stride + site]);
}

static void raise_maximum(uint64_t *highest, uint64_t value)
{
	if (value > *highest)
		*highest = value;
}

/*
 * Add the totals of SLOT to TOTALS. Read the starts last: if an event happens meanwhile, parts of
 * the event may be missing, but no pair is counted without its start.
 */
static void add_slot(const struct pairs_slot *slot, struct inside_pair *totals,
		     uint64_t *min_ns_not)
{
	for (size_t i = 0; i < PAIRS_BUCKETS; i++) {
		const uint64_t n = load_count(&slot->buckets[i]);

		totals->buckets[i] += n;
		totals->count += n;
	}
	totals->orphan_starts += load_count(&slot->orphan_starts);
	totals->sum_ns += load_count(&slot->sum_ns);
	raise_maximum(&totals->max_ns, load_count(&slot->max_ns));
	raise_maximum(min_ns_not, load_count(&slot->min_ns_not));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	totals->starts += load_count(&slot->starts);
}

void totals_pair(const struct block_header *header, const void *block, uint32_t pair,
		 struct inside_pair *totals)
{
	const struct pairs_shared *shared = shared_of_pair(header, block, pair);
	const struct pairs_slot *slots = slots_of_pair(header, block, pair);
	uint64_t min_ns_not = 0;

	memset(totals, 0, sizeof(*totals));
	for (uint32_t i = 0; i < pairs_n_in_area(header); i++)
		if (is_used(shared, i))
			add_slot(&slots[i], totals, &min_ns_not);
	totals->orphan_stops = load_count(&shared->orphan_stops);
	totals->collisions = load_count(&shared->collisions);
	totals->not_keyed = load_count(&shared->not_keyed);
	totals->starts += totals->collisions + totals->not_keyed;
	totals->min_ns = totals->count ? ~min_ns_not : 0;
}

/* ---- starts of threads that have ended ------------------------------------------------------ */

bool gone_threads_are_known(pid_t pid)
{
	struct stat ours, its;
	char path[PROC_PATH_BYTES];

	proc_path(path, pid, "ns/pid");
	return stat("/proc/self/ns/pid", &ours) == 0 && stat(path, &its) == 0 &&
	       ours.st_dev == its.st_dev && ours.st_ino == its.st_ino;
}

/*
 * Return true if thread TID has ended. If another process has a thread with this id by now, return
 * false: the starts of the ended thread then count as open.
 */
static bool is_gone(uint32_t tid)
{
	return tid && tid <= INT32_MAX && kill((pid_t)tid, 0) != 0 && errno == ESRCH;
}

/*
 * Return the number of open starts in SLOT, except rejected ones, if its thread has ended,
 * otherwise 0. Thread and number are loaded in one access, because they change as one word.
 */
static uint64_t open_if_gone(const struct pairs_slot *slot)
{
	const uint64_t state = load_count((const uint64_t *)(const void *)slot);
	struct pairs_slot now;
	uint64_t n = 0;

	memcpy(&now, &state, sizeof(state));
	if (!now.n || !is_gone(now.tid))
		return 0;
	for (uint32_t age = 0; age < now.n && age < PAIRS_DEPTH; age++)
		n += load_count(&slot->ring[(now.next - 1U - age) % PAIRS_DEPTH].ticks) !=
		     PAIRS_REJECTED;
	return n;
}

/* Count the open starts by key, except rejected ones, whose process has ended. */
static uint64_t open_keys_of_gone(const void *starts, uint32_t n_threads)
{
	const struct pairs_keyed_start *start = starts;
	uint64_t n = 0;

	for (uint32_t i = pairs_n_keys(n_threads); i; i--, start++)
		n += load_count(&start->key) && load_count(&start->ticks) != PAIRS_REJECTED &&
		     is_gone(__atomic_load_n(&start->pid, __ATOMIC_RELAXED));
	return n;
}

uint64_t gone_threads_starts(const struct block_header *header, const void *block, uint32_t pair)
{
	const struct pairs_shared *shared = shared_of_pair(header, block, pair);
	const struct pairs_slot *slots = slots_of_pair(header, block, pair);
	uint64_t n = 0;

	if (load_count(&shared->is_keyed))
		return open_keys_of_gone((const char *)slots + pairs_keys_off(header->n_threads),
					 header->n_threads);
	for (uint32_t i = 0; i < pairs_n_in_area(header); i++)
		if (is_used(shared, i))
			n += open_if_gone(&slots[i]);
	return n;
}
