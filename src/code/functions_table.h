/* SPDX-License-Identifier: MIT */
/* The table of functions that functions.c fills and function_search.c searches. */
#ifndef CODE_FUNCTIONS_TABLE_H
#define CODE_FUNCTIONS_TABLE_H

#include "code/functions.h"
#include "code/units.h"
#include "elf/symbols.h"

enum { FUNCTIONS_BLOCK_BYTES = 1 << 16 };

/* Memory for names, which are written one behind the other. */
struct name_block {
	struct name_block *next;
	size_t used;
	char bytes[FUNCTIONS_BLOCK_BYTES];
};

struct functions {
	struct ocp_ctx *ctx;
	struct elf_file *elf; /* only while the file is read */
	char *strings;
	size_t n_strings;
	struct symbol_versions *versions; /* the versions in .dynsym, only while .dynsym is read */
	size_t n_taken;			  /* symbols read so far */
	struct function *list;
	size_t n;
	const struct function **by_name; /* the OCaml functions, sorted by name */
	size_t n_ocaml;
	/* the functions of by_name whose flat_name differs from their name, sorted by flat_name */
	const struct function **by_flat_name;
	size_t n_flat;
	const struct function **by_symbol; /* the functions of C and glue, sorted by name */
	uint64_t *entries;
	size_t n_entries;
	struct units units;
	struct name_block *blocks;
	size_t n_blocks;
	enum functions_source source;
	bool has_runtime, is_flambda;
	bool has_ocaml_stacks; /* only set for a file without symbols: the program is OCaml 5 */
};

#endif
