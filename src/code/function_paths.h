/* SPDX-License-Identifier: MIT */
/*
 * Search the debug information of calls for a name that no function of the file has: a definition
 * that an initialiser runs, or a function that was inlined wherever it is called.
 */
#ifndef CODE_FUNCTION_PATHS_H
#define CODE_FUNCTION_PATHS_H

#include <stdbool.h>
#include "code/functions.h"
#include "elf/elf_file.h"

/*
 * Set *FOUND to the initialiser that stacks call NAME: "Service", or "Service.table" while it runs
 * the definition of `table`. If no initialiser has the name, set *FOUND to NULL. FUNCTIONS are the
 * functions of ELF.
 * Returns 0 or -ENOMEM.
 */
int function_paths_find_initialiser(struct ocp_ctx *ctx, struct elf_file *elf,
				    const struct functions *functions, const char *name,
				    const struct function **found);

/* A place in the code of a function. */
struct function_path_place {
	char *file; /* NULL: not found; the caller frees it */
	unsigned int line;
};

/* Set PLACE to a place of the code of the function NAME that was inlined. Returns 0 or -ENOMEM. */
int function_paths_find_inlined(struct ocp_ctx *ctx, struct elf_file *elf, const char *name,
				struct function_path_place *place);

#endif
