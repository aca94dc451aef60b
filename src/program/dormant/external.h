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
 * May ELF refer to OCaml data of other files? Most libraries do not. This takes one read of the
 * dynamic symbols.
 */
int external_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

/*
 * List the references of OBJECT to other files, by the address of the GOT word. The caller frees
 * *EXTERNALS. Only the address and the name are set; the names point into OBJECT's bytes.
 */
int external_list(const struct object *object, struct object_external **externals, size_t *n);

/*
 * Call FN(DATA, VA) for each place of the code that has the form of a dormant probe and loads its
 * marker from one of the EXTERNALS. Only the other file has the name of that probe.
 */
typedef void (*external_site_fn)(void *data, uint64_t va);
void external_each_site(const struct object *object, const struct object_external *externals,
			size_t n, external_site_fn fn, void *data);

#endif
