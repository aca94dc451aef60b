/* SPDX-License-Identifier: MIT */
/* Find the function at an address in the symbol table of an ELF file. */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct symbol_of {
	uint64_t va;	  /* input: a link-time address */
	const char *name; /* result: the function that contains va; NULL: unknown */
	uint64_t off;	  /* result: the offset of va in that function */
};

/*
 * Sort ASKED[0..N) by va and find the functions that contain these addresses. The names point into
 * *NAMES, which the caller frees. A file without symbols is not an error. Returns -EBADMSG if the
 * table is damaged or exceeds the limits.
 */
int symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_of *asked, size_t n,
		 char **names);

/*
 * Return the element with address VA of ASKED[0..N), which symbols_find() has sorted; NULL if there
 * is none.
 */
const struct symbol_of *symbols_answer(const struct symbol_of *asked, size_t n, uint64_t va);

#endif
