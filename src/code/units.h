/* SPDX-License-Identifier: MIT */
/*
 * The compilation units of OCaml in an executable. The compiler marks the start and the end of each
 * unit's code (camlService__code_begin, camlService__code_end; from 5.1 on camlService.code_begin).
 */
#ifndef CODE_UNITS_H
#define CODE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/functions.h"

struct unit {
	char *symbol; /* "camlMylib__Service"; also "caml_startup" and "caml_system" */
	size_t symbol_bytes;
	/* of the unit's code; end_va is 0 if the file has no mark for the end */
	uint64_t start_va, end_va;
	uint64_t frametable_va; /* the address of the unit's frame table; 0: unknown */
	/* names keep "Stdlib." or "Dune__exe.", since another unit has the name without it */
	bool keeps_prefix;
};

struct units {
	struct unit *units; /* sorted by symbol */
	size_t n;
	const struct unit **by_va;
};

/*
 * Add SYMBOL with address VA, if it is a mark. Returns 1 if it is a mark, 0 if not, or a negative
 * errno. Call units_finish after the last symbol.
 */
int units_add(struct ocp_ctx *ctx, struct units *units, const char *symbol, uint64_t va);
int units_finish(struct ocp_ctx *ctx, struct units *units);
void units_free(struct units *units);

/*
 * Return the unit of the function SYMBOL, or NULL. SYMBOL begins with the symbol of
 * this unit; if it begins with the symbols of several units, the one with the longest symbol is
 * returned. A structured name contains the name of its unit.
 */
const struct unit *units_of_symbol(const struct units *units, const char *symbol);
/* Return the unit whose code contains VA; NULL if there is none. */
const struct unit *units_at(const struct units *units, uint64_t va);

/* ---- source files of units ------------------------------------------------------------------- */

/*
 * Find the source file of each OCaml function in the frame tables. A stripped program still has
 * frame tables, since OCaml's collector needs them.
 */

struct unit_files;

/*
 * Read the frame tables of ELF. FUNCTIONS are the functions of ELF, and must exist as long as *OUT.
 * Without valid tables all files are unknown, which is not an error.
 */
int unit_files_read(struct ocp_ctx *ctx, struct elf_file *elf, const struct functions *functions,
		    struct unit_files **out);
void unit_files_free(struct unit_files *files);

/* Return the source file of an OCaml function, as given to the compiler; NULL if it is unknown. */
const char *unit_files_of(struct unit_files *files, const struct function *function);

#endif
