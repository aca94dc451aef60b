/* SPDX-License-Identifier: MIT */
/* A cache for `list --follow`: which executables are OCaml programs. Each file is read once. */
#ifndef TOOL_FOLLOW_FILES_H
#define TOOL_FOLLOW_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct follow_file;
struct verdicts;

struct follow_files {
	struct verdicts *verdicts; /* results of examining files of other users */
	struct follow_file *list;
	size_t n;
};

int follow_files_open(struct ocp_ctx *ctx, struct follow_files *files);

/*
 * Describes an executable. It is an OCaml program if it contains OCaml's native runtime or OCaml
 * probes.
 */
struct follow_program {
	dev_t dev;
	ino_t ino;
	bool is_one;
	char ocaml[32]; /* the OCaml version; "": unknown */
	size_t n_probes;
};

/*
 * Examine the executable of process PID. Returns -ESRCH if the process has ended, or -ENOMEM. A
 * file that cannot be read counts as not an OCaml program.
 */
int follow_files_look(struct ocp_ctx *ctx, struct follow_files *files, pid_t pid,
		      struct follow_program *program);
void follow_files_free(struct follow_files *files);

#endif
