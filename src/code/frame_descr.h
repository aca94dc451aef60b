/* SPDX-License-Identifier: MIT */
/*
 * Read the descriptors of a frame table one after the other, for frametable.c and
 * frametable_scan.c.
 */
#ifndef CODE_FRAME_DESCR_H
#define CODE_FRAME_DESCR_H

#include "code/frametable.h"
#include "elf/data_image.h"

enum { MIN_DESCRIPTOR_BYTES = 16 };

/* A position in a part of the data. */
struct frame_cursor {
	const struct data_part *part;
	uint64_t at;
	bool is_damaged;
};

/* Return a cursor at VA; its part is NULL if IMAGE does not contain VA. */
struct frame_cursor frame_cursor_at(const struct data_image *image, uint64_t va);

/*
 * Read BYTES bytes, at most 8, as a number. If they are past the end of the data, set is_damaged
 * and return 0.
 */
uint64_t frame_get(struct frame_cursor *c, size_t bytes);

/* Read the next descriptor. Set is_damaged if it reaches past the data or is impossible. */
struct frame_descr frame_get_descr(struct frame_cursor *c);

#endif
