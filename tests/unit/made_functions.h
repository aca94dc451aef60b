/* SPDX-License-Identifier: MIT */
/*
 * Executables that are made by hand, and the functions that are read from them. The file has code
 * from CODE_VA and data from DATA_VA on, a page each, and its tables behind them.
 */
#ifndef TESTS_UNIT_MADE_FUNCTIONS_H
#define TESTS_UNIT_MADE_FUNCTIONS_H

#include <elf.h>

#include "code/functions.h"
#include "code/units.h"
#include "unit.h"

enum {
	PAGE = 0x1000,
	CODE_VA = 0x401000,
	DATA_VA = 0x402000,
	SYMBOLS = 3 * PAGE,
	STRINGS = 6 * PAGE,
	RELOCATIONS = 9 * PAGE,
	SECTION_NAMES = 11 * PAGE,
	SECTIONS = 12 * PAGE,
	ALL = 13 * PAGE,
};

enum { NO_SECTION, TABLE, STRING_TABLE, RELA, NAME_TABLE, N_SECTIONS };

struct made {
	uint8_t bytes[ALL];
	size_t n_symbols, n_strings, n_relocations;
	struct ocp_ctx *ctx;
	struct functions *functions;
	struct unit_files *files;
};

Elf64_Shdr *made_section_at(struct made *made, int index);
Elf64_Sym *made_symbol_at(struct made *made, size_t index);
void made_add_symbol(struct made *made, const char *name, uint64_t va, uint64_t bytes, int type);
void made_add(struct made *made, const char *name, uint64_t off, uint64_t bytes);
void made_add_unit(struct made *made, const char *unit, const char *separator, uint64_t start,
		   uint64_t end);
void made_set_word(struct made *made, uint64_t off, uint64_t word);
uint64_t made_info(int arity);
void made_relocate(struct made *made, uint64_t off, uint32_t type, uint32_t index, uint64_t addend);
/* From now on it is position-independent. */
void made_make_relocatable(struct made *made);
/* From now on it has only .dynsym. */
void made_strip(struct made *made);
int made_set_up(void **state);
int made_tear_down(void **state);
int made_read(struct made *made);
void made_read_well(struct made *made);
/* The one function with this symbol. */
const struct function *made_function(const struct made *made, const char *name);
/* The symbols of the functions that are called NAME. */
void made_expect_found(const struct made *made, const char *name, const char *symbols);
void made_expect_error(struct made *made, int err, const char *reason);
/* Symbols of 4.x for made_add_program. */
extern const char *const made_names_4[4];
void made_add_program(struct made *made, const char *separator, const char *const symbols[4]);

#endif
