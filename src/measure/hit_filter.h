/* SPDX-License-Identifier: MIT */
/*
 * A filter of the syntax of --filter that is evaluated for recorded hits, one by one, after the
 * engine has passed them on. The engine has one filter, which decides what is recorded at all.
 */
#ifndef MEASURE_HIT_FILTER_H
#define MEASURE_HIT_FILTER_H

#include <stdbool.h>
#include "ocaml_probes.h"

struct hit_filter;

/* Compile TEXT. Returns 0 or a negative errno, with a message in CTX: see filter_parse(). */
int hit_filter_parse(struct ocp_ctx *ctx, const char *text, struct hit_filter **out);
void hit_filter_free(struct hit_filter *filter);

/*
 * Check that each site of PROBE that METER measures has the arguments of FILTER. Call this after
 * ocp_meter_open(). Returns 0, or -EINVAL with a message in the ctx.
 */
int hit_filter_check(const struct hit_filter *filter, const struct ocp_meter *meter,
		     const char *probe);

/*
 * Return true if HIT matches FILTER. A comparison of an argument with a literal of another type, or
 * with a string of which too little was recorded, counts as false, even with !=. If such a
 * comparison could have changed the result, *IS_UNSURE is set, else it is left as it is.
 */
bool hit_filter_matches(const struct hit_filter *filter, const struct ocp_hit *hit,
			bool *is_unsure);

#endif
