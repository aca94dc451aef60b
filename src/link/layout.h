/* SPDX-License-Identifier: MIT */
/*
 * Add data after the program's own data, and sections that are not loaded, to a linked file. See
 * layout.c.
 */
#ifndef LINK_LAYOUT_H
#define LINK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"

/* The end of the last segment, which has the writable data and can be extended. */
struct layout_room {
	size_t segment;	  /* its index */
	uint64_t end_off; /* the end of its bytes in the old file */
	uint64_t va;	  /* the address of the new data, 16-aligned */
	uint64_t off;	  /* the offset of the new data in the new file */
};

/* Find the room. Returns -EOPNOTSUPP if the layout of the file leaves no room. */
int layout_find_room(const struct image *image, struct layout_room *room);

/* A section to add or to replace. */
struct layout_section {
	const char *name;
	/*
	 * layout_apply sets sh_name and sh_offset. The caller sets the sh_addr of a loaded section,
	 * to an address in the room.
	 */
	Elf64_Shdr header;
	const uint8_t *bytes; /* header.sh_size of them */
	size_t replaces;      /* the index of the replaced section; 0: add it */
};

/*
 * Rebuild IMAGE with the N sections. Its bytes get a new address: pointers into them, such as those
 * of sections, become invalid. Added sections get the next indices, in their order.
 */
int layout_apply(struct image *image, const struct layout_room *room,
		 const struct layout_section *sections, size_t n);

#endif
