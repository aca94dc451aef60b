/* SPDX-License-Identifier: MIT */
/* `list --follow`: print a line for each OCaml program on this machine that starts or ends. */
#ifndef TOOL_LIST_FOLLOW_H
#define TOOL_LIST_FOLLOW_H

#include "cli/cli.h"

/* Follow until a signal, or for options->for_ns. Returns an exit code. */
int list_follow(struct options *options);

#endif
