/* SPDX-License-Identifier: MIT */
/*
 * The one way a linked file is changed in its size: data behind the program's own, and sections
 * that are not loaded. See layout.c.
 */
#ifndef LINK_LAYOUT_H
#define LINK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"

/* Where the segment of the program's writable data, the last one, ends and can be made longer. */
struct layout_room {
	size_t segment;
	uint64_t end_off; /* of its bytes in the file so far */
	uint64_t va;	  /* of the new data, 16-aligned, and where that will be in the file */
	uint64_t off;
};

/* -EOPNOTSUPP: the file is laid out in a way that leaves no room. */
int layout_find_room(const struct image *image, struct layout_room *room);

/* A section to be added, or one to be replaced. */
struct layout_section {
	const char *name;
	/* All but sh_name and, if it is not loaded, sh_offset: these are found here. One that is
	 * loaded has its sh_addr inside of the room. */
	Elf64_Shdr header;
	const uint8_t *bytes; /* header.sh_size of them */
	size_t replaces;      /* index of that section; 0: it is added */
};

/*
 * Write IMAGE anew with the N sections. Its bytes are at another address afterwards; pointers into
 * it, as the sections' bytes may be, are void. Added sections get the indices that follow upon the
 * present ones, in their order.
 */
int layout_apply(struct image *image, const struct layout_room *room,
		 const struct layout_section *sections, size_t n);

#endif
