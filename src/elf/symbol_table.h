/* SPDX-License-Identifier: MIT */
/* Reading a symbol table piece by piece: it may be large or hostile. */
#ifndef ELF_SYMBOL_TABLE_H
#define ELF_SYMBOL_TABLE_H

#include <elf.h>
#include "elf/elf_file.h"

/* Return 0 to continue; any other value ends the walk and becomes its result. */
typedef int (*symbol_fn)(void *data, const Elf64_Sym *symbol);

/*
 * Call FN(DATA, symbol) for each symbol of the section TABLE. Returns 0, what FN returned, or a
 * negative errno; -EBADMSG if the table is damaged or exceeds the limits.
 */
int symbol_table_each(struct ocp_ctx *ctx, struct elf_file *elf, const struct elf_section *table,
		      symbol_fn fn, void *data);

#endif
