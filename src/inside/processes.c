// SPDX-License-Identifier: MIT
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "inside/block.h"
#include "inside/inside.h"
#include "tracee/proc_file.h"

/* Only the beginning of longer maps is read: see proc_file.c. */
enum { MAX_MAPS_BYTES = 16 << 20 };

/*
 * Return true if LINE, of LENGTH bytes, ends with the path of a block. Newlines in paths are
 * escaped.
 */
static bool is_of_block(const char *line, size_t length)
{
	static const char end[] = " " BLOCK_PATH "\n";

	return length >= strlen(end) && strcmp(line + length - strlen(end), end) == 0;
}

/* Return true if PID has a block. Return false also if PID has ended or may not be inspected. */
static bool has_block(pid_t pid)
{
	char path[PROC_PATH_BYTES], *line = NULL;
	size_t room = 0, used = 0;
	bool found = false;
	ssize_t n;
	FILE *file;

	proc_path(path, pid, "maps");
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && used < MAX_MAPS_BYTES && (n = getline(&line, &room, file)) > 0) {
		found = is_of_block(line, (size_t)n);
		used += (size_t)n;
	}
	free(line);
	fclose(file);
	/* CAP_PERFMON opens the maps of any process: so check the right to inspect it, too. */
	return found && proc_may_inspect(pid);
}

static int add_inside_process(struct ocp_ctx *ctx, struct inside_processes *processes, pid_t pid)
{
	pid_t *new = array_add(processes->pids, processes->n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = pid;
	return 0;
}

int inside_find_processes(struct ocp_ctx *ctx, struct inside_processes *processes)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int err = 0;

	*processes = (struct inside_processes){ 0 };
	if (!proc)
		return ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	while (!err && (errno = 0, entry = readdir(proc))) {
		pid_t pid;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (has_block(pid))
			err = add_inside_process(ctx, processes, pid);
	}
	if (!err && errno)
		err = ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	closedir(proc);
	return err;
}

void inside_processes_free(struct inside_processes *processes)
{
	free(processes->pids);
	*processes = (struct inside_processes){ 0 };
}
