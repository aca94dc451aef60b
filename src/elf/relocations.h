/* SPDX-License-Identifier: MIT */
/*
 * The words of a file that the dynamic linker fills in (.rela.dyn). In the file itself these words
 * may be 0. Compact relocations (RELR) are not included: their words already have the link-time
 * address in the file.
 */
#ifndef ELF_RELOCATIONS_H
#define ELF_RELOCATIONS_H

#include <stdint.h>
#include "elf/elf_file.h"

struct relocation {
	uint64_t place;	    /* the link-time address of the word */
	uint64_t va;	    /* the link-time address that the word will hold; 0 with a symbol */
	const char *symbol; /* the name of a symbol that another file defines, or NULL */
	int64_t addend;	    /* to be added to the address of `symbol` */
};

/* Return 0 to continue; any other value ends the walk and becomes its result. */
typedef int (*relocation_fn)(void *data, const struct relocation *relocation);

/*
 * Call FN(DATA, relocation) for each word that will hold an address. Returns 0, what FN returned,
 * or a negative errno. A file without relocations is not an error.
 */
int relocations_each(struct elf_file *elf, relocation_fn fn, void *data);

#endif
