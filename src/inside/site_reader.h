/* SPDX-License-Identifier: MIT */
/*
 * Reading the same sites again and again. What takes long is done once, while the process runs: the
 * addresses are sorted, and the memory for the answers is there.
 */
#ifndef INSIDE_SITE_READER_H
#define INSIDE_SITE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "inside/block.h"
#include "inside/site_bytes.h"
#include "tracee/memory.h"

struct site_reader;

/*
 * For the N sites of SITES, and for their gates that are semaphores. Only the addresses are taken. Returns
 * 0, or -ENOMEM with a message.
 */
int site_reader_make(struct ocp_ctx *ctx, const struct memory *memory,
		     const struct block_site *sites, size_t n, struct site_reader **out);
void site_reader_free(struct site_reader *reader);

/* Does READER read these sites? A process can write to its block. */
bool site_reader_is_for(const struct site_reader *reader, const struct block_site *sites, size_t n);

/* The addresses of the sites, ascending; they belong to READER. */
const uint64_t *site_reader_addrs(const struct site_reader *reader);

/*
 * Read them. *BYTES has one element for each site, until the next reading. The gates that are not read
 * are 0. A site that is not there any more reads as zeros. -ESRCH, with a message, if the process is gone.
 */
int site_reader_read(struct site_reader *reader, const struct memory *memory,
		     struct site_bytes **bytes);

#endif
