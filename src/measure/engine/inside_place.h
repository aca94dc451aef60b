/* SPDX-License-Identifier: MIT */
/* Decides which arguments of probes the engine `inside` can read, to match pairs by them. */
#ifndef MEASURE_INSIDE_PLACE_H
#define MEASURE_INSIDE_PLACE_H

#include <linux/types.h>
#include <stdbool.h>

#include "args.h"
#include "inside/inside.h"

/*
 * Set *PLACE to the location of the argument SPEC. Returns false if the argument is not an OCaml
 * value, or is in memory other than the stack: reading from a wrong address would end the process.
 */
bool inside_place_of(const struct arg_spec *spec, struct inside_place *place);

#endif
