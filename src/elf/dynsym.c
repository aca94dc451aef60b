// SPDX-License-Identifier: MIT
#include "elf/dynsym.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* For dynsym_find(), which is for dynamic linkers: their tables take a few KiB. */
#define MAX_LINKER_TABLE_BYTES (UINT64_C(4) << 20)

static int walk(const uint8_t *symbols, uint64_t symbol_bytes, const char *strings,
		uint64_t string_bytes, dynsym_fn fn, void *data)
{
	Elf64_Sym symbol;
	int ended = 0;

	for (uint64_t at = 0; !ended && symbol_bytes - at >= sizeof(symbol); at += sizeof(symbol)) {
		memcpy(&symbol, symbols + at, sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= string_bytes ||
		    !memchr(strings + symbol.st_name, '\0', string_bytes - symbol.st_name))
			continue;
		ended = fn(data, strings + symbol.st_name, symbol.st_value);
	}
	return ended;
}

int dynsym_each(struct elf_file *elf, uint64_t limit, dynsym_fn fn, void *data)
{
	struct elf_section symbol_section, string_section;
	uint8_t *symbols = NULL, *strings = NULL;
	int found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, &symbol_section);
	int err;

	if (found > 0)
		found = elf_file_find_section(elf, ".dynstr", SHT_STRTAB, &string_section);
	if (found <= 0)
		return found;
	err = elf_file_read_section(elf, &symbol_section, limit, &symbols);
	if (!err)
		err = elf_file_read_section(elf, &string_section, limit, &strings);
	if (!err)
		err = walk(symbols, symbol_section.bytes, (const char *)strings,
			   string_section.bytes, fn, data);
	free(symbols);
	free(strings);
	return err;
}

struct wanted_symbol {
	const char *name;
	uint64_t *va;
};

static int take_wanted(void *data, const char *name, uint64_t va)
{
	const struct wanted_symbol *wanted = data;

	if (strcmp(name, wanted->name) != 0)
		return 0;
	*wanted->va = va;
	return 1;
}

int dynsym_find(struct elf_file *elf, const char *name, uint64_t *va)
{
	struct wanted_symbol wanted = { name, va };

	return dynsym_each(elf, MAX_LINKER_TABLE_BYTES, take_wanted, &wanted);
}
