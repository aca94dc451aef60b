// SPDX-License-Identifier: MIT
#include "serve/process_list.h"

#include <stdlib.h>
#include <string.h>

/* The paths in LIST point into a copy of the message, which LIST owns. */
bool process_list_read(struct process_list *list, const char *bytes, size_t n)
{
	char *names = malloc(n + 1);
	size_t at = 0;

	if (!names)
		return false;
	memcpy(names, bytes, n);
	names[n] = '\0';
	free(list->names);
	list->names = names;
	for (list->n = 0; list->n < RECORDER_MAX_PROCESSES;) {
		struct recorded_process *process = &list->of[list->n];

		if (at + sizeof(process->pid) >= n)
			break;
		memcpy(&process->pid, names + at, sizeof(process->pid));
		process->exe = names + at + sizeof(process->pid);
		at += sizeof(process->pid) + strlen(process->exe) + 1;
		list->n++;
	}
	return true;
}

void process_list_free(struct process_list *list)
{
	free(list->names);
	*list = (struct process_list){ 0 };
}
