/* SPDX-License-Identifier: MIT */
/* Find symbols of an ELF file by their exact names: functions and data, global and local. */
#ifndef ELF_NAMED_SYMBOLS_H
#define ELF_NAMED_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct named_symbol {
	const char *name; /* input: has at most NAMED_SYMBOL_BYTES */
	uint64_t va; /* result: a link-time address, or the offset of a thread-local variable */
	uint64_t bytes;
	bool is_defined;
	bool is_thread_local;
	bool is_ambiguous; /* local symbols of this name have different addresses */
};

enum { NAMED_SYMBOL_BYTES = 63 };

/*
 * Find ASKED[0..N) in .symtab or, in a stripped file, in .dynsym. A global symbol is preferred to
 * local ones with the same name. Set *IS_STRIPPED to whether there is no .symtab. A file without
 * symbols is not an error. Returns -EBADMSG if the tables are damaged or exceed the limits. The
 * memory needed does not depend on the size of the file.
 */
int named_symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct named_symbol *asked,
		       size_t n, bool *is_stripped);

#endif
