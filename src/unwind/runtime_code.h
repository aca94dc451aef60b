/* SPDX-License-Identifier: MIT */
/*
 * Code of OCaml's runtime, and of programs that use it, that moves the stack pointer where its call
 * frame information says nothing of it: raising an exception, the end of a callback that raises, growing
 * a stack of OCaml 5, and its calls of C functions with many arguments.
 */
#ifndef UNWIND_RUNTIME_CODE_H
#define UNWIND_RUNTIME_CODE_H

#include <stdint.h>
#include "elf/elf_file.h"

enum code_frame {
	/* The frame of the caller has left the stack: nothing is known. */
	CODE_FRAME_LEFT,
	CODE_FRAME_AT_RSP, /* the CFA is rsp: the return address has just been popped */
	CODE_FRAME_RSP_8,  /* rsp + 8 */
	CODE_FRAME_RSP_16, /* rsp + 16 */
	CODE_FRAME_R13_8,  /* r13 + 8 */
	/* rsp + 16, and rsp + 8 in the instructions before and behind, the first of which is `like` */
	CODE_FRAME_ARGUMENT,
	CODE_FRAME_LIKE, /* as at another instruction of the function */
	/* As there, but the CFA is 80 above the last stack of C, which the state of the domain tells. */
	CODE_FRAME_OF_C_STACK,
	CODE_FRAME_OF_PARENT, /* of the fibre whose handler is 16 above rsp: 8 above its stack pointer */
	CODE_FRAME_OF_CURRENT, /* 8 above the stack pointer of the domain's current stack */
	CODE_FRAME_OF_LINK, /* 8 above the stack pointer in the link of C's stack that rbx points to */
};

/* The instructions from FROM to TO, link-time addresses, have such frames. */
struct code_place {
	uint64_t from, to;
	uint64_t like; /* the other instruction */
	enum code_frame frame;
};

typedef int (*code_frame_fn)(void *data, const struct code_place *place);

/*
 * Call FN(DATA, ...) for each such place in the executable segments of ELF, in no order. Returns what
 * FN returned if it is not 0, or a negative errno with a message.
 */
int runtime_code_find(struct ocp_ctx *ctx, const struct elf_file *elf, code_frame_fn fn,
		      void *data);

#endif
