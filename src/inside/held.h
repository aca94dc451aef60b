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
	 * The sites: ours, and checked if they came from the block. inside_take_sites() brings them up to
	 * date, inside_put_sites() writes them to the block.
	 */
	struct block_site *sites;
	/*
	 * The whole block. is_shared: our own mapping of the memfd, which stays when the process ends. Others
	 * write to it: nothing that is read from it may say how much is read, or where.
	 * Else a copy of the data, which inside_read() refreshes; what was not copied is 0.
	 */
	uint8_t *block;
	bool is_shared;
	bool is_made; /* by inside_attach(): the sites are known, but for what was done last */
	bool is_detached;
	struct inside_state seen;   /* by inside_find() */
	struct site_reader *reader; /* made when it is first needed */
	bool knows_gone;	    /* see gone_threads.h; read when the process was there */
};

struct inside *inside_new(struct ocp_ctx *ctx, pid_t pid);

/* Bring gates and counters of a copy up to date, and pairs if WITH_PAIRS. Nothing to do for a shared mapping. */
int inside_refresh(struct inside *inside, bool with_pairs);

/* Copy the description of what is measured: it does not change after the block was made. */
int inside_copy_meta(struct inside *inside);

/*
 * Read the sites: their code, and their gates. The private gates are those of the block as it is here. The
 * next reading takes the memory of *BYTES. Returns 0, -ENOMEM or -ESRCH with a message.
 */
struct site_bytes;
int inside_read_sites(struct inside *inside, struct site_bytes **bytes);

/* -EBADMSG, with a message: the block describes no sites. Or an error of the copying. */
int inside_take_sites(struct inside *inside);
/* To our mapping. */
void inside_put_sites(const struct inside *inside);

/* The block is damaged: -EBADMSG with a message. */
int inside_damaged(const struct inside *inside);

static inline struct block_site *inside_sites(const struct inside *inside)
{
	return inside->sites;
}

/* The four bytes that call the trampoline of SITE. */
static inline uint32_t inside_displacement(const struct block_site *site)
{
	return (uint32_t)(site->trampoline - (site->addr + 6));
}

#endif
