/* SPDX-License-Identifier: MIT */
/*
 * The OCaml functions of an executable that has no symbols, not even those of .dynsym: bounds from
 * .eh_frame, names from the frame tables. Functions that neither call nor allocate have no name there, nor
 * have those that were compiled without -g. They are not found.
 */
#ifndef CODE_BARE_FUNCTIONS_H
#define CODE_BARE_FUNCTIONS_H

#include "code/ocaml_name.h"
#include "elf/elf_file.h"

struct bare_functions {
	uint64_t *entries; /* of all functions, C's as well; sorted, each once */
	size_t n_entries;
	bool has_ocaml_stacks; /* OCaml 5 */
};

/* NAME has the address as its stamp. A value other than 0 ends the reading, which returns it. */
typedef int (*bare_function_fn)(void *data, uint64_t va, uint64_t bytes,
				const struct ocaml_name *name);

/*
 * Call FN(DATA, ...) for each of the functions of ELF, by address, and fill *FUNCTIONS, whose arrays the
 * caller frees, also after an error. -ENODATA: the file has no frame tables.
 */
int bare_functions_read(struct ocp_ctx *ctx, struct elf_file *elf, bare_function_fn fn, void *data,
			struct bare_functions *functions);

#endif
