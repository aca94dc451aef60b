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
 * Set *MAY to false if ELF does not refer to OCaml data of other files, as most libraries do not;
 * to true if ELF may refer to such data. This reads only the dynamic symbols.
 */
int external_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may);

/*
 * List the references of OBJECT to OCaml data of other files, sorted by the address of the GOT
 * word. The caller frees *EXTERNALS. In each element only slot_va and `symbol` are set; `symbol`
 * points into OBJECT's bytes.
 */
int external_list(const struct object *object, struct object_external **externals, size_t *n);

/*
 * Call FN(DATA, VA) for each address VA where OBJECT has the code of a dormant probe that loads its
 * marker's address from one of the EXTERNALS. The name of such a probe is only in the file that
 * defines the marker.
 */
typedef void (*external_site_fn)(void *data, uint64_t va);
void external_each_site(const struct object *object, const struct object_external *externals,
			size_t n, external_site_fn fn, void *data);

#endif
