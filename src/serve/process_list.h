/* SPDX-License-Identifier: MIT */
/*
 * The list of processes that may be profiled. The measuring process sends it to the child processes
 * that take profiles.
 */
#ifndef SERVE_PROCESS_LIST_H
#define SERVE_PROCESS_LIST_H

#include <stdbool.h>
#include "profile/recorder.h"

struct process_list {
	struct recorded_process of[RECORDER_MAX_PROCESSES];
	size_t n;
	char *names; /* owned; of[i].exe points into it */
};

/*
 * Replace LIST by the list in a message of N BYTES: a pid_t and a path for each process. Return
 * false if out of memory; then LIST is unchanged.
 */
bool process_list_read(struct process_list *list, const char *bytes, size_t n);
void process_list_free(struct process_list *list);

#endif
