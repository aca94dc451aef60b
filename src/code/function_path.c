// SPDX-License-Identifier: MIT
#include "code/function_path.h"

#include <string.h>

bool function_path_find(const struct frametable *table, const struct function *function,
			char name[OCAML_NAME_BYTES])
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	char longer[OCAML_NAME_BYTES];
	size_t n, n_descrs;
	int best = 0, found;
	const struct frame_descr *list = frametable_list(table, &n_descrs);

	for (size_t i = frametable_from(table, function->va + 1);
	     best < 2 && i < n_descrs && list[i].va - function->va <= function->bytes; i++) {
		n = frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);
		if (!n || locations[n - 1].is_inlined)
			continue;
		found = ocaml_name_add_path(function->full_name, function->path_bytes,
					    locations[n - 1].function, longer);
		if (found > best) {
			best = found;
			memcpy(name, longer, strlen(longer) + 1);
		}
	}
	return best > 0;
}

bool function_path_common(const struct frametable *table, uint64_t va, uint64_t bytes_of_code,
			  char path[OCAML_NAME_BYTES])
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	size_t n_descrs, bytes = 0;
	const struct frame_descr *list = frametable_list(table, &n_descrs);

	path[0] = '\0';
	for (size_t i = frametable_from(table, va + 1);
	     i < n_descrs && list[i].va - va <= bytes_of_code; i++) {
		const size_t n =
			frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);
		const char *function = n ? locations[n - 1].function : "";

		if (n == 0 || locations[n - 1].is_inlined)
			continue;
		if (bytes) {
			bytes = ocaml_name_common_path(path, bytes, function);
			path[bytes] = '\0';
		} else {
			bytes = strlen(function);
			if (bytes >= OCAML_NAME_BYTES)
				return false;
			memcpy(path, function, bytes + 1);
		}
		if (!bytes)
			return false;
	}
	return bytes > 0;
}
