/* SPDX-License-Identifier: MIT */
/*
 * The words of a file that the dynamic linker fills in (.rela.dyn). In the file such a word may be
 * 0. Compact relocations (RELR) are not included: in these, the word in the file is the address.
 */
#ifndef ELF_RELOCATIONS_H
#define ELF_RELOCATIONS_H

#include <stdint.h>
#include "elf/elf_file.h"

struct relocation {
	uint64_t place;	    /* the address of the word */
	uint64_t va;	    /* the address that the word will hold; 0 with a symbol */
	const char *symbol; /* the name of a symbol that another file defines, or NULL */
	int64_t addend;	    /* to the address of that symbol */
};

/* A value other than 0 ends the walk, which returns it. */
typedef int (*relocation_fn)(void *data, const struct relocation *relocation);

/*
 * Call FN(DATA, relocation) for each word that will hold an address. Returns 0, what FN returned,
 * or a negative errno. A file without relocations is not an error.
 */
int relocations_each(struct elf_file *elf, relocation_fn fn, void *data);

#endif
