/* SPDX-License-Identifier: MIT */
/* The members of struct inside, for the files of this folder. */
#ifndef CHANGE_INSIDE_HELD_H
#define CHANGE_INSIDE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/inside/block.h"
#include "change/inside/inside.h"
#include "look/memory.h"

struct inside {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory; /* for reading the memory of the process */
	/*
	 * A checked copy of the block's header. Whoever can write to the process can write to the
	 * block, so the header in the block is not read again.
	 */
	struct block_header header;
	/*
	 * Our own copy of the sites. A copy that came from the block has been checked.
	 * inside_read_sites() brings it up to date, inside_put_sites() writes it to the block.
	 */
	struct block_site *sites;
	/*
	 * The whole block. If is_shared, `block` is our own mapping of the memfd, which stays when
	 * the process ends; others can write to it, so never take a size or an address from it. If
	 * is_shared is false, `block` is a copy of the data, which inside_read() refreshes; ranges
	 * that were not copied are 0.
	 */
	uint8_t *block;
	bool is_shared;
	bool is_made; /* made by inside_attach(): only is_patched of the sites is read again */
	bool is_detached;
	struct inside_state seen;   /* the state that inside_find() found */
	struct site_reader *reader; /* made when a reader is needed for the first time */
	struct records *records;    /* what reads the rings; NULL: not used yet */
	/* the result of gone_threads_are_known() when this struct was made */
	bool knows_gone;
};

struct inside *inside_new(struct ocp_ctx *ctx, pid_t pid);

/*
 * If inside->block is a copy, copy the gates and counters again, and the pairs if WITH_PAIRS. If
 * inside->block is a shared mapping, or after a detach, do nothing.
 */
int inside_refresh(struct inside *inside, bool with_pairs);

/*
 * Read code and gate of each site. Private gates are taken from inside->block. *BYTES is valid
 * until the next call. Return 0, or a negative errno with a message, for example -EBADMSG if the
 * block describes invalid sites.
 */
struct site_bytes;
int inside_read_sites(struct inside *inside, struct site_bytes **bytes);

/* Write the copy of the sites to our mapping of the block. */
void inside_put_sites(const struct inside *inside);

#endif
