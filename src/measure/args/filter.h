/* SPDX-License-Identifier: MIT */
/*
 * Filter expressions over the arguments of a probe, such as
 *
 *	arg0 > 100 && (arg1 == "GET" || path ^= "/api/") && !(cached = true)
 *
 * See filter.c for the grammar.
 */
#ifndef MEASURE_FILTER_H
#define MEASURE_FILTER_H

#include <linux/types.h>
#include "args.h"
#include "base/ctx.h"
#include "program/arg_names.h"

/* The names of the requested arguments. names[i] is the name of argument number ARGS_MAX + i. */
struct asked_names {
	char names[ARGS_NAMED][OCP_ARG_NAME_BYTES];
	unsigned int n;
};

/*
 * Compile TEXT into FILTER, and add the names in it to ASKED. On success, bit N of *ARGS_USED is
 * set if TEXT uses argument number N: argN, or asked->names[N - ARGS_MAX]. The caller checks that
 * the sites have these arguments. Return -EINVAL with a message that has the column and what is
 * expected there, or -E2BIG with one that has the limit.
 */
int filter_parse(struct ocp_ctx *ctx, const char *text, struct asked_names *asked,
		 struct filter *filter, __u32 *args_used);

/*
 * Parse the argument of an option like `--hist arg0` or `--hist price`. Add a name to ASKED. Return
 * the argument's number as in filter_parse(), or -EINVAL or -E2BIG with a message.
 */
int filter_parse_arg(struct ocp_ctx *ctx, const char *text, struct asked_names *asked);

#endif
