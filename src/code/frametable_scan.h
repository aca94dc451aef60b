/* SPDX-License-Identifier: MIT */
/* Finding the list of frame tables (caml_frametable) in an executable that has no symbols. */
#ifndef CODE_FRAMETABLE_SCAN_H
#define CODE_FRAMETABLE_SCAN_H

#include "elf/data_image.h"

/*
 * Find the list in IMAGE, the data of ELF. Returns 1 and sets *VA to its address, 0 if IMAGE has no list,
 * or a negative errno. What is found is a list of tables whose return addresses all stand behind calls, and
 * which have the frame where C has called OCaml: the runtime of each program has one.
 */
int frametable_scan(struct ocp_ctx *ctx, struct elf_file *elf, const struct data_image *image,
		    uint64_t *va);

#endif
