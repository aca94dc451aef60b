/* SPDX-License-Identifier: MIT */
/* Reading the descriptors of a frame table one behind the other, for frametable.c and frametable_scan.c. */
#ifndef CODE_FRAME_DESCR_H
#define CODE_FRAME_DESCR_H

#include "code/frametable.h"
#include "elf/data_image.h"

enum { MIN_DESCRIPTOR_BYTES = 16 };

/* Where in a part of the data we are. */
struct frame_cursor {
	const struct data_part *part;
	uint64_t at;
	bool is_damaged;
};

/* The cursor at VA; its part is NULL if the data does not have that. */
struct frame_cursor frame_cursor_at(const struct data_image *image, uint64_t va);

/* The next BYTES bytes, at most 8, as a number; 0, and is_damaged, behind the end of the data. */
uint64_t frame_get(struct frame_cursor *c, size_t bytes);

/* The next descriptor; is_damaged if it reaches past the data, or has what cannot be. */
struct frame_descr frame_get_descr(struct frame_cursor *c);

#endif
