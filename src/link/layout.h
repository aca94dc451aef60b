/* SPDX-License-Identifier: MIT */
/*
 * Add data to a linked file: loaded data, after the program's own, and sections that are not
 * loaded. See layout.c.
 */
#ifndef LINK_LAYOUT_H
#define LINK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"

/*
 * Where new data can be added: at the end of the last segment, which is the one with the writable
 * data.
 */
struct layout_room {
	size_t segment;	  /* the index of that segment */
	uint64_t end_off; /* the end of the segment's bytes in the old file */
	uint64_t va;	  /* the address of the new data, 16-aligned */
	uint64_t off;	  /* the offset of the new data in the new file */
};

/*
 * Find where data can be added to IMAGE. Returns -EOPNOTSUPP if the layout of the file leaves no
 * room.
 */
int layout_find_room(const struct linked_file *image, struct layout_room *room);

/* A section to add or to replace. */
struct layout_section {
	const char *name;
	/*
	 * layout_apply sets sh_name and sh_offset. For a loaded section, the caller sets sh_addr to
	 * an address from layout_room.va on.
	 */
	Elf64_Shdr header;
	const uint8_t *bytes; /* header.sh_size bytes */
	size_t replaces;      /* the index of the section to replace; 0: add a section */
};

/*
 * Rebuild IMAGE with the N SECTIONS. The bytes and the section table of IMAGE are allocated anew:
 * pointers into the old bytes and the old table become invalid. Added sections get the indices
 * after the existing sections, in the order of SECTIONS.
 */
int layout_apply(struct linked_file *image, const struct layout_room *room,
		 const struct layout_section *sections, size_t n);

#endif
