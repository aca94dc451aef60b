/* SPDX-License-Identifier: MIT */
/* Finds probes of other files that were inlined into the code of this file. See external.c. */
#ifndef DORMANT_EXTERNAL_H
#define DORMANT_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "program/dormant/object.h"
#include "elf/elf_file.h"

/*
 * Set *MAY to false if ELF does not refer to OCaml data of other files, like most libraries; to
 * true if it may. This reads only the dynamic symbols.
 */
int external_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

/*
 * List the references of OBJECT to OCaml data of other files, sorted by the address of the GOT
 * word. The caller frees *EXTERNALS. Only slot_va and `symbol` are set; the symbols point into
 * OBJECT's bytes.
 */
int external_list(const struct object *object, struct object_external **externals, size_t *n);

/*
 * Call FN(DATA, VA) for each address of code that has the form of a dormant probe and loads its
 * marker from one of the EXTERNALS. The name of such a probe is only in the other file.
 */
typedef void (*external_site_fn)(void *data, uint64_t va);
void external_each_site(const struct object *object, const struct object_external *externals,
			size_t n, external_site_fn fn, void *data);

#endif
