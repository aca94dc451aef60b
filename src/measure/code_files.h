/* SPDX-License-Identifier: MIT */
/*
 * Remembers files whose code a meter need not read, or must not. A process can map any file, and
 * processes come and go: without this memory, a meter would read the same files many times.
 */
#ifndef MEASURE_CODE_FILES_H
#define MEASURE_CODE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "ocaml_probes.h"

/* A file at one moment. A file that has changed since is another one. */
struct code_file_state {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec modified, changed;
};

enum { CODE_FILES_REMEMBERED = 64 };

/* The last files that were remembered. All 0: none. */
struct code_files {
	struct code_file_state states[CODE_FILES_REMEMBERED];
	size_t next;
};

/* Is the file of ST remembered, and unchanged since? */
bool code_files_has(const struct code_files *files, const struct stat *st);
void code_files_remember(struct code_files *files, const struct stat *st);

/*
 * May METER read the code of the file of ST, which PID maps? The program that the user named is
 * read. A monitor that runs for long reads other files only if their owner is root, the user of the
 * monitor, or the owner of the program or process that was named: a hostile file can keep it busy
 * for seconds.
 */
bool code_files_may_read(const struct ocp_meter *meter, const struct stat *st, pid_t pid);

#endif
