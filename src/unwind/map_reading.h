/* SPDX-License-Identifier: MIT */
/* Read whole maps of BPF programs. */
#ifndef UNWIND_MAP_READING_H
#define UNWIND_MAP_READING_H

#include <stddef.h>
#include "base/ctx.h"

/*
 * Read the BPF hash map FD, which has at most ROOM entries. Sets *KEYS to its *N keys, and *VALUES
 * to their values in the same order. The caller frees both lists, also after an error.
 */
int map_read_all(struct ocp_ctx *ctx, int fd, size_t key_bytes, size_t value_bytes, size_t room,
		 void **keys, void **values, size_t *n);

#endif
