// SPDX-License-Identifier: MIT
#include "elf/dynsym.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* A dynamic linker's tables take a few KiB; this is not for looking around in large libraries. */
#define MAX_TABLE_BYTES (UINT64_C(4) << 20)

static int find_in(const uint8_t *symbols, uint64_t symbol_bytes, const char *strings,
		   uint64_t string_bytes, const char *name, uint64_t *va)
{
	size_t name_bytes = strlen(name) + 1;
	Elf64_Sym symbol;

	for (uint64_t at = 0; at + sizeof(symbol) <= symbol_bytes; at += sizeof(symbol)) {
		memcpy(&symbol, symbols + at, sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= string_bytes ||
		    name_bytes > string_bytes - symbol.st_name)
			continue;
		if (memcmp(strings + symbol.st_name, name, name_bytes) != 0)
			continue;
		*va = symbol.st_value;
		return 1;
	}
	return 0;
}

int dynsym_find(struct elf_file *elf, const char *name, uint64_t *va)
{
	struct elf_section symbol_section, string_section;
	uint8_t *symbols = NULL, *strings = NULL;
	int found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, &symbol_section);
	int err;

	if (found > 0)
		found = elf_file_find_section(elf, ".dynstr", SHT_STRTAB, &string_section);
	if (found <= 0)
		return found;
	err = elf_file_read_section(elf, &symbol_section, MAX_TABLE_BYTES, &symbols);
	if (!err)
		err = elf_file_read_section(elf, &string_section, MAX_TABLE_BYTES, &strings);
	if (!err)
		err = find_in(symbols, symbol_section.bytes, (const char *)strings,
			      string_section.bytes, name, va);
	free(symbols);
	free(strings);
	return err;
}
