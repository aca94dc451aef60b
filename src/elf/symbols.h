/* SPDX-License-Identifier: MIT */
/* Which function is at an address, by an ELF file's symbol table. */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct symbol_of {
	uint64_t va;	  /* asked for: a link-time address */
	const char *name; /* answer: the function that holds it, NULL if none is known */
	uint64_t off;	  /* of va in that function */
};

/*
 * Find the functions that hold the addresses ASKED[0..N), which this sorts by va. The names point
 * into *NAMES, which the caller frees. A file without symbols is no error; -EBADMSG if its table is
 * damaged or claims more than is believed.
 */
int symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_of *asked, size_t n,
		 char **names);

/* The one of ASKED[0..N), as symbols_find left them, that asked for VA; NULL: none did. */
const struct symbol_of *symbols_answer(const struct symbol_of *asked, size_t n, uint64_t va);

#endif
