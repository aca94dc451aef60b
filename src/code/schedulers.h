/* SPDX-License-Identifier: MIT */
/* Find OCaml libraries that run many requests in one thread. */
#ifndef CODE_SCHEDULERS_H
#define CODE_SCHEDULERS_H

#include "elf/elf_file.h"

/*
 * Return "Lwt", "Async", "Eio" or "Miou" if the executable or plugin ELF contains that library;
 * NULL if it contains none of these libraries, or if this cannot be determined.
 */
const char *scheduler_of(struct ocp_ctx *ctx, struct elf_file *elf);

#endif
