// SPDX-License-Identifier: MIT
#include "code/frame_descr.h"

#include <string.h>

enum {
	CHUNK_END = 0xffff,
	HAS_DEBUG = 1,
	HAS_LENGTHS = 2,
};

struct frame_cursor frame_cursor_at(const struct data_image *image, uint64_t va)
{
	struct frame_cursor c = { .part = data_image_part(image, va) };

	if (c.part)
		c.at = va - c.part->va;
	return c;
}

uint64_t frame_get(struct frame_cursor *c, size_t bytes)
{
	uint64_t value = 0;

	if (c->at > c->part->n || bytes > c->part->n - c->at) {
		c->is_damaged = true;
		return 0;
	}
	memcpy(&value, c->part->bytes + c->at, bytes);
	c->at += bytes;
	return value;
}

static void align(struct frame_cursor *c, uint64_t to)
{
	c->at += -(c->part->va + c->at) & (to - 1);
}

/*
 * Read N offsets of debug information. Return the address that the first one other than 0 leads to:
 * the debug information that Printexc shows.
 */
static uint64_t get_debuginfo(struct frame_cursor *c, uint64_t n)
{
	uint64_t found = 0;

	align(c, 4);
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t at = c->at, offset = frame_get(c, 4);

		if (found || !offset)
			continue;
		if (offset >= c->part->n - at)
			c->is_damaged = true;
		found = c->part->va + at + offset;
	}
	return found;
}

struct frame_descr frame_get_descr(struct frame_cursor *c)
{
	struct frame_descr descr = { .va = frame_get(c, 8) };
	const uint64_t size = frame_get(c, 2), n_live = frame_get(c, 2);
	uint64_t n_places = 1;

	if (size == CHUNK_END) {
		descr.is_chunk_end = true;
		c->is_damaged |= n_live != 0;
	} else {
		descr.frame_bytes = (uint16_t)(size & ~(uint64_t)(HAS_DEBUG | HAS_LENGTHS));
		descr.collects = size & HAS_LENGTHS;
		c->at += 2 * n_live;
		if (size & HAS_LENGTHS) {
			n_places = frame_get(c, 1);
			c->at += n_places;
		}
		if (size & HAS_DEBUG)
			descr.debuginfo_va = get_debuginfo(c, n_places);
	}
	align(c, 8);
	c->is_damaged |= c->at > c->part->n;
	return descr;
}
