/* SPDX-License-Identifier: MIT */
/* Reads the rings of events of a block (rings.h). Nothing in the rings is believed. */
#ifndef CHANGE_INSIDE_RECORDS_H
#define CHANGE_INSIDE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>
#include "change/inside/block.h"
#include "change/inside/inside.h"

struct records;

/*
 * Read the rings of BLOCK, a mapping that others can write to, with the layout of HEADER, which has
 * been checked. Both must outlive the result. Return NULL if memory is short.
 */
struct records *records_new(const struct block_header *header, void *block);
void records_free(struct records *records);

/* See inside_take_records(). Returns 0, -ENOMEM or -EBADMSG, without a message. */
int records_take(struct records *records, uint32_t n_points, bool all, inside_record_fn fn,
		 void *data);
/* See inside_records_lost() and inside_records_damaged(). */
uint64_t records_lost(const struct records *records);
uint64_t records_damaged(const struct records *records);

#endif
