/* SPDX-License-Identifier: MIT */
/*
 * Sum up the hits and pairs of a block. The block is either mapped, and may still be counting, or a
 * copy. Whoever can write to the process can write to the block, so sizes and offsets are taken
 * from HEADER, a copy that block_check() has accepted.
 */
#ifndef CHANGE_INSIDE_TOTALS_H
#define CHANGE_INSIDE_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "change/inside/block.h"
#include "change/inside/inside.h"

/*
 * Set HITS to the hits of all sites, each summed over the shards. BLOCK is the first byte of the
 * block.
 */
void totals_hits(const struct block_header *header, const void *block, uint64_t *hits);

/* Set *FILTERED to the totals of the hits of sites with filters. */
void totals_filtered(const struct block_header *header, const void *block,
		     struct inside_filtered *filtered);

/*
 * Set *TOTALS to the totals of pair number PAIR. Open starts of a thread that has ended count as
 * orphans only when another thread takes the slot: see gone_threads_starts(). Touches only slots
 * that were used.
 */
void totals_pair(const struct block_header *header, const void *block, uint32_t pair,
		 struct inside_pair *totals);

/*
 * Return true if PID is in our pid namespace. Only then can kill(2) show whether a thread of PID
 * has ended.
 */
bool gone_threads_are_known(pid_t pid);

/*
 * Return the number of starts of pair number PAIR that totals_pair() counts as open, but that are
 * orphans. If the pair is matched by thread, these are the starts of threads that have ended,
 * except those whose slot another thread has taken. If it is matched by key, these are the starts
 * of processes that have ended. BLOCK is the first byte of the block.
 */
uint64_t gone_threads_starts(const struct block_header *header, const void *block, uint32_t pair);

#endif
