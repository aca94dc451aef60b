/* SPDX-License-Identifier: MIT */
/*
 * The parsed arguments of sites. Sites whose arguments have the same operands and names share an
 * entry: a program with 100 000 sites has a few hundred entries.
 */
#ifndef MEASURE_ARG_TABLE_H
#define MEASURE_ARG_TABLE_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include "args.h"
#include "base/ctx.h"
#include "measure/args/filter.h"

struct arg_table {
	struct site_args *entries; /* by entry number; the numbers never change */
	char **texts;		   /* by entry number: operands, a newline, names */
	uint32_t *by_text;	   /* entry numbers, sorted by text */
	size_t n, room;
};

void arg_table_free(struct arg_table *table);

/*
 * Find or add the entry of OPERANDS, whose names are NAMES (program/arg_names.h), and set *NUMBER
 * to its number. In the entry, the arguments by position are followed by the arguments whose names
 * are in ASKED. ASKED must be the same in all calls. Return -EINVAL with a message if OPERANDS are
 * malformed.
 */
int arg_table_add(struct ocp_ctx *ctx, struct arg_table *table, const char *operands,
		  const char *names, const struct asked_names *asked, uint32_t *number);

/* Return the names of entry NUMBER. They are valid as long as the table exists. */
const char *arg_table_names(const struct arg_table *table, uint32_t number);

#endif
