/* SPDX-License-Identifier: MIT */
/* An ELF file that a test makes: code, data, and a list of symbols. */
#ifndef TESTS_UNIT_MADE_ELF_H
#define TESTS_UNIT_MADE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MADE_CODE_VA = 0x1000, MADE_DATA_VA = 0x5000, MADE_BYTES = 0x1000, MADE_SYMBOLS = 64 };

struct made_symbol {
	const char *name;
	uint64_t va, bytes;
	bool is_local;
};

struct made_elf {
	uint8_t code[MADE_BYTES], data[MADE_BYTES];
	struct made_symbol symbols[MADE_SYMBOLS];
	size_t n_symbols;
	bool is_stripped; /* without .symtab: its global symbols are in .dynsym */
};

void made_symbol(struct made_elf *made, const char *name, uint64_t va, uint64_t bytes,
		 bool is_local);
/* Change, or remove (VA 0), a symbol that is there. */
void made_symbol_change(struct made_elf *made, const char *name, uint64_t va, uint64_t bytes);

/* The four bytes at code offset AT, as the distance to VA from their end. */
void made_distance(struct made_elf *made, size_t at, uint64_t va);

/* The file, as a descriptor. */
int made_fd(const struct made_elf *made);

/* Change the header of section INDEX of that file: 1 is the symbol table, 2 are its strings. */
void made_section_change(int fd, size_t index, uint64_t off, uint64_t bytes);
/* Where its symbol table is. */
enum { MADE_TABLE_OFF = 0x3000 };

#endif
