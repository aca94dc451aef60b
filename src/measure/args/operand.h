/* SPDX-License-Identifier: MIT */
/*
 * Parses the argument string of a stapsdt note. For each argument, this string has an operand that
 * says where the argument is at the site. See operand.c for the syntax.
 */
#ifndef MEASURE_OPERAND_H
#define MEASURE_OPERAND_H

#include <linux/types.h>
#include "args.h"
#include "base/ctx.h"

/*
 * Parse TEXT, for example "8@%rax -4@16(%rsp)", into ARGS. Return -EINVAL, with a message that
 * names the operand, if an operand is malformed. A well-formed operand that cannot be read becomes
 * ARG_UNSUPPORTED. So does 8@$0, which stands for an argument that the compiler has stored nowhere.
 */
int operand_parse(struct ocp_ctx *ctx, const char *text, struct site_args *args);

#endif
