/* SPDX-License-Identifier: MIT */
#ifndef BASE_BASE_NAME_H
#define BASE_BASE_NAME_H

#include <string.h>

/* Return the part of PATH behind its last slash, or PATH if it has no slash. */
static inline const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

#endif
