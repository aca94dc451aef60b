/* SPDX-License-Identifier: MIT */
/* The names of pinned meters. */
#ifndef ENGINE_PIN_NAME_H
#define ENGINE_PIN_NAME_H

#include <stdbool.h>
#include <string.h>

enum { PIN_MAX_NAME_BYTES = 64 };

static inline bool pin_name_is_valid(const char *name)
{
	const size_t bytes = strlen(name);

	return bytes && bytes <= PIN_MAX_NAME_BYTES &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
		       bytes;
}

#endif
