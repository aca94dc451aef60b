/* SPDX-License-Identifier: MIT */
/* Find out the state of a block's sites from their bytes in the process, and change these bytes. */
#ifndef INSIDE_SITE_BYTES_H
#define INSIDE_SITE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/held.h"
#include "tracee/patch.h"

enum { SITE_BYTES = 6, SITE_NOP = 0x90, SITE_INT3 = 0xcc, SITE_OFF = 0x3d, SITE_ON = 0xe8 };

struct site_bytes {
	uint8_t code[SITE_BYTES];
	uint16_t gate; /* the two bytes at gate_addr; 0 if gate_addr is 0 */
};

enum site_now {
	SITE_NOW_ORIGINAL, /* calls its wrapper: the original displacement */
	SITE_NOW_COUNTS,
	SITE_NOW_SWITCHED, /* our displacement, but switched off */
	/* off, and a mix of both displacements: a tool was killed while it wrote the site */
	SITE_NOW_CUT,
	SITE_NOW_FOREIGN,
};

enum site_now site_now(const struct block_site *site, const struct site_bytes *bytes);

/* A change of the five bytes behind the nop of a site. */
struct site_change {
	uint64_t addr; /* address of the nop */
	uint8_t old[5], new[5];
};

void site_change_set(struct site_change *change, const struct block_site *site,
		     const struct site_bytes *bytes, uint8_t opcode, uint32_t displacement);

/*
 * Write the CHANGES, byte by byte, and only bytes that differ. After an error, everything is as
 * before.
 */
int site_changes_write(struct ocp_ctx *ctx, struct patcher *patcher,
		       const struct site_change *changes, size_t n);

#endif
