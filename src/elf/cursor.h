/* SPDX-License-Identifier: MIT */
/*
 * Reading numbers from bytes that may be damaged. After an attempt to read past the end, all
 * numbers are 0.
 */
#ifndef ELF_CURSOR_H
#define ELF_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const uint8_t *at, *end;
	bool has_failed; /* a read went past the end */
};

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

/*
 * Return the address of the next N bytes, and move past them. Return NULL if fewer bytes are left.
 */
static inline const uint8_t *cursor_bytes(struct cursor *c, uint64_t n)
{
	const uint8_t *bytes = c->at;

	if (c->has_failed || n > cursor_left(c)) {
		c->has_failed = true;
		c->at = c->end;
		return NULL;
	}
	c->at += n;
	return bytes;
}

/* Read the next N bytes, at most 8, as a number without sign. */
static inline uint64_t cursor_unsigned(struct cursor *c, size_t n)
{
	const uint8_t *bytes = cursor_bytes(c, n);
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, n); /* the file and this machine are both little-endian */
	return value;
}

static inline int64_t cursor_signed(struct cursor *c, size_t n)
{
	const unsigned int unused = 64 - 8 * (unsigned int)n;

	return (int64_t)(cursor_unsigned(c, n) << unused) >> unused;
}

/* Read an LEB128 number (DWARF 5, section 7.6). Bits above the 64th are lost. */
static inline uint64_t cursor_leb(struct cursor *c, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned int shift = 0;

	do {
		byte = cursor_unsigned(c, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && (byte & 0x40))
		value |= ~UINT64_C(0) << shift;
	return value;
}

static inline uint64_t cursor_uleb(struct cursor *c)
{
	return cursor_leb(c, false);
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	return (int64_t)cursor_leb(c, true);
}

#endif
