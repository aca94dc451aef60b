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

/* The names of arguments that were asked for. The number of names[i] is ARGS_MAX + i. */
struct asked_names {
	char names[ARGS_NAMED][OCP_ARG_NAME_BYTES];
	unsigned int n;
};

/*
 * Compile TEXT, and add the names in it to ASKED. On success, bit N of *ARGS_USED is set if TEXT uses
 * the argument of number N: argN, or asked->names[N - ARGS_MAX]. The caller checks that the sites have
 * it. -EINVAL with the column and what was expected there; -E2BIG with the limit.
 */
int filter_parse(struct ocp_ctx *ctx, const char *text, struct asked_names *asked,
		 struct filter *filter, __u32 *args_used);

/*
 * Parse the argument of an option like `--hist arg0` or `--hist price`. Returns its number, as above;
 * -EINVAL or -E2BIG with a message.
 */
int filter_parse_arg(struct ocp_ctx *ctx, const char *text, struct asked_names *asked);

#endif
