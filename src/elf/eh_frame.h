/* SPDX-License-Identifier: MIT */
/* The bounds of functions, from .eh_frame: a program has it also when it has no symbols. */
#ifndef ELF_EH_FRAME_H
#define ELF_EH_FRAME_H

#include <stdint.h>
#include "elf/elf_file.h"

/* A value other than 0 ends the walk, which returns it. */
typedef int (*eh_frame_fn)(void *data, uint64_t va, uint64_t bytes);

/*
 * Call FN(DATA, ...) for each function that .eh_frame describes, in its order. Returns 0, what FN
 * returned, or a negative errno; -EBADMSG if the section is larger than the limit. Entries that are damaged,
 * or in an unusual form, are left out. A file without the section is no error.
 */
int eh_frame_each(struct elf_file *elf, eh_frame_fn fn, void *data);

#endif
