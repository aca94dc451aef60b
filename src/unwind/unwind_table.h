/* SPDX-License-Identifier: MIT */
/*
 * The unwind table of a file: for each instruction the rule that leads from its frame to that of the
 * caller. It is made from the call frame information, which every compiler writes, and corrected by
 * OCaml's frame tables: the collector finds its roots with them, so they are right.
 */
#ifndef UNWIND_UNWIND_TABLE_H
#define UNWIND_UNWIND_TABLE_H

#include <linux/types.h>
#include <stddef.h>
#include "elf/elf_file.h"
#include "walk.h"

struct unwind_table {
	struct walk_row *rows; /* sorted by address */
	size_t n;
	struct walk_rule
		*rules; /* each once; number 0 is that of addresses of which nothing is known */
	size_t n_rules;
	size_t n_corrected; /* places where the call frame information is wrong */
};

/*
 * Make the table of ELF, which must exist only during the call. -ENODATA: the file has no call frame
 * information. -EBADMSG: it is damaged, or exceeds the limits.
 */
int unwind_table_read(struct ocp_ctx *ctx, struct elf_file *elf, struct unwind_table **out);
void unwind_table_free(struct unwind_table *table);

/* The number of the rule at VA, a link-time address. */
size_t unwind_table_find(const struct unwind_table *table, uint64_t va);

#endif
