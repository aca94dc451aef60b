/* SPDX-License-Identifier: MIT */
/*
 * Read the bytes of the same sites repeatedly. The slow work is done once, while the process runs:
 * sorting the addresses, and allocating the memory for the result.
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
 * Make a reader for the N sites of SITES, and for their gates that are semaphores. Only the
 * addresses are copied from SITES. Returns 0, or -ENOMEM with a message.
 */
int site_reader_make(struct ocp_ctx *ctx, const struct memory *memory,
		     const struct block_site *sites, size_t n, struct site_reader **out);
void site_reader_free(struct site_reader *reader);

/*
 * Return true if READER was made for the addresses and gates of these SITES. They may have changed:
 * a process can write to its block.
 */
bool site_reader_is_for(const struct site_reader *reader, const struct block_site *sites, size_t n);

/* Return the addresses of the sites, ascending; they belong to READER. */
const uint64_t *site_reader_addrs(const struct site_reader *reader);

/*
 * Read the sites. *BYTES has one element for each site, and is valid until the next read. Gates
 * that are not semaphores are 0. A site that is no longer mapped reads as zeros. Returns -ESRCH,
 * with a message, if the process is gone.
 */
int site_reader_read(struct site_reader *reader, const struct memory *memory,
		     struct site_bytes **bytes);

#endif
