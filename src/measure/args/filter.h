/* SPDX-License-Identifier: MIT */
/*
 * Filter expressions over the arguments of a probe, such as
 *
 *	arg0 > 100 && (arg1 == "GET" || arg1 ^= "/api/") && !(arg2 = 0)
 *
 * See filter.c for the grammar.
 */
#ifndef MEASURE_FILTER_H
#define MEASURE_FILTER_H

#include <linux/types.h>
#include "args.h"
#include "base/ctx.h"

/*
 * Compile TEXT. On success, bit N of *ARGS_USED is set if TEXT uses argN; the caller checks that
 * the sites have it. -EINVAL with the column and what was expected there; -E2BIG with the limit.
 */
int filter_parse(struct ocp_ctx *ctx, const char *text, struct filter *filter, __u32 *args_used);

/*
 * Parse the argument of an option like `--hist arg0`. Returns N of "argN", or -EINVAL with a
 * message.
 */
int filter_parse_arg(struct ocp_ctx *ctx, const char *text);

#endif
