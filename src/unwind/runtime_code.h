/* SPDX-License-Identifier: MIT */
/*
 * Code of OCaml's runtime, and of programs that use it, that moves the stack pointer where its call
 * frame information says nothing of it: raising an exception, and growing a stack of OCaml 5.
 */
#ifndef UNWIND_RUNTIME_CODE_H
#define UNWIND_RUNTIME_CODE_H

#include <stdint.h>
#include "elf/elf_file.h"

enum code_frame {
	/* The frame of the caller has left the stack: nothing is known. */
	CODE_FRAME_LEFT,
	CODE_FRAME_AT_RSP,   /* the CFA is rsp: the return address has just been popped */
	CODE_FRAME_RSP_8,    /* rsp + 8 */
	CODE_FRAME_RSP_16,   /* rsp + 16 */
	CODE_FRAME_R13_8,    /* r13 + 8 */
	CODE_FRAME_8_DEEPER, /* 8 more than the call frame information says */
};

/* The instructions from FROM to TO, link-time addresses, have such frames. */
typedef int (*code_frame_fn)(void *data, uint64_t from, uint64_t to, enum code_frame frame);

/*
 * Call FN(DATA, ...) for each such place in the executable segments of ELF, in no order. Returns what
 * FN returned if it is not 0, or a negative errno with a message.
 */
int runtime_code_find(struct ocp_ctx *ctx, const struct elf_file *elf, code_frame_fn fn,
		      void *data);

#endif
