/* SPDX-License-Identifier: MIT */
/*
 * The meta bytes of the block that the engine `inside` leaves in a process. The meta bytes describe
 * the counters to tools that find the block later. Anyone who can write to the memory of the
 * process can change these bytes.
 *
 *	"ocInMeta"              8 bytes
 *	INSIDE_META_VERSION     4 bytes
 *	n_sites                 4 bytes
 *	n_numbers               8 bytes
 *	text_bytes              8 bytes, the length of text with its NUL
 *	name                    INSIDE_META_NAME_BYTES, padded with NULs
 *	numbers                 n_numbers times 8 bytes: struct inside_number
 *	text                    see pin_meta.c
 */
#ifndef MEASURE_INSIDE_META_H
#define MEASURE_INSIDE_META_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "base/ctx.h"

enum { INSIDE_META_VERSION = 2, INSIDE_META_NAME_BYTES = 72 };

/*
 * A site of the engine, and the site of the block that counts its hits. One site of the block can
 * count for several sites of the engine: lines that are executed together.
 */
struct inside_number {
	uint32_t number, site;
};

struct inside_meta {
	char name[INSIDE_META_NAME_BYTES]; /* name of a kept meter; "" if it was not kept */
	struct inside_number *numbers;
	size_t n_numbers, n_sites; /* n_sites: of the block */
	char *text;		   /* describes the engine's numbers: see pin_meta.c */
	size_t text_bytes;	   /* including the NUL */
};

struct inside_meta_head {
	char brand[8];
	uint32_t version, n_sites;
	uint64_t n_numbers, text_bytes;
	char name[INSIDE_META_NAME_BYTES];
};

enum { INSIDE_META_PIECES = 3 };

/*
 * Fill HEAD from META, and set PIECES to the parts of the meta bytes: HEAD, and the numbers and the
 * text of META. Returns the total number of bytes.
 */
size_t inside_meta_pieces(const struct inside_meta *meta, struct inside_meta_head *head,
			  struct iovec pieces[INSIDE_META_PIECES]);

/*
 * Read the N BYTES of a block with N_SITES sites into META, which the caller frees, also after an
 * error. On success, the name is "" or valid for a kept meter, the numbers of the engine's sites
 * differ from each other, those of the block's sites are below N_SITES, and the only NUL of the
 * text is at its end; nothing else is checked. Returns -EBADMSG if the bytes are damaged and
 * -EPROTO if another version wrote them, both without a message; or -ENOMEM.
 */
int inside_meta_read(struct ocp_ctx *ctx, const void *bytes, size_t n, size_t n_sites,
		     struct inside_meta *meta);
void inside_meta_free(struct inside_meta *meta);

#endif
