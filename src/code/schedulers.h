/* SPDX-License-Identifier: MIT */
/* Libraries of OCaml that run many requests in one thread. */
#ifndef CODE_SCHEDULERS_H
#define CODE_SCHEDULERS_H

#include "elf/elf_file.h"

/*
 * "Lwt", "Async", "Eio" or "Miou" if the executable or plugin ELF contains that library; NULL if it
 * contains none of them, or if that is not known.
 */
const char *scheduler_of(struct ocp_ctx *ctx, struct elf_file *elf);

#endif
