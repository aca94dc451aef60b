/* SPDX-License-Identifier: MIT */
/* Convert the frames of a stack to names of functions, with source lines and inlined functions. */
#ifndef UNWIND_FRAME_NAMES_H
#define UNWIND_FRAME_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "unwind/stack_store.h"
#include "unwind/stack_walker.h"

enum frame_kind {
	FRAME_OCAML,
	FRAME_C,
	FRAME_KERNEL,
	FRAME_UNKNOWN,	 /* code whose function has no name */
	FRAME_TRUNCATED, /* a mark in place of missing callers */
	FRAME_THREAD,	 /* not a frame, but the thread of the stack: see profile/profile.h */
};

struct named_frame {
	/*
	 * For example "Service.find" or "caml_alloc_shr"; "[libfoo.so+0x1234]" for a function
	 * without a name.
	 */
	const char *function;
	const char *file; /* the source file; NULL: unknown */
	uint32_t line;	  /* 0: unknown */
	/*
	 * Columns, both counted from the start of `line`, even if the end is in a later line. Both
	 * are 0 if they are unknown.
	 */
	uint32_t start_char, end_char;
	enum frame_kind kind;
	bool is_inlined; /* the function is inlined into the function of the next frame */
	/* The function is one of OCaml's standard library, whose names omit "Stdlib.". */
	bool is_stdlib;
	/*
	 * The item (see program/item.h) that measures the function: "fn:Service.find",
	 * "fn:Service.find/531"; NULL: unknown.
	 */
	const char *item;
};

/*
 * Return the length of the part of FRAME's item that measures all functions with the name of
 * FRAME's function: the item without "/531"; 0 if FRAME has no item.
 */
size_t named_frame_item_bytes(const struct named_frame *frame);

struct frame_names;

/* Make *OUT. WALKER must outlive *OUT. WALKER may be NULL if frame_names_find() is never called. */
int frame_names_open(struct ocp_ctx *ctx, const struct stack_walker *walker,
		     struct frame_names **out);
void frame_names_close(struct frame_names *names);

/*
 * Name FRAME, a frame in the format of bpf/walk.h. Sets *FRAMES to *N named frames, the innermost
 * first. The array exists as long as NAMES.
 */
int frame_names_find(struct frame_names *names, uint64_t frame, const struct named_frame **frames,
		     size_t *n);

/* What the va of a struct walked_place is. */
enum frame_place {
	FRAME_RETURN,	 /* the return address of a call */
	FRAME_EXACT,	 /* the address of an instruction */
	FRAME_DEBUGINFO, /* the address of debug information in a frame table */
};

/* Name PLACE like frame_names_find. The file of PLACE must exist as long as NAMES. */
int frame_names_find_place(struct frame_names *names, const struct walked_place *place,
			   enum frame_place what, const struct named_frame **frames, size_t *n);

/*
 * Set *FRAME to a frame with the name of ADDRESS, an address of kernel code. *FRAME exists as long
 * as NAMES.
 */
int frame_names_find_kernel(struct frame_names *names, uint64_t address,
			    const struct named_frame **frame);

/* Return the walker that NAMES was opened with. */
const struct stack_walker *frame_names_walker(const struct frame_names *names);

/*
 * If a stack ends early, a frame "[truncated: ...]" takes the place of the missing callers. Return
 * this frame for the reason END.
 */
const struct named_frame *frame_names_of_end(enum walk_end end);

#endif
