// SPDX-License-Identifier: MIT
#include "inside/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <sys/uio.h>
#include "inside/block_copy.h"
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
	free(inside->sites);
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
	return block_copy(inside->memory, &inside->header, off, bytes, inside->block + off);
}

/* Copy one pair. Skip slots that no thread has used: to read them would allocate their memory. */
static int copy_pair(struct inside *inside, uint32_t pair)
{
	const struct block_header *header = &inside->header;
	const uint64_t off = pairs_area_off(header, pair);
	const uint64_t slots_off = off + pairs_slots_off(header->n_threads);
	const struct pairs_shared *shared = (const struct pairs_shared *)(inside->block + off);
	int err = copy_part(inside, off, slots_off - off);

	for (uint32_t i = 0; !err && i < header->n_threads; i++)
		if (shared->used[i / 64] >> (i % 64) & 1)
			err = copy_part(inside, slots_off + i * sizeof(struct pairs_slot),
					sizeof(struct pairs_slot));
	if (!err && shared->is_keyed)
		err = copy_part(inside, slots_off + pairs_keys_off(),
				pairs_n_keys(header->n_threads) * sizeof(struct pairs_keyed_start));
	return err;
}

int inside_copy_meta(struct inside *inside)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t start = (uintptr_t)(inside->block + inside->header.meta_off);

	/* Huge pages save page faults, each of which takes microseconds under a hypervisor. */
	madvise((void *)(start & -page), inside->header.meta_bytes, MADV_HUGEPAGE);
	return copy_part(inside, inside->header.meta_off, inside->header.meta_bytes);
}

int inside_refresh(struct inside *inside, bool with_pairs)
{
	const struct block_header *header = &inside->header;
	int err = 0;

	if (inside->is_shared || inside->is_detached)
		return 0;
	/* Copy gates and counters. Header and sites of the copy are not used. */
	err = copy_part(inside, header->gates_off, header->pairs_off - header->gates_off);
	for (uint32_t i = 0; with_pairs && !err && i < header->n_pairs; i++)
		err = copy_pair(inside, i);
	return err ? err : memory_check_alive(inside->memory);
}

/* ---- the sites ------------------------------------------------------------------------------ */

int inside_damaged(const struct inside *inside)
{
	return ctx_error(inside->ctx, -EBADMSG,
			 "pid %d: the memory of its counters is damaged: it cannot be read",
			 (int)inside->pid);
}

static struct block_site *shared_sites(const struct inside *inside)
{
	return (struct block_site *)(inside->block + inside->header.sites_off);
}

/*
 * Read is_patched of all sites, for a block that this tool made: other tools change nothing else in
 * the sites.
 */
static void take_patched(struct inside *inside)
{
	for (size_t i = 0; i < inside->header.n_sites; i++)
		inside->sites[i].is_patched = shared_sites(inside)[i].is_patched;
}

int inside_take_sites(struct inside *inside)
{
	const struct block_header *header = &inside->header;
	int err;

	if (inside->is_detached)
		return 0;
	if (inside->is_made) {
		take_patched(inside);
		return 0;
	}
	if (!inside->sites)
		inside->sites = malloc(header->n_sites * sizeof(*inside->sites));
	if (!inside->sites)
		return ctx_no_memory(inside->ctx);
	err = block_copy_sites(inside->memory, header, inside->is_shared ? inside->block : NULL,
			       inside->sites);
	return err == -EBADMSG ? inside_damaged(inside) : err;
}

void inside_put_sites(const struct inside *inside)
{
	memcpy(shared_sites(inside), inside->sites,
	       inside->header.n_sites * sizeof(*inside->sites));
}
