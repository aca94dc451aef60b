// SPDX-License-Identifier: MIT
#include "base/sanitize.h"

void make_one_line(char *text)
{
	char *to = text;

	while (*text) {
		const size_t unsafe = unsafe_bytes(text);

		*to++ = unsafe ? '?' : *text;
		text += unsafe ? unsafe : 1;
	}
	*to = '\0';
}

void put_one_line(FILE *f, const char *text)
{
	while (*text) {
		const size_t unsafe = unsafe_bytes(text);

		fputc(unsafe ? '?' : *text, f);
		text += unsafe ? unsafe : 1;
	}
}
