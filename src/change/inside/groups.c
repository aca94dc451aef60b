// SPDX-License-Identifier: MIT
#include "change/inside/groups.h"

static uint64_t load_number(const uint64_t *number)
{
	return __atomic_load_n(number, __ATOMIC_RELAXED);
}

void groups_read(const struct block_header *header, const void *block, uint32_t number,
		 struct inside_group *group)
{
	const struct group *from =
		(const void *)((const char *)block + groups_group_off(header, number));
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
