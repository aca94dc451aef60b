/* SPDX-License-Identifier: MIT */
/*
 * The places of arguments and the filter of a request, for sites that are counted inside of
 * processes.
 */
#ifndef MEASURE_INSIDE_FILTERS_H
#define MEASURE_INSIDE_FILTERS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "args.h"
#include "change/inside/inside.h"

/*
 * Set *PLACE to the location of the argument that SPEC describes. Returns false if the argument is
 * not an OCaml value, or is in memory other than the stack: reading from a wrong address would end
 * the process.
 */
bool inside_place_of(const struct arg_spec *spec, struct inside_place *place);

/* Why a comparison of a filter is not possible inside. */
enum inside_filter_fault {
	INSIDE_FILTER_FINE,
	INSIDE_FILTER_STRING,  /* the argument is compared with a string */
	INSIDE_FILTER_FOREIGN, /* the argument is not a value of OCaml */
	INSIDE_FILTER_PLACE,   /* the argument is neither in a register nor on the stack */
};

/*
 * Return whether the comparison OP with an argument, which is at the place SPEC, is possible
 * inside.
 */
enum inside_filter_fault inside_filter_check(const struct filter_op *op,
					     const struct arg_spec *spec);

/*
 * The filters of all sites. Sites that have their arguments at the same places share one filter. If
 * all members are 0, no site has a filter.
 */
struct inside_filters {
	const struct filter *filter; /* NULL: there is no filter */
	struct inside_filter **list; /* by the number of the site's arguments; NULL: not made yet */
	size_t n;
};

/*
 * Return the filter for sites whose arguments, number I of N, are at the places ARGS. N is the same
 * for all calls. The filter belongs to FILTERS. Return NULL if memory is short or if
 * inside_filter_check() finds a fault.
 */
const struct inside_filter *inside_filters_get(struct inside_filters *filters, size_t i, size_t n,
					       const struct site_args *args);
void inside_filters_free(struct inside_filters *filters);

#endif
