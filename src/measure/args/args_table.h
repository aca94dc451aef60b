/* SPDX-License-Identifier: MIT */
/*
 * The arguments of sites, parsed: sites with the same argument string, of which a program with
 * 100 000 sites has some hundred different ones, share an entry.
 */
#ifndef MEASURE_ARGS_TABLE_H
#define MEASURE_ARGS_TABLE_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include "args.h"
#include "base/ctx.h"

struct args_table {
	struct site_args *entries; /* numbers never change */
	char **texts;		   /* of each */
	uint32_t *by_text;	   /* their numbers, sorted by text */
	size_t n, room;
};

void args_table_free(struct args_table *table);

/* *NUMBER becomes that of the entry of TEXT. -EINVAL, with a sentence, if TEXT is malformed. */
int args_table_add(struct ocp_ctx *ctx, struct args_table *table, const char *text,
		   uint32_t *number);

#endif
