/* SPDX-License-Identifier: MIT */
/*
 * Read the bytes of a block's sites in the process, find out the state of the sites from these
 * bytes, and change the bytes.
 */
#ifndef CHANGE_INSIDE_SITE_BYTES_H
#define CHANGE_INSIDE_SITE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "change/inside/block.h"
#include "program/program.h"
#include "look/memory.h"
#include "change/stop/patch.h"

struct site_bytes {
	uint8_t code[SITE_BYTES]; /* of a window, only PATCH_JUMP_BYTES count */
	uint16_t gate;		  /* the value of the two bytes at gate_addr; 0 if gate_addr is 0 */
};

enum site_now {
	SITE_NOW_ORIGINAL, /* the displacement is the original one, which leads to the wrapper */
	SITE_NOW_COUNTS,
	/* the displacement leads to the trampoline, but the opcode is the one for off */
	SITE_NOW_SWITCHED,
	/* off, and the displacement is a mix: a tool was killed while it wrote the site */
	SITE_NOW_CUT,
	SITE_NOW_FOREIGN,
};

enum site_now site_now(const struct block_site *site, const struct site_bytes *bytes);

static inline bool is_window(const struct block_site *site)
{
	return site->gate == BLOCK_GATE_NONE;
}

/* Return the address behind the call or jump with which SITE leads to its trampoline. */
static inline uint64_t site_branch_end(const struct block_site *site)
{
	return site->addr + (is_window(site) ? PATCH_JUMP_BYTES : SITE_BYTES);
}

/* Return the displacement of the call or jump from SITE to its trampoline. */
static inline uint32_t inside_displacement(const struct block_site *site)
{
	return (uint32_t)(site->trampoline - site_branch_end(site));
}

/*
 * Write to those of the N SITES whose `store` is not 0: the displacement of the trampoline if
 * TO_TRAMPOLINES, otherwise the original displacement; and `store` as the opcode. BYTES are the
 * present bytes of the sites. Write byte by byte, and only bytes that differ. Write windows last,
 * each whole: a jump to the trampoline, or the original bytes. ORDER: see site_reader_order().
 * After an error, all sites are as before.
 */
int site_bytes_write(struct ocp_ctx *ctx, struct patcher *patcher, const struct block_site *sites,
		     const struct site_bytes *bytes, const uint32_t *order, size_t n,
		     bool to_trampolines);

/*
 * Reads the bytes of the same sites repeatedly. The slow work is done once, while the process runs:
 * sorting the addresses, and allocating the memory for the result.
 */
struct site_reader;

/*
 * Make a reader for the N sites of SITES, and for their gates that are semaphores. Only the
 * addresses are copied from SITES. Returns 0, or -ENOMEM with a message.
 */
int site_reader_make(struct ocp_ctx *ctx, const struct memory *memory,
		     const struct block_site *sites, size_t n, struct site_reader **out);
void site_reader_free(struct site_reader *reader);

/*
 * Return true if the addresses and gates of SITES are those for which READER was made. They may
 * have changed, because a process can write to its block.
 */
bool site_reader_is_for(const struct site_reader *reader, const struct block_site *sites, size_t n);

/* Return the addresses of the sites in ascending order. The array belongs to READER. */
const uint64_t *site_reader_addrs(const struct site_reader *reader);

/*
 * Return the numbers of the sites in ascending order of their addresses. The array belongs to
 * READER.
 */
const uint32_t *site_reader_order(const struct site_reader *reader);

/*
 * Read the sites. *BYTES has one element for each site, and is valid until the next read. Gates
 * that are not semaphores are 0. A site that is no longer mapped reads as zeros. Returns -ESRCH,
 * with a message, if the process is gone.
 */
int site_reader_read(struct site_reader *reader, const struct memory *memory,
		     struct site_bytes **bytes);

#endif
