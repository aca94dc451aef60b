/* SPDX-License-Identifier: MIT */
/*
 * Groups of hits by the value of an argument, in a block. The hits of some sites, those of a probe,
 * are in one group, which has the hits of each value of the argument. In the block:
 *
 *	struct groups_shared
 *	n_groups times: struct group, groups_n_buckets() buckets of GROUPS_BUCKET_VALUES entries
 *
 * A value determines its bucket. The first hit with a value takes the first free entry of the
 * bucket by one atomic exchange, and the entry keeps its value for ever. So all hits of a value are
 * in its entry or, if the bucket was full at the first one, in `others`. All numbers change by
 * locked instructions. A hit is counted in the counter of its site first.
 */
#ifndef CHANGE_INSIDE_GROUPS_H
#define CHANGE_INSIDE_GROUPS_H

#include <stddef.h>
#include <stdint.h>
#include "change/inside/block.h"
#include "change/inside/inside.h"

enum {
	GROUPS_BUCKET_VALUES = 16,
	GROUPS_ALL_BUCKETS = 2048, /* all groups together have about as many */
	GROUPS_MIN_BUCKETS = 4,
};

struct groups_shared {
	/* as in struct pairs_shared; only the code of the trampolines uses it */
	uint64_t stack_page;
	uint64_t unused[7];
};

struct group {
	/* hits whose value has no entry, or that found no room on the stack of their thread */
	uint64_t others;
	uint64_t not_ints; /* hits whose argument is not an int */
	uint64_t unused[6];
};

struct group_entry {
	uint64_t value; /* in OCaml's form 2 * N + 1; 0: the entry is free */
	uint64_t hits;
};

/* Return the number of buckets of each of N_GROUPS groups. */
static inline uint32_t groups_n_buckets(uint32_t n_groups)
{
	const uint32_t n = n_groups ? GROUPS_ALL_BUCKETS / n_groups : 0;

	return n > GROUPS_MIN_BUCKETS ? n : GROUPS_MIN_BUCKETS;
}

/* Return the number of entries of each of N_GROUPS groups. */
static inline size_t groups_n_entries(uint32_t n_groups)
{
	return (size_t)groups_n_buckets(n_groups) * GROUPS_BUCKET_VALUES;
}

/* Return the offset in the block of group number GROUP. */
static inline uint64_t groups_group_off(const struct block_header *header, uint32_t group)
{
	const uint64_t stride = sizeof(struct group) +
				groups_n_entries(header->n_groups) * sizeof(struct group_entry);

	return header->groups_off + sizeof(struct groups_shared) + group * stride;
}

/* Return the size of all groups: whole cache lines. */
static inline uint64_t groups_bytes(const struct block_header *header)
{
	return header->n_groups ? groups_group_off(header, header->n_groups) - header->groups_off
				: 0;
}

/*
 * Set *GROUP to the totals of group number NUMBER. The block is mapped, and may still be counting.
 * Whoever can write to the process can write to the block, so sizes and offsets are taken from
 * HEADER, a copy that block_check() has accepted. group->values has room for all entries.
 */
void groups_read(const struct block_header *header, const void *block, uint32_t number,
		 struct inside_group *group);

#endif
