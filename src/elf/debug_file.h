/* SPDX-License-Identifier: MIT */
/*
 * The separate debug file of an ELF file: the symbols and the debug information that strip has
 * removed. Both files have the same build-id.
 */
#ifndef ELF_DEBUG_FILE_H
#define ELF_DEBUG_FILE_H

#include <stdint.h>
#include "elf/elf_file.h"
#include "elf/lines.h"

struct debug_file;

/*
 * Open the debug file of ELF: /usr/lib/debug/.build-id/ab/cdef.debug or, if this does not exist and
 * the environment variable DEBUGINFOD_URLS is set, the file that the library libdebuginfod.so.1
 * gets from these servers (debuginfod(8)). Set *OUT to NULL if there is no such file. The only
 * error is -ENOMEM.
 */
int debug_file_open(struct ocp_ctx *ctx, struct elf_file *elf, struct debug_file **out);
/* FILE may be NULL. */
void debug_file_close(struct debug_file *file);

/*
 * Set *NAME to the function that contains the link-time address VA, or to NULL if it is unknown.
 * The caller frees it. The only error is -ENOMEM.
 */
int debug_file_function(struct debug_file *file, uint64_t va, char **name);

/* Return the lines of FILE, which are valid until FILE is closed. */
const struct address_lines *debug_file_lines(const struct debug_file *file);

#endif
