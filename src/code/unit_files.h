/* SPDX-License-Identifier: MIT */
/*
 * Find the source file of each OCaml function in the frame tables. They stay when a program is
 * stripped, since OCaml's collector needs them.
 */
#ifndef CODE_UNIT_FILES_H
#define CODE_UNIT_FILES_H

#include "code/functions.h"

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
