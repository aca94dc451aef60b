/* SPDX-License-Identifier: MIT */
/*
 * Groups of hits or times by the value of an argument, in a block. The hits of some sites, those of
 * a probe, are in one group, which has the hits of each value of the argument. The times of a pair
 * are in another group. In the block:
 *
 *	struct groups_shared
 *	n_groups times: struct group, groups_n_buckets() buckets of GROUPS_BUCKET_VALUES entries
 *	n_times times: struct value_times
 *
 * A value determines its bucket. The first hit with a value takes the first free entry of the
 * bucket by one atomic exchange, and the entry keeps its value for ever. So all hits of a value are
 * in its entry or, if the bucket was full at the first one, in `others`. All numbers change by
 * locked instructions. A hit is counted in the counter of its site first.
 *
 * The entries of a group of times have the number of a struct value_times. The first n_pairs
 * numbers are of the values without room of each pair; the other numbers, for values of all pairs,
 * are taken in order. A start stores the number of its value, and its stop adds the time there.
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
	GROUPS_MOST_TIMES = 4096, /* values of all pairs that have times, as in bpf/measure_by.h */
	GROUPS_NOT_INT = 2, /* the value, in a group of times, of arguments that are no ints */
};

struct groups_shared {
	/* as in struct pairs_shared; only the code of the trampolines uses it */
	uint64_t stack_page;
	uint64_t times_used; /* how many numbers of values were taken; may be more than there are */
	uint64_t unused[6];
};

struct group {
	/*
	 * Of a group of hits: those whose value has no entry, or that found no room on the stack of
	 * their thread.
	 */
	uint64_t others;
	uint64_t not_ints; /* hits whose argument is not an int */
	uint64_t unused[6];
};

struct group_entry {
	uint64_t value; /* in OCaml's form 2 * N + 1; 0: the entry is free */
	union {
		uint64_t hits;
		uint64_t times; /* the number of a struct value_times; 0: none */
	};
};

/* The times for one value. They are 0 at first, and change by locked instructions. */
struct value_times {
	uint64_t sum_ns;
	uint64_t min_ns_not; /* as in struct pairs_slot */
	uint64_t max_ns;
	uint64_t unused[5]; /* makes the size a number of whole cache lines */
	uint64_t buckets[PAIRS_BUCKETS];
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

/* Return the number of struct value_times that groups of the times of N_PAIRS pairs have. */
static inline uint32_t groups_n_times(uint32_t n_pairs)
{
	return n_pairs + GROUPS_MOST_TIMES;
}

/* Return the offset in the block of struct value_times number TIMES. */
static inline uint64_t groups_times_off(const struct block_header *header, uint32_t times)
{
	return groups_group_off(header, header->n_groups) + times * sizeof(struct value_times);
}

/* Return the size of all groups: whole cache lines. */
static inline uint64_t groups_bytes(const struct block_header *header)
{
	return header->n_groups ? groups_times_off(header, header->n_times) - header->groups_off
				: 0;
}

/*
 * Set *GROUP to the totals of group number NUMBER. The block is mapped, and may still be counting.
 * Whoever can write to the process can write to the block, so sizes and offsets are taken from
 * HEADER, a copy that block_check() has accepted. group->values has room for all entries.
 */
void groups_read(const struct block_header *header, const void *block, uint32_t number,
		 struct inside_group *group);

/*
 * Call FN(DATA, times) for the times of each value in group number NUMBER, which is a group of
 * times, and for those of the values of PAIR without room. Values without times are left out.
 */
void groups_read_times(const struct block_header *header, const void *block, uint32_t number,
		       uint32_t pair, inside_times_fn fn, void *data);

#endif
