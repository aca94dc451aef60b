/* SPDX-License-Identifier: MIT */
/*
 * The OCaml functions of an executable that has no symbols, not even in .dynsym. Their bounds are
 * found in .eh_frame, their names in the frame tables. Functions that neither call nor allocate,
 * and functions that were compiled without -g, have no name in the frame tables and are not found.
 */
#ifndef CODE_BARE_FUNCTIONS_H
#define CODE_BARE_FUNCTIONS_H

#include "code/ocaml_name.h"
#include "elf/elf_file.h"

struct bare_functions {
	/* the addresses of all functions, including C functions; sorted, each once */
	uint64_t *entries;
	size_t n_entries;
	bool has_ocaml_stacks; /* the program is OCaml 5 */
};

/*
 * The stamp of NAME is the function's address, cut to 32 bits. If the callback returns a value
 * other than 0, bare_functions_read stops and returns that value.
 */
typedef int (*bare_function_fn)(void *data, uint64_t va, uint64_t bytes,
				const struct ocaml_name *name);

/*
 * Call FN(DATA, ...) for each function of ELF that has a name, in the order of addresses. Fill
 * *FUNCTIONS; the caller frees its entries, also after an error. Returns -ENODATA if the file has
 * no frame tables.
 */
int bare_functions_read(struct ocp_ctx *ctx, struct elf_file *elf, bare_function_fn fn, void *data,
			struct bare_functions *functions);

#endif
