/* SPDX-License-Identifier: MIT */
/*
 * The versions of dynamic symbols (.gnu.version, .gnu.version_d). A library keeps the functions
 * that older programs were linked with: `pow` of GLIBC_2.2.5 beside `pow` of GLIBC_2.29, which new
 * programs get.
 */
#ifndef ELF_SYMBOL_VERSIONS_H
#define ELF_SYMBOL_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct symbol_versions;

struct symbol_version {
	uint32_t name_off; /* in .dynstr; 0: the symbol has no version */
	uint16_t index;	   /* of the version; later versions have greater indexes */
	bool is_hidden;	   /* not the version that programs are linked with */
};

/* Read the versions of ELF. If it has none, returns 0 and *OUT is NULL. */
int symbol_versions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions **out);
void symbol_versions_free(struct symbol_versions *versions);

/* Return the version of symbol number I of .dynsym. VERSIONS may be NULL. */
struct symbol_version symbol_versions_of(const struct symbol_versions *versions, size_t i);

#endif
