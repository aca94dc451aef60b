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

struct unit {
	char *symbol; /* "camlMylib__Service"; also "caml_startup" and "caml_system" */
	size_t symbol_bytes;
	uint64_t start_va, end_va; /* end_va is 0 if the file has no mark for it */
	uint64_t frametable_va;	   /* 0: unknown */
	bool keeps_prefix;	   /* another unit has the name without "Stdlib." or "Dune__exe." */
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
 * Return the unit whose name SYMBOL begins with, the longest one if there are several; NULL if
 * there is none.
 */
const struct unit *units_of_symbol(const struct units *units, const char *symbol);
/* Return the unit whose code contains VA, or NULL. */
const struct unit *units_at(const struct units *units, uint64_t va);

#endif
