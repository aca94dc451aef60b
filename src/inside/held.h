/* SPDX-License-Identifier: MIT */
/* The members of struct inside, for the files of this folder. */
#ifndef INSIDE_HELD_H
#define INSIDE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "inside/block.h"
#include "inside/inside.h"
#include "tracee/memory.h"

struct inside {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory; /* of the process */
	/*
	 * A copy, which was checked. Whoever can write to the process can write to the block: its own
	 * header is not read again.
	 */
	struct block_header header;
	/*
	 * The whole block. is_shared: our own mapping of the memfd, which stays when the process ends.
	 * Else a copy of the data, which inside_read() refreshes; what was not copied is 0.
	 */
	uint8_t *block;
	bool is_shared;
	bool is_detached;
	struct site_reader *reader; /* made when it is first needed */
	bool knows_gone;	    /* see gone_threads.h; read when the process was there */
};

struct inside *inside_new(struct ocp_ctx *ctx, pid_t pid);

/* Bring a copy up to date; all of it if WITH_PAIRS. Nothing to do for a shared mapping. */
int inside_refresh(struct inside *inside, bool with_pairs);

/*
 * Read the sites: their code, and their gates. The private gates are those of the block as it is here. The
 * next reading takes the memory of *BYTES. Returns 0, -ENOMEM or -ESRCH with a message.
 */
struct site_bytes;
int inside_read_sites(struct inside *inside, struct site_bytes **bytes);

static inline struct block_site *inside_sites(const struct inside *inside)
{
	return (struct block_site *)(inside->block + inside->header.sites_off);
}

/* The four bytes that call the trampoline of SITE. */
static inline uint32_t inside_displacement(const struct block_site *site)
{
	return (uint32_t)(site->trampoline - (site->addr + 6));
}

#endif
