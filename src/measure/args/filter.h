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

/*
 * The arguments that were requested by name. names[i] is the name of argument number ARGS_MAX + i.
 */
struct asked_names {
	char names[ARGS_NAMED][OCP_ARG_NAME_BYTES];
	unsigned int n;
};

/*
 * Compile TEXT into FILTER, and add the names in it to ASKED. On success, bit N of *ARGS_USED is
 * set if TEXT uses argument number N: argN if N < ARGS_MAX, otherwise asked->names[N - ARGS_MAX].
 * The caller must check that the sites have these arguments. Return -EINVAL with a message that
 * gives the column of the error and says what is wrong there, or -E2BIG with a message that names
 * the limit.
 */
int filter_parse(struct ocp_ctx *ctx, const char *text, struct asked_names *asked,
		 struct filter *filter, __u32 *args_used);

/*
 * Parse the argument of an option like `--hist arg0` or `--hist price`. If the argument is given by
 * a name, add the name to ASKED. Return the number of the argument, as filter_parse() numbers
 * arguments, or -EINVAL or -E2BIG with a message.
 */
int filter_parse_arg(struct ocp_ctx *ctx, const char *text, struct asked_names *asked);

#endif
