// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <string.h>

const struct tool_command tool_commands[] = {
	{ "annotate", &help_annotate, &command_annotate },
	{ "attach", &help_attach, &command_attach },
	{ "bpftrace", &help_bpftrace, &command_bpftrace },
	{ "detach", &help_detach, &command_detach },
	{ "doctor", &help_doctor, &command_doctor },
	{ "functions", &help_functions, &command_functions },
	{ "gc", &help_gc, &command_gc },
	{ "info", &help_info, &command_info },
	{ "list", &help_list, &command_list },
	{ "memprof", &help_memprof, &command_memprof },
	{ "profile", &help_profile, &command_profile },
	{ "read", &help_read, &command_read },
	{ "serve", &help_serve, NULL },
	{ "top", &help_top, NULL },
	{ "trace", &help_trace, &command_trace },
	{ 0 },
};

const struct tool_command *find_command(const char *name)
{
	for (const struct tool_command *command = tool_commands; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}
