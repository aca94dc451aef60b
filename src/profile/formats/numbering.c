// SPDX-License-Identifier: MIT
#include "profile/formats/numbering.h"
#include "base/search.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct numbered {
	size_t number, bytes;
	const void *key; /* points to `own`, except in a temporary key for a search */
	unsigned char own[];
};

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->bytes != y->bytes)
		return COMPARE(x->bytes, y->bytes);
	return memcmp(x->key, y->key, x->bytes);
}

bool numbering_of(struct numbering *numbering, const void *key, size_t bytes, size_t *number,
		  bool *is_new)
{
	const struct numbered wanted = { .bytes = bytes, .key = key };
	struct numbered **found = tfind(&wanted, &numbering->tree, compare_numbered);
	struct numbered *added;

	*is_new = !found;
	if (found) {
		*number = (*found)->number;
		return true;
	}
	added = malloc(sizeof(*added) + bytes);
	if (!added)
		return false;
	*added = (struct numbered){ .number = numbering->n, .bytes = bytes, .key = added->own };
	memcpy(added->own, key, bytes);
	if (!tsearch(added, &numbering->tree, compare_numbered)) {
		free(added);
		return false;
	}
	*number = numbering->n++;
	return true;
}

void numbering_free(struct numbering *numbering)
{
	tdestroy(numbering->tree, free);
	*numbering = (struct numbering){ 0 };
}
