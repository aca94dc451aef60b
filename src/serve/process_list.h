/* SPDX-License-Identifier: MIT */
/* The processes that may be profiled, as the measuring process tells those that take profiles. */
#ifndef SERVE_PROCESS_LIST_H
#define SERVE_PROCESS_LIST_H

#include <stdbool.h>
#include "profile/recorder.h"

struct process_list {
	struct recorded_process of[RECORDER_MAX_PROCESSES];
	size_t n;
	char *names; /* of the processes */
};

/*
 * Make LIST that of a message: N bytes, a pid_t and a path for each process. False: out of memory; the list
 * stays as it was.
 */
bool process_list_read(struct process_list *list, const char *bytes, size_t n);
void process_list_free(struct process_list *list);

#endif
