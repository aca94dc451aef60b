/* SPDX-License-Identifier: MIT */
/* Where a shared object exports a symbol. */
#ifndef ELF_DYNSYM_H
#define ELF_DYNSYM_H

#include <stdint.h>
#include "elf/elf_file.h"

/*
 * Find the dynamic symbol NAME that ELF defines. Returns 1 and its link-time address, 0 if there is
 * none, or a negative errno.
 */
int dynsym_find(struct elf_file *elf, const char *name, uint64_t *va);

#endif
