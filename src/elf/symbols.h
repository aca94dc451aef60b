/* SPDX-License-Identifier: MIT */
/* The function at an address, from the symbol table of an ELF file. */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct symbol_of {
	uint64_t va;	  /* question: a link-time address */
	const char *name; /* answer: the function that contains it; NULL: unknown */
	uint64_t off;	  /* of va in that function */
};

/*
 * Sort ASKED[0..N) by va and find the functions that contain these addresses. The names point into
 * *NAMES, which the caller frees. A file without symbols is no error. -EBADMSG if the table is
 * damaged or exceeds the limits.
 */
int symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_of *asked, size_t n,
		 char **names);

/* The element of ASKED[0..N), after symbols_find, with address VA; NULL: none. */
const struct symbol_of *symbols_answer(const struct symbol_of *asked, size_t n, uint64_t va);

#endif
