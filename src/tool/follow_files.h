/* SPDX-License-Identifier: MIT */
/* What `list --follow` knows of executables: whether they are OCaml programs. Each is read once. */
#ifndef TOOL_FOLLOW_FILES_H
#define TOOL_FOLLOW_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct follow_file;
struct verdicts;

struct follow_files {
	struct verdicts *verdicts; /* on the files of other users */
	struct follow_file *list;
	size_t n;
};

int follow_files_open(struct ocp_ctx *ctx, struct follow_files *files);

/* An executable that contains the runtime of OCaml for native code, or OCaml probes. */
struct follow_program {
	dev_t dev;
	ino_t ino;
	bool is_one;
	char ocaml[32]; /* the version of OCaml; "": not known */
	size_t n_probes;
};

/*
 * Look at the executable of process PID. -ESRCH if the process has ended, -ENOMEM; a file that
 * cannot be read is no OCaml program.
 */
int follow_files_look(struct ocp_ctx *ctx, struct follow_files *files, pid_t pid,
		      struct follow_program *program);
void follow_files_free(struct follow_files *files);

#endif
