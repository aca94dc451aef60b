/* SPDX-License-Identifier: MIT */
/* `list -prog FILE --args`: the arguments of the probes of a file. */
#ifndef TOOL_LIST_ARGS_H
#define TOOL_LIST_ARGS_H

#include <json-c/json.h>
#include "cli/cli.h"

/* Print a line for each argument of each site of PROG. Returns an exit code. */
int list_args_print(struct options *options, const struct ocp_program *prog);

/*
 * Return the sites of all probes of PROG with their arguments: one array for each probe, in the
 * order of the probes. Return NULL after an error; the message is in the ctx.
 */
struct json_object *list_args_json(const struct ocp_program *prog);

/*
 * Return a text with "NAME:TYPE=OPERAND" for each argument of a site; parts that are not known are
 * left out. The caller frees the text. Return NULL if memory runs out.
 */
char *args_text(const char *arg_names, const char *operands);

/* Return the arguments of a site, by position: name, type and place. */
struct json_object *args_json(const char *arg_names, const char *operands);

#endif
