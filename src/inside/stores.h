/* SPDX-License-Identifier: MIT */
/*
 * Routines by which the process itself writes to many places: the byte stores of patch.h at the speed of
 * memory. Their image is one mapping (r-x) for a moment; own_stores.h maps and runs it:
 *
 *	struct stores_job
 *	ranges		text that is made writable, executable all the while
 *	ranges		text that is made r-x again
 *	code
 *	entries		what is to be stored, for STORES_LIST
 *
 * The code makes the text writable, stores, makes the text read-only again and unmaps the image. So a
 * routine that has begun goes on to its end when the tool is killed, and nothing of it is left.
 */
#ifndef INSIDE_STORES_H
#define INSIDE_STORES_H

#include <stddef.h>
#include <stdint.h>

/* Sites from which on the process stores itself: its calls cost as much as so many single writes of ours. */
enum { STORES_MIN = 64 };

enum stores_kind {
	/*
	 * For each block_site whose `store` is not 0: the opcode 3d, then the displacement of the
	 * trampoline, then `store` as the opcode. A process that is left alone between any two of
	 * these stores has valid instructions at all sites. The nop is not written: it belongs to uprobes.
	 */
	STORES_ATTACH,
	STORES_DETACH, /* the same with the original displacement */
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
	uint64_t sites;		 /* in the process: the block_sites; not for STORES_LIST */
	const uint64_t *entries; /* for STORES_LIST */
	size_t n;		 /* of the sites or entries */
};

/* An entry that stores VALUE, of 1 or 2 BYTES, at ADDR. 0: ADDR is too high. */
uint64_t stores_entry(uint64_t addr, uint16_t value, size_t bytes);

/* Of the image, and of its part before the entries. */
size_t stores_image_bytes(const struct stores *stores);
size_t stores_head_bytes(const struct stores *stores);

/* Of the code, from the image's first byte. */
size_t stores_code_off(const struct stores *stores);

/* HEAD has room for stores_head_bytes(). It is for the address ADDR in the process. */
void stores_write_head(const struct stores *stores, uint64_t addr, uint8_t *head);

/*
 * What the code leaves in rbx: the error of the first mprotect(2) that was to make text writable (then
 * nothing was stored), and one of those that were to make text read-only; -errno or 0.
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
