/* SPDX-License-Identifier: MIT */
/*
 * The argument string of a stapsdt note: where each argument of the probe is when its site is
 * reached. See operand.c for the syntax.
 */
#ifndef MEASURE_OPERAND_H
#define MEASURE_OPERAND_H

#include <linux/types.h>
#include "args.h"
#include "base/ctx.h"

/*
 * Read TEXT, such as "8@%rax -4@16(%rsp)". -EINVAL, with a sentence that names the operand, if one
 * is malformed; one that is well-formed but in a place that is not read is ARG_UNSUPPORTED, and so
 * is 8@$0, which says that the argument is in no place at all.
 */
int operand_parse(struct ocp_ctx *ctx, const char *text, struct site_args *args);

#endif
