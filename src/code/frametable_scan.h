/* SPDX-License-Identifier: MIT */
/* Find the list of frame tables (caml_frametable) in an executable that has no symbols. */
#ifndef CODE_FRAMETABLE_SCAN_H
#define CODE_FRAMETABLE_SCAN_H

#include "elf/data_image.h"

/*
 * Find the list in IMAGE, the data of ELF. Returns 1 and sets *VA to the list's address, or 0 if
 * IMAGE has no list. A list is only accepted if in its tables each return address follows a call
 * instruction, and if at least one frame is a chunk end, where C has called OCaml: the runtime of
 * each program has such a frame.
 */
int frametable_scan(struct ocp_ctx *ctx, struct elf_file *elf, const struct data_image *image,
		    uint64_t *va);

#endif
