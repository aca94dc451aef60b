/* SPDX-License-Identifier: MIT */
/* Make untrusted text safe for a terminal by replacing the characters that control terminals. */
#ifndef BASE_SANITIZE_H
#define BASE_SANITIZE_H

#include <stddef.h>
#include <stdio.h>

/*
 * Return the number of bytes of the character at AT if a terminal would obey this character instead
 * of showing it; 0 if the terminal shows the character, or at the end of the text. Characters that
 * a terminal obeys are the control characters, including C1 in UTF-8 (U+009B equals ESC [), and the
 * characters that change the direction of text.
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
 * Replace each character that would control a terminal by '?', in place, so that a message stays on
 * one line. Parts of messages come from untrusted files, processes and clients.
 */
void make_one_line(char *text);

/* Write TEXT to F, with the same replacements as in make_one_line(). */
void put_one_line(FILE *f, const char *text);

#endif
