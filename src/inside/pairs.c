// SPDX-License-Identifier: MIT
#include <assert.h>
#include <stddef.h>
#include "inside/pairs.h"

enum { LINE_BYTES = 64, BITS_A_WORD = 64 };

uint32_t pairs_n_slots(size_t max_threads)
{
	uint32_t n = PAIRS_WINDOW;

	/* Half full at most: then a window without a free slot is rare. */
	while (n < PAIRS_MAX_THREADS && n / 2 < max_threads)
		n *= 2;
	return n;
}

uint64_t pairs_slots_off(uint32_t n_threads)
{
	const uint64_t words = ((uint64_t)n_threads + BITS_A_WORD - 1) / BITS_A_WORD;
	const uint64_t bytes = offsetof(struct pairs_shared, used) + words * sizeof(uint64_t);

	return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

uint64_t pairs_stride(uint32_t n_threads)
{
	return pairs_slots_off(n_threads) + n_threads * sizeof(struct pairs_slot);
}

static_assert(sizeof(struct pairs_keyed_start) * PAIRS_WINDOW * PAIRS_KEYS_A_THREAD +
			      PAIRS_PIDS * sizeof(uint64_t) <=
		      (PAIRS_WINDOW - 1) * sizeof(struct pairs_slot),
	      "the entries of a pair by key have room behind its first slot");

uint32_t pairs_n_keys(uint32_t n_threads)
{
	return n_threads * PAIRS_KEYS_A_THREAD;
}

uint64_t pairs_keys_off(void)
{
	return sizeof(struct pairs_slot);
}

uint64_t pairs_pids_off(uint32_t n_threads)
{
	return pairs_keys_off() + pairs_n_keys(n_threads) * sizeof(struct pairs_keyed_start);
}

uint64_t pairs_bytes(uint32_t n_pairs, uint32_t n_threads)
{
	return n_pairs * pairs_stride(n_threads);
}
