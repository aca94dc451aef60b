/* SPDX-License-Identifier: MIT */
/* The symbols that a shared object exports. */
#ifndef ELF_DYNSYM_H
#define ELF_DYNSYM_H

#include <stdint.h>
#include "elf/elf_file.h"

/*
 * Return 0 to continue; any other value ends the walk and becomes its result. NAME is valid only
 * during the call.
 */
typedef int (*dynsym_fn)(void *data, const char *name, uint64_t va);

/*
 * Call FN(DATA, ...) with the name and link-time address of every dynamic symbol that ELF defines.
 * Returns 0, what FN returned, or a negative errno; -EBADMSG if a table has more than LIMIT bytes.
 */
int dynsym_each(struct elf_file *elf, uint64_t limit, dynsym_fn fn, void *data);

/*
 * Find the dynamic symbol NAME that ELF defines. Return 1 and set *VA to the symbol's link-time
 * address; return 0 if there is no such symbol, or a negative errno.
 */
int dynsym_find(struct elf_file *elf, const char *name, uint64_t *va);

#endif
