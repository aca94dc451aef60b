/* SPDX-License-Identifier: MIT */
/*
 * Routines by which the process itself writes to many places: the byte stores of patch.h, at the
 * speed of memory. Their image is one temporary mapping (r-x); own_stores.h maps and runs it:
 *
 *	struct stores_job
 *	ranges		text to make writable; it stays executable
 *	ranges		text to make r-x again
 *	code
 *	entries		the stores to make, for STORES_LIST
 *
 * The code makes the text writable, stores, makes the text read-only again and unmaps the image. So
 * a routine that has begun runs to its end even if the tool is killed, and leaves nothing behind.
 */
#ifndef INSIDE_STORES_H
#define INSIDE_STORES_H

#include <stddef.h>
#include <stdint.h>

/*
 * The smallest number of sites for which the process itself stores: the calls for it cost as much
 * as this many single writes of ours.
 */
enum { STORES_MIN = 64 };

enum stores_kind {
	/*
	 * For each block_site whose `store` is not 0: store the opcode 3d, then the displacement of
	 * the trampoline, then `store` as the opcode. Between any two of these stores, all sites
	 * hold valid instructions. The nop is not written: it belongs to uprobes.
	 */
	STORES_ATTACH,
	STORES_DETACH, /* the same, with the original displacement */
	STORES_LIST,   /* entries, in their order */
	N_STORES_KINDS,
};

struct stores_range {
	uint64_t start, bytes;
};

struct stores {
	enum stores_kind kind;
	const struct stores_range *text; /* whole mappings that are r-x */
	size_t n_text;
	/* address of the block_sites, in the process; not for STORES_LIST */
	uint64_t sites;
	const uint64_t *entries; /* for STORES_LIST */
	size_t n;		 /* number of sites or entries */
};

/* Return an entry that stores VALUE, of 1 or 2 BYTES, at ADDR; 0 if ADDR is too high. */
uint64_t stores_entry(uint64_t addr, uint16_t value, size_t bytes);

/* Return the size of the image, and of its head: the part before the entries. */
size_t stores_image_bytes(const struct stores *stores);
size_t stores_head_bytes(const struct stores *stores);

/* Return the offset of the code in the image. */
size_t stores_code_off(const struct stores *stores);

/*
 * Write the head of an image that is mapped at address ADDR in the process. HEAD must have room for
 * stores_head_bytes().
 */
void stores_write_head(const struct stores *stores, uint64_t addr, uint8_t *head);

/*
 * Decode the rbx that the code leaves. stores_open_error() returns the error of the first
 * mprotect(2) that failed to make text writable (nothing was stored then), stores_close_error() the
 * error of the last mprotect(2) that failed to make text read-only. Each is -errno or 0.
 */
static inline int stores_open_error(uint64_t rbx)
{
	return (int32_t)(uint32_t)rbx;
}

static inline int stores_close_error(uint64_t rbx)
{
	return (int32_t)(uint32_t)(rbx >> 32);
}

#endif
