/* SPDX-License-Identifier: MIT */
/* Which rows a table shows, and in which order: --top, --sort and --all. */
#ifndef TOOL_TABLE_ROWS_H
#define TOOL_TABLE_ROWS_H

#include <stddef.h>
#include "tool/writer.h"

struct table_rows {
	size_t *list; /* the numbers of the rows in the sample */
	size_t n;
	size_t n_hidden; /* rows without hits that are left out */
	size_t n_others; /* rows below the top; other_hits is the sum of their hits */
	uint64_t other_hits;
};

/*
 * Choose rows to show, from the counts or from the pairs of REPORT. A row of counts without hits is
 * left out, unless --all is given, the user named its probe, or it is the only row. Pairs are not
 * left out for lack of hits. If memory runs out, no row is chosen. The caller frees the rows.
 */
struct table_rows table_rows_of_hits(const struct report *report);
struct table_rows table_rows_of_pairs(const struct report *report);
void table_rows_free(struct table_rows *rows);

#endif
