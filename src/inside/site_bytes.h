/* SPDX-License-Identifier: MIT */
/* What the sites of a block look like now, in the process. */
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
	uint16_t gate; /* the two bytes at gate_addr; 0 if that is 0 */
};

enum site_now {
	SITE_NOW_ORIGINAL, /* the displacement of the wrapper */
	SITE_NOW_COUNTS,
	SITE_NOW_SWITCHED, /* ours but for the opcode */
	SITE_NOW_CUT,	   /* off, and displacement bytes of both: a tool was killed in between */
	SITE_NOW_FOREIGN,
};

enum site_now site_now(const struct block_site *site, const struct site_bytes *bytes);

/* The five bytes behind the nop: what is there, and what shall be there. */
struct site_change {
	uint64_t addr; /* of the nop */
	uint8_t old[5], new[5];
};

void site_change_set(struct site_change *change, const struct block_site *site,
		     const struct site_bytes *bytes, uint8_t opcode, uint32_t displacement);

/* Write them, byte by byte, and only those that differ. After an error all is as before. */
int site_changes_write(struct ocp_ctx *ctx, struct patcher *patcher,
		       const struct site_change *changes, size_t n);

#endif
