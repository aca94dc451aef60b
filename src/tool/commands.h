/* SPDX-License-Identifier: MIT */
/* The subcommands of ocaml-probes. */
#ifndef TOOL_COMMANDS_H
#define TOOL_COMMANDS_H

#include "cli/cli.h"

extern const struct command command_attach, command_bpftrace, command_detach, command_doctor,
	command_info, command_list, command_read, command_trace;

#endif
