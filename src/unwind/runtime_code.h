/* SPDX-License-Identifier: MIT */
/*
 * In a file, find the code for which the call frame information is wrong, because the code moves
 * the stack pointer and the information does not say so. Also find where the frames of this code
 * are. This code is in OCaml's runtime and in the functions of OCaml programs. It raises an
 * exception, ends a callback (in OCaml 4: after an exception) or, in OCaml 5, ends a fibre, grows a
 * stack, or calls a C function with many arguments.
 */
#ifndef UNWIND_RUNTIME_CODE_H
#define UNWIND_RUNTIME_CODE_H

#include <stdint.h>
#include "elf/elf_file.h"

enum code_frame {
	/* The frame is no longer on the stack, so no rule can find it. */
	CODE_FRAME_LEFT,
	CODE_FRAME_AT_RSP, /* the CFA is rsp: the return address has just been popped */
	CODE_FRAME_RSP_8,  /* the CFA is rsp + 8 */
	CODE_FRAME_RSP_16, /* the CFA is rsp + 16 */
	CODE_FRAME_R13_8,  /* the CFA is r13 + 8 */
	/*
	 * The CFA is rsp + 16 from `from` to `to` - 1, where an argument has been pushed. This kind
	 * also covers code outside of that range: from `like` to `from` - 1, and in the instruction
	 * at `to`, the CFA is rsp + 8.
	 */
	CODE_FRAME_ARGUMENT,
	CODE_FRAME_LIKE, /* the same rule as at the instruction `like` of the same function */
	/*
	 * The same rule as at `like`, except that the CFA is 80 above C's last stack pointer, which
	 * is stored in the state of the domain.
	 */
	CODE_FRAME_OF_C_STACK,
	/*
	 * The CFA is 8 above the stack pointer of the parent of the fibre whose handler is at rsp +
	 * 16.
	 */
	CODE_FRAME_OF_PARENT,
	/* the CFA is 8 above the stack pointer of the domain's current stack */
	CODE_FRAME_OF_CURRENT,
	/* The CFA is 8 above the stack pointer in the link of C's stack that rbx points to. */
	CODE_FRAME_OF_LINK,
};

/* The instructions at the link-time addresses `from` to `to` - 1 have frames of kind `frame`. */
struct code_place {
	uint64_t from, to;
	uint64_t like; /* see enum code_frame */
	enum code_frame frame;
};

typedef int (*code_frame_fn)(void *data, const struct code_place *place);

/*
 * Call FN(DATA, ...) for each code_place in the executable segments of ELF, in no particular order.
 * If FN returns a value other than 0, stop and return it. Otherwise return 0, or a negative errno
 * with a message.
 */
int runtime_code_find(struct ocp_ctx *ctx, const struct elf_file *elf, code_frame_fn fn,
		      void *data);

#endif
