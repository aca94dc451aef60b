/* SPDX-License-Identifier: MIT */
/*
 * The parts of a linked file that the search for dormant probes reads: its code, its writable data
 * and the relocations of that data. All sizes and offsets have been checked.
 */
#ifndef DORMANT_OBJECT_H
#define DORMANT_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "elf/elf_file.h"

enum object_kind {
	OBJECT_CODE,
	OBJECT_DATA, /* writable, with bytes in the file */
	OBJECT_RELOCATIONS,
	OBJECT_SYMBOLS, /* for the dynamic linker */
	OBJECT_STRINGS, /* their names */
};

struct object_section {
	enum object_kind kind;
	uint32_t index; /* in the file */
	uint32_t link;
	uint64_t off, va;
	uint8_t *bytes;
	size_t n_bytes;
};

/*
 * A word that the dynamic linker fills with the address of a symbol of another file (external.c).
 * If that address is known, VA is the address minus the bias of this file, and BYTES are the bytes
 * from VA - 8 on.
 */
struct object_external {
	uint64_t slot_va;
	const char *symbol;
	uint64_t va; /* 0: unknown */
	uint8_t *bytes;
	size_t n_bytes;
};

/* The element of LIST, which is sorted by slot_va, for the word at SLOT_VA; or NULL. */
const struct object_external *object_find_external(const struct object_external *list, size_t n,
						   uint64_t slot_va);

struct object {
	struct ocp_ctx *ctx;
	bool is_fixed;			 /* the file runs at its link-time addresses */
	struct object_section *sections; /* by kind, then by address */
	size_t n_sections;
	bool owns_bytes;
	const struct object_external *externals; /* by slot_va */
	size_t n_externals;
};

/*
 * Add SECTION to OBJECT if it is of one of these kinds. The loader uses segments only, and section
 * headers may be wrong. So code and data are added only if one of the SEGMENTS, with the right
 * permissions, puts the section's bytes at the section's addresses.
 */
int object_add(struct object *object, const struct elf_section *section,
	       const struct elf_segment *segments, size_t n_segments);

/* Sort the sections, after the last one was added. */
void object_sort(struct object *object);

/* Read the sections of ELF with their bytes; -EBADMSG if they exceed the limits. */
int object_read(struct ocp_ctx *ctx, struct elf_file *elf, struct object *object);
void object_free(struct object *object);

/* The section with this index in the file if it is of this kind; or NULL. */
const struct object_section *object_section_at(const struct object *object, uint32_t index,
					       enum object_kind kind);

/* Read the word at VA of the writable data from the file. Returns false if there is none. */
bool object_read_data(const struct object *object, uint64_t va, uint64_t *word);

#endif
