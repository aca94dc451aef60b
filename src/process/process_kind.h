/* SPDX-License-Identifier: MIT */
/* Find out what a process runs: native OCaml code, OCaml bytecode, or neither. */
#ifndef PROCESS_PROCESS_KIND_H
#define PROCESS_PROCESS_KIND_H

#include <sys/types.h>
#include "base/ctx.h"
#include "code/program_kind.h"

/*
 * Find the kind of program that PID runs: the kind of its executable or, if the executable is
 * foreign (not OCaml), of the first library that is not foreign. If PID cannot be read, return
 * UNKNOWN. With PROGRAM_NATIVE, the caller will fail to read PID, too, and report why.
 */
enum program_kind process_kind(struct ocp_ctx *ctx, pid_t pid, enum program_kind unknown);

/*
 * Return 0 if PID runs native OCaml code, or cannot be read. Otherwise return -ENODATA, with a
 * message that says what PID runs, and a hint.
 */
int process_need_native(struct ocp_ctx *ctx, pid_t pid);

/*
 * Do the same as process_need_native(), but for the executable or library FILE, which need not be
 * running.
 */
int program_file_need_native(struct ocp_ctx *ctx, const char *file);

#endif
