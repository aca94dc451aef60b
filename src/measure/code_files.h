/* SPDX-License-Identifier: MIT */
/*
 * Remembers files whose code a meter need not read or must not read. A process can map any file,
 * and processes come and go: without this memory, a meter would read the same files many times.
 */
#ifndef MEASURE_CODE_FILES_H
#define MEASURE_CODE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "ocaml_probes.h"

/* The state of a file. A file that has been changed since has another state. */
struct code_file_state {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec modified, changed;
};

enum { CODE_FILES_REMEMBERED = 64 };

/* The last files that were remembered. If all members are 0, there are none. */
struct code_files {
	struct code_file_state states[CODE_FILES_REMEMBERED];
	size_t next;
};

/* Return true if the file with status ST was remembered and has not changed since. */
bool code_files_has(const struct code_files *files, const struct stat *st);
void code_files_remember(struct code_files *files, const struct stat *st);

/*
 * Return true if METER may read the code of the file with status ST, which PID maps. The answer is
 * always true unless the ctx demands that owners are checked, as in a monitor that runs for long: a
 * hostile file could keep a monitor busy for seconds. Then the file must belong to root or to our
 * own user. If METER measures a program, the file may also belong to the owner of this program; if
 * it measures single processes, to the user of PID or to the owner of its executable.
 */
bool code_files_may_read(const struct ocp_meter *meter, const struct stat *st, pid_t pid);

#endif
