// SPDX-License-Identifier: MIT
#include "inside/block_copy.h"

#include <errno.h>
#include <string.h>
#include "inside/block_check.h"

int block_copy(const struct memory *memory, const struct block_header *header, uint64_t off,
	       uint64_t bytes, void *to)
{
	enum { CHUNK_BYTES = 1 << 20 };
	uint8_t *next = to;

	while (bytes) {
		const size_t part = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
		const struct iovec remote = { (void *)(uintptr_t)(header->addr + off), part };
		const int err = memory_read_in_order(memory, &remote, 1, next, part);

		if (err)
			return err;
		next += part;
		off += part;
		bytes -= part;
	}
	return 0;
}

/* Copy SHARED, and keep the compiler from reading SHARED again where the copy is used. */
static void copy_once(void *to, const void *shared, size_t bytes)
{
	memcpy(to, shared, bytes);
	__asm__ volatile("" : : "r"(to) : "memory");
}

int block_copy_sites(const struct memory *memory, const struct block_header *header,
		     const void *shared, struct block_site *sites)
{
	enum { CHUNK_SITES = 1024 };
	const size_t n = header->n_sites;
	struct block_order order;

	block_order_begin(&order, header);
	for (size_t first = 0, end; first < n; first = end) {
		const uint64_t off = header->sites_off + first * sizeof(*sites);
		int err = 0;

		end = n - first > CHUNK_SITES ? first + CHUNK_SITES : n;
		if (shared)
			copy_once(sites + first, (const uint8_t *)shared + off,
				  (end - first) * sizeof(*sites));
		else
			err = block_copy(memory, header, off, (end - first) * sizeof(*sites),
					 sites + first);
		for (size_t i = first; !err && i < end; i++)
			if (!block_site_is_sound(&order, header, i, &sites[i]))
				err = -EBADMSG;
		if (err)
			return err;
	}
	return 0;
}
