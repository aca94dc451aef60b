/* SPDX-License-Identifier: MIT */
/* What a process runs: native OCaml code, OCaml bytecode, or none of both. */
#ifndef PROCESS_PROCESS_KIND_H
#define PROCESS_PROCESS_KIND_H

#include <sys/types.h>
#include "base/ctx.h"
#include "code/program_kind.h"

/*
 * Find the kind of process PID: that of its executable or, if that is foreign, of a library that is not.
 * What cannot be read is taken for native: the caller's own reading says why.
 */
enum program_kind process_kind(struct ocp_ctx *ctx, pid_t pid);

/*
 * 0 if PID runs native OCaml code, as far as that can be read. Otherwise -ENODATA, with a message that
 * says what it is, and a hint.
 */
int process_need_native(struct ocp_ctx *ctx, pid_t pid);

/* The same of the executable or library FILE, whether it runs or not. */
int program_file_need_native(struct ocp_ctx *ctx, const char *file);

#endif
