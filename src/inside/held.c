// SPDX-License-Identifier: MIT
#include "inside/held.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include "inside/gone_threads.h"
#include "inside/pairs.h"
#include "inside/site_reader.h"

struct inside *inside_new(struct ocp_ctx *ctx, pid_t pid)
{
	struct inside *inside = calloc(1, sizeof(*inside));

	if (!inside)
		return NULL;
	inside->ctx = ctx;
	inside->pid = pid;
	inside->knows_gone = gone_threads_are_known(pid);
	return inside;
}

void inside_close(struct inside *inside)
{
	if (!inside)
		return;
	if (inside->block)
		munmap(inside->block, inside->header.bytes);
	memory_close(inside->memory);
	site_reader_free(inside->reader);
	free(inside);
}

const void *inside_meta(const struct inside *inside, size_t *bytes)
{
	*bytes = inside->header.meta_bytes;
	return inside->block + inside->header.meta_off;
}

size_t inside_n_sites(const struct inside *inside)
{
	return inside->header.n_sites;
}

size_t inside_n_pairs(const struct inside *inside)
{
	return inside->header.n_pairs;
}

int64_t inside_start_ns(const struct inside *inside)
{
	return inside->header.start_ns;
}

pid_t inside_maker(const struct inside *inside)
{
	return (pid_t)inside->header.maker;
}

/* ---- a copy --------------------------------------------------------------------------------- */

static int copy_part(struct inside *inside, uint64_t off, uint64_t bytes)
{
	enum { CHUNK_BYTES = 1 << 20 };

	while (bytes) {
		const size_t part = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
		const struct iovec remote = { (void *)(uintptr_t)(inside->header.addr + off),
					      part };
		int err =
			memory_read_in_order(inside->memory, &remote, 1, inside->block + off, part);

		if (err)
			return err;
		off += part;
		bytes -= part;
	}
	return 0;
}

/* The slots that no thread has used would be filled by the reading, and cost memory. */
static int copy_pair(struct inside *inside, uint32_t pair)
{
	const struct block_header *header = &inside->header;
	const uint64_t off = header->pairs_off + pair * pairs_stride(header->n_threads);
	const uint64_t slots_off = off + pairs_slots_off(header->n_threads);
	const struct pairs_shared *shared = (const struct pairs_shared *)(inside->block + off);
	int err = copy_part(inside, off, slots_off - off);

	for (uint32_t i = 0; !err && i < header->n_threads; i++)
		if (shared->used[i / 64] >> (i % 64) & 1)
			err = copy_part(inside, slots_off + i * sizeof(struct pairs_slot),
					sizeof(struct pairs_slot));
	return err;
}

int inside_refresh(struct inside *inside, bool with_pairs)
{
	const struct block_header *header = &inside->header;
	int err = 0;

	if (inside->is_shared || inside->is_detached)
		return 0;
	/* All but the pairs; the header of the copy is not used. */
	err = copy_part(inside, header->sites_off, header->pairs_off - header->sites_off);
	for (uint32_t i = 0; with_pairs && !err && i < header->n_pairs; i++)
		err = copy_pair(inside, i);
	if (!err)
		err = copy_part(inside, header->meta_off, header->meta_bytes);
	return err ? err : memory_check_alive(inside->memory);
}
