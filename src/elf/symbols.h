/* SPDX-License-Identifier: MIT */
/* Read the symbol tables of an ELF file: find functions by address, and symbols by name. */
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"

struct symbol_of {
	uint64_t va;	  /* input: a link-time address */
	const char *name; /* result: the function that contains va; NULL: unknown */
	uint64_t off;	  /* result: the offset of va from the start of that function */
};

/*
 * Sort ASKED[0..N) by va and find the functions that contain these addresses. The names point into
 * *NAMES, which the caller frees. A file without symbols is not an error. Returns -EBADMSG if the
 * table is damaged or exceeds the limits.
 */
int symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_of *asked, size_t n,
		 char **names);

/*
 * Return the element with address VA of ASKED[0..N), which symbols_find() has sorted. Return NULL
 * if no element has this address.
 */
const struct symbol_of *symbols_answer(const struct symbol_of *asked, size_t n, uint64_t va);

/* ---- symbol tables --------------------------------------------------------------------------- */

/* Read a symbol table piece by piece, since the table may be large or hostile. */

/*
 * Return 0 to continue. Any other value ends the walk, and symbol_table_each() returns that value.
 */
typedef int (*symbol_fn)(void *data, const Elf64_Sym *symbol);

/*
 * Call FN(DATA, symbol) for each symbol of the section TABLE. Returns 0, what FN returned, or a
 * negative errno; -EBADMSG if the table is damaged or exceeds the limits.
 */
int symbol_table_each(struct ocp_ctx *ctx, struct elf_file *elf, const struct elf_section *table,
		      symbol_fn fn, void *data);

/* ---- symbols by name ------------------------------------------------------------------------- */

/* Find symbols of an ELF file by their exact names: functions and data, global and local. */

struct named_symbol {
	const char *name; /* input: a name of at most NAMED_SYMBOL_BYTES bytes */
	uint64_t va; /* result: a link-time address, or the offset of a thread-local variable */
	uint64_t bytes;
	bool is_defined;
	bool is_thread_local;
	/* there are several local symbols of this name, with different addresses */
	bool is_ambiguous;
};

enum { NAMED_SYMBOL_BYTES = 63 };

/*
 * Find ASKED[0..N) in .symtab or, in a stripped file, in .dynsym. A global symbol is preferred to
 * local symbols of the same name. Set *IS_STRIPPED to true if there is no .symtab, else to false. A
 * file without symbols is not an error. Returns -EBADMSG if the tables are damaged or exceed the
 * limits. The memory needed does not depend on the size of the file.
 */
int named_symbols_find(struct ocp_ctx *ctx, struct elf_file *elf, struct named_symbol *asked,
		       size_t n, bool *is_stripped);

/* ---- dynamic symbols ------------------------------------------------------------------------- */

/* The symbols that a shared object exports. */

/*
 * Return 0 to continue. Any other value ends the walk, and dynsym_each() returns that value. NAME
 * is valid only during the call.
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

/* ---- versions of symbols --------------------------------------------------------------------- */

/*
 * The versions of dynamic symbols (.gnu.version, .gnu.version_d). A library keeps old versions of a
 * function for older programs that were linked with them: `pow` of GLIBC_2.2.5 beside `pow` of
 * GLIBC_2.29, with which new programs are linked.
 */

struct symbol_versions;

struct symbol_version {
	uint32_t name_off; /* offset of the version's name in .dynstr; 0: no version */
	uint16_t index;	   /* index of the version, usually greater for later versions */
	bool is_hidden;	   /* programs are not linked with this version */
};

/*
 * Read the symbol versions of ELF. If the symbols of ELF have no versions, set *OUT to NULL and
 * return 0.
 */
int symbol_versions_read(struct ocp_ctx *ctx, struct elf_file *elf, struct symbol_versions **out);
void symbol_versions_free(struct symbol_versions *versions);

/* Return the version of symbol number I of .dynsym. VERSIONS may be NULL. */
struct symbol_version symbol_versions_of(const struct symbol_versions *versions, size_t i);

#endif
