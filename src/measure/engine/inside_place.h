/* SPDX-License-Identifier: MIT */
/* Which arguments of probes can be keys inside a process. */
#ifndef MEASURE_INSIDE_PLACE_H
#define MEASURE_INSIDE_PLACE_H

#include <linux/types.h>
#include <stdbool.h>

#include "args.h"
#include "inside/inside.h"

/*
 * Set *PLACE to where SPEC has its argument. False: it is no OCaml value, or it is neither in a register nor on
 * the stack, and a wrong address would end the process.
 */
bool inside_place_of(const struct arg_spec *spec, struct inside_place *place);

#endif
