/* SPDX-License-Identifier: MIT */
/* Untrusted text that is written to a terminal. */
#ifndef BASE_SANITIZE_H
#define BASE_SANITIZE_H

#include <stddef.h>
#include <stdio.h>

/*
 * The number of bytes at AT that control a terminal instead of being shown; 0: none, or the end of
 * the text. These are the control characters, also those of C1 in UTF-8 (U+009B equals ESC [), and
 * the characters that change the direction of text.
 */
static inline size_t unsafe_bytes(const char *at)
{
	const unsigned char *c = (const unsigned char *)at;

	if (!*c)
		return 0;
	if (*c < ' ' || *c == 0x7f)
		return 1;
	if (*c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
		return 2;
	if (*c != 0xe2)
		return 0;
	/* U+2028 to U+202E, U+2066 to U+2069 */
	return (c[1] == 0x80 && c[2] >= 0xa8 && c[2] <= 0xae) ||
			       (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9)
		       ? 3
		       : 0;
}

/*
 * Replace what would control a terminal by '?', in place. Operands come from untrusted files,
 * processes and clients. A message stays one line.
 */
void make_one_line(char *text);

/* Write TEXT to F, in the same way. */
void put_one_line(FILE *f, const char *text);

#endif
