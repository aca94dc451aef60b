/* SPDX-License-Identifier: MIT */
/*
 * The parsed arguments of sites. Sites with the same argument string share an entry: a program with
 * 100 000 sites has some hundred different strings.
 */
#ifndef MEASURE_ARG_TABLE_H
#define MEASURE_ARG_TABLE_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include "args.h"
#include "base/ctx.h"

struct arg_table {
	struct site_args *entries; /* numbers never change */
	char **texts;		   /* the string of each entry */
	uint32_t *by_text;	   /* entry numbers, sorted by string */
	size_t n, room;
};

void arg_table_free(struct arg_table *table);

/* Find or add the entry of TEXT. -EINVAL with a message if TEXT is malformed. */
int arg_table_add(struct ocp_ctx *ctx, struct arg_table *table, const char *text, uint32_t *number);

#endif
