/* SPDX-License-Identifier: MIT */
/*
 * The unwind table of a file: for each instruction, the rule that leads from its frame to the
 * caller's frame. The table is made from the call frame information, which every compiler writes.
 * For OCaml programs, the table is corrected in two ways: by OCaml's frame tables, which must be
 * right, since the collector finds its roots with them; and by special rules for the code that
 * runtime_code.h finds.
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
	/* The rules, without duplicates. Rule 0 is for addresses about which nothing is known. */
	struct walk_rule *rules;
	size_t n_rules;
	/* number of places where the rule of the call frame information was replaced */
	size_t n_corrected;
};

/*
 * Make the table of ELF. *OUT does not refer to ELF. Returns -ENODATA if the file has no call frame
 * information, -EBADMSG if that information is damaged or exceeds the limits.
 */
int unwind_table_read(struct ocp_ctx *ctx, struct elf_file *elf, struct unwind_table **out);
void unwind_table_free(struct unwind_table *table);

/* Return the number of the rule at VA, a link-time address. */
size_t unwind_table_find(const struct unwind_table *table, uint64_t va);

#endif
