/* SPDX-License-Identifier: MIT */
/* Probes of other files, inlined into the code of this one. See external.c. */
#ifndef DORMANT_EXTERNAL_H
#define DORMANT_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "program/dormant/object.h"
#include "elf/elf_file.h"

/*
 * Might ELF refer to OCaml data of other files? Most libraries do not, and it takes one read of
 * their dynamic symbols to know.
 */
int external_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

/*
 * Make the list of what OBJECT refers to in other files, by the address of the word: *EXTERNALS,
 * freed by the caller, with the names of the symbols inside of OBJECT's bytes and nothing else.
 */
int external_list(const struct object *object, struct object_external **externals, size_t *n);

/*
 * Call FN(DATA, VA) for every place of the code that is a dormant probe, by its form, and takes its
 * marker from one of the EXTERNALS. Which probe that is nobody can say without the other file.
 */
typedef void (*external_site_fn)(void *data, uint64_t va);
void external_each_site(const struct object *object, const struct object_external *externals,
			size_t n, external_site_fn fn, void *data);

#endif
