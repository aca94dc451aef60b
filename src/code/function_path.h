/* SPDX-License-Identifier: MIT */
/* Where in its file a function is: what the debug information of its calls says. */
#ifndef CODE_FUNCTION_PATH_H
#define CODE_FUNCTION_PATH_H

#include "code/frametable.h"
#include "code/functions.h"
#include "code/ocaml_name.h"

/*
 * The name of FUNCTION, whose symbol is known, with the modules and functions that it is in. Returns false
 * if no call in it tells.
 */
bool function_path_find(const struct frametable *table, const struct function *function,
			char name[OCAML_NAME_BYTES]);

/*
 * The path that all calls in the code at VA, BYTES_OF_CODE long, have in common. Returns false if there is
 * none.
 */
bool function_path_common(const struct frametable *table, uint64_t va, uint64_t bytes_of_code,
			  char path[OCAML_NAME_BYTES]);

#endif
