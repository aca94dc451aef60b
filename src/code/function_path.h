/* SPDX-License-Identifier: MIT */
/* Find where in its file a function is, from the debug information of the calls in it. */
#ifndef CODE_FUNCTION_PATH_H
#define CODE_FUNCTION_PATH_H

#include "code/frametable.h"
#include "code/functions.h"
#include "code/ocaml_name.h"

/*
 * Set NAME to the name of FUNCTION, whose symbol is known, with the modules and functions that
 * contain it. Returns false if no call in FUNCTION has debug information that tells them.
 */
bool function_path_find(const struct frametable *table, const struct function *function,
			char name[OCAML_NAME_BYTES]);

/*
 * Set PATH to the common start of the paths of all calls in the code at VA, BYTES_OF_CODE long.
 * Returns false if there is none.
 */
bool function_path_common(const struct frametable *table, uint64_t va, uint64_t bytes_of_code,
			  char path[OCAML_NAME_BYTES]);

#endif
