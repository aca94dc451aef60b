/* SPDX-License-Identifier: MIT */
/*
 * Reads the parts of a linked file in which dormant probes are searched for: its code, its writable
 * data and the relocations of that data. All sizes and offsets in the result have been checked.
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
	OBJECT_SYMBOLS, /* the symbols for the dynamic linker (.dynsym) */
	OBJECT_STRINGS, /* the names of OBJECT_SYMBOLS */
};

struct object_section {
	enum object_kind kind;
	uint32_t index; /* index of the section in the file */
	uint32_t link;
	uint64_t off, va;
	uint8_t *bytes;
	size_t n_bytes;
};

/*
 * A word that the dynamic linker fills with the address of a symbol of another file (see
 * external.c). If this address is known, `va` is the address minus the load bias of this file, and
 * `bytes` are the bytes from va - 8 on, as in the other file.
 */
struct object_external {
	uint64_t slot_va;
	const char *symbol;
	uint64_t va; /* 0: the address is not known */
	uint8_t *bytes;
	size_t n_bytes;
};

/* LIST is sorted by slot_va. Return its element for the word at SLOT_VA; NULL if there is none. */
const struct object_external *object_find_external(const struct object_external *list, size_t n,
						   uint64_t slot_va);

struct object {
	struct ocp_ctx *ctx;
	bool is_fixed;			 /* the file runs at its link-time addresses */
	struct object_section *sections; /* sorted by kind, then by address */
	size_t n_sections;
	bool owns_bytes;
	const struct object_external *externals; /* sorted by slot_va */
	size_t n_externals;
};

/*
 * Add SECTION to OBJECT if it is of one of the kinds of enum object_kind. The loader uses segments,
 * not section headers. So add a section of code or data only if one of the SEGMENTS has the right
 * permissions and maps the bytes of the section at the addresses of the section.
 */
int object_add(struct object *object, const struct elf_section *section,
	       const struct elf_segment *segments, size_t n_segments);

/* Sort the sections. Call this once, after all sections were added. */
void object_sort(struct object *object);

/* Read the sections of ELF with their bytes. Returns -EBADMSG if the sections exceed the limits. */
int object_read(struct ocp_ctx *ctx, struct elf_file *elf, struct object *object);
void object_free(struct object *object);

/* Return the section whose index in the file is INDEX if it is of this KIND, otherwise NULL. */
const struct object_section *object_section_at(const struct object *object, uint32_t index,
					       enum object_kind kind);

/*
 * Read the word at VA from the writable data in the file. Return false if the file has no writable
 * data at VA.
 */
bool object_read_data(const struct object *object, uint64_t va, uint64_t *word);

#endif
