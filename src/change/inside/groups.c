// SPDX-License-Identifier: MIT
#include "change/inside/groups.h"

static uint64_t load_number(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

/* Return group number NUMBER of the block. */
static const struct group *group_in(const struct block_header *header, const void *block,
				    uint32_t number)
{
	return (const void *)((const char *)block + groups_group_off(header, number));
}

void groups_read(const struct block_header *header, const void *block, uint32_t number,
		 struct inside_group *group)
{
	const struct group *from = group_in(header, block, number);
	const struct group_entry *entry = (const void *)(from + 1);

	group->others = load_number(&from->others);
	group->not_ints = load_number(&from->not_ints);
	group->n = 0;
	for (size_t i = groups_n_entries(header->n_groups); i; i--, entry++) {
		const uint64_t value = load_number(&entry->value);
		const uint64_t hits = load_number(&entry->hits);

		/* The value of an entry that was just taken has no hits yet. No int is even. */
		if (value & 1 && hits)
			group->values[group->n++] =
				(struct inside_value){ .value = (int64_t)value >> 1, .hits = hits };
	}
}

/* Read struct value_times number I into *TIMES. */
static void load_times(const struct block_header *header, const void *block, uint32_t i,
		       struct inside_times *times)
{
	const struct value_times *from =
		(const void *)((const char *)block + groups_times_off(header, i));

	times->count = 0;
	times->sum_ns = load_number(&from->sum_ns);
	times->min_ns_not = load_number(&from->min_ns_not);
	times->max_ns = load_number(&from->max_ns);
	for (size_t b = 0; b < PAIRS_BUCKETS; b++) {
		times->buckets[b] = load_number(&from->buckets[b]);
		times->count += times->buckets[b];
	}
}

void groups_read_times(const struct block_header *header, const void *block, uint32_t number,
		       uint32_t pair, inside_times_fn fn, void *data)
{
	const struct group_entry *entry = (const void *)(group_in(header, block, number) + 1);
	struct inside_times times = { .is_others = true };

	load_times(header, block, pair, &times);
	if (times.count)
		fn(data, &times);
	for (size_t i = groups_n_entries(header->n_groups); i; i--, entry++) {
		const uint64_t value = load_number(&entry->value);
		const uint64_t found = load_number(&entry->times);

		if (found < header->n_pairs || found >= header->n_times)
			continue;
		times = (struct inside_times){ .is_int = value & 1, .value = (int64_t)value >> 1 };
		load_times(header, block, (uint32_t)found, &times);
		if (times.count)
			fn(data, &times);
	}
}
