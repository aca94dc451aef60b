/* SPDX-License-Identifier: MIT */
/*
 * What the search for dormant probes reads of a linked file: its code, the data it can write to,
 * and what the dynamic linker is told to store there. Every extent was checked.
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
	OBJECT_SYMBOLS, /* of the dynamic linker */
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
 * A word that the dynamic linker fills with the address of what another file defines (external.c).
 * Where that is known, VA is its address as seen from this file: as if both were moved by the same
 * bias. BYTES are those from VA - 8 on.
 */
struct object_external {
	uint64_t slot_va;
	const char *symbol;
	uint64_t va; /* 0: not known */
	uint8_t *bytes;
	size_t n_bytes;
};

/* The one of the word at SLOT_VA in LIST, which is sorted by that; or NULL. */
const struct object_external *object_find_external(const struct object_external *list, size_t n,
						   uint64_t slot_va);

struct object {
	struct ocp_ctx *ctx;
	bool is_fixed;			 /* it runs at its link-time addresses */
	struct object_section *sections; /* by kind, then by address */
	size_t n_sections;
	bool owns_bytes;
	const struct object_external *externals; /* by slot_va */
	size_t n_externals;
};

/*
 * Add SECTION to OBJECT if it is one of these kinds. Code and data are taken only if one of the
 * SEGMENTS, with the rights for it, puts the section's bytes at the addresses that it claims: the
 * loader goes by segments, section headers are what somebody wrote next to them.
 */
int object_add(struct object *object, const struct elf_section *section,
	       const struct elf_segment *segments, size_t n_segments);

/* After the last one was added. */
void object_sort(struct object *object);

/* Read the sections of ELF with their bytes; -EBADMSG if they claim more than is believed. */
int object_read(struct ocp_ctx *ctx, struct elf_file *elf, struct object *object);
void object_free(struct object *object);

/* The section with this index in the file, if it is of this kind; or NULL. */
const struct object_section *object_section_at(const struct object *object, uint32_t index,
					       enum object_kind kind);

/* The word at VA of what the program can write to, as the file has it. False: there is none. */
bool object_read_data(const struct object *object, uint64_t va, uint64_t *word);

#endif
