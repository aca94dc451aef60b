/* SPDX-License-Identifier: MIT */
/* The arity of OCaml functions, from the closures in the data of a file. */
#ifndef CODE_ARITY_H
#define CODE_ARITY_H

#include <stddef.h>
#include "code/functions.h"

/*
 * Set the arity of each function in LIST[0..N) that has a closure in the data. LIST must be sorted
 * by va. If two closures of the same function have different arities, the function's arity stays
 * ARITY_UNKNOWN.
 */
int arity_read(struct ocp_ctx *ctx, struct elf_file *elf, struct function *list, size_t n);

#endif
