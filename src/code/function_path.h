/* SPDX-License-Identifier: MIT */
/*
 * Find the modules and functions that contain a function, from the debug information of the calls
 * in the function.
 */
#ifndef CODE_FUNCTION_PATH_H
#define CODE_FUNCTION_PATH_H

#include "code/frametable.h"
#include "code/functions.h"
#include "code/ocaml_name.h"

/*
 * Set NAME to the name of FUNCTION, whose symbol is known, preceded by the modules and functions
 * that contain FUNCTION. Returns false if no call in FUNCTION has debug information that names
 * them.
 */
bool function_path_find(const struct frametable *table, const struct function *function,
			char name[OCAML_NAME_BYTES]);

/*
 * Set PATH to the common start of the paths of all calls in the code at VA, which has BYTES_OF_CODE
 * bytes. Returns false if the paths have no common start.
 */
bool function_path_common(const struct frametable *table, uint64_t va, uint64_t bytes_of_code,
			  char path[OCAML_NAME_BYTES]);

#endif
