// SPDX-License-Identifier: MIT
#include "serve/web/assets.h"

#include <string.h>

const struct asset *asset_find(const char *path)
{
	for (size_t i = 0; i < n_assets; i++)
		if (strcmp(assets[i].path, path) == 0)
			return &assets[i];
	return NULL;
}
