/* SPDX-License-Identifier: MIT */
/* The arity of OCaml functions, from the closures in the data of a file. */
#ifndef CODE_ARITY_H
#define CODE_ARITY_H

#include <stddef.h>
#include "code/functions.h"

/*
 * Fill in the arity of LIST[0..N), which is sorted by va, where a closure tells it. Of two closures that
 * contradict each other none is believed.
 */
int arity_read(struct ocp_ctx *ctx, struct elf_file *elf, struct function *list, size_t n);

#endif
