/* SPDX-License-Identifier: MIT */
/*
 * The versions of dynamic symbols (.gnu.version, .gnu.version_d). A library keeps old versions of a
 * function for older programs that were linked with them: `pow` of GLIBC_2.2.5 beside `pow` of
 * GLIBC_2.29, with which new programs are linked.
 */
#ifndef ELF_SYMBOL_VERSIONS_H
#define ELF_SYMBOL_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct symbol_versions;

struct symbol_version {
	uint32_t name_off; /* offset of the version's name in .dynstr; 0: no version */
	uint16_t index;	   /* of the version; later versions have greater indexes */
	bool is_hidden;	   /* not the version that programs are linked with */
};

/* Read the versions of ELF. If ELF has none, return 0 and set *OUT to NULL. */
int symbol_versions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions **out);
void symbol_versions_free(struct symbol_versions *versions);

/* Return the version of symbol number I of .dynsym. VERSIONS may be NULL. */
struct symbol_version symbol_versions_of(const struct symbol_versions *versions, size_t i);

#endif
