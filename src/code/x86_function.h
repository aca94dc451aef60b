/* SPDX-License-Identifier: MIT */
/*
 * The code of a function, decoded whole: where a uprobe counts its calls, and where a call ends.
 * The function need not contain probes.
 *
 * The kernel emulates some instructions under a uprobe and single-steps all others, which takes ten
 * times as long. So the place of the uprobe is the first instruction that every call executes
 * exactly once and that the kernel emulates. If there is no such instruction, or if the code is not
 * fully understood, the place is the first instruction of the function.
 */
#ifndef CODE_X86_FUNCTION_H
#define CODE_X86_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"
#include "code/code_file.h"

enum code_cost { CODE_EMULATED, CODE_STEPPED };

enum code_exit_kind {
	CODE_RET,
	CODE_TAIL_JUMP,
	/*
	 * The jump to an exception handler, with the handler's rsp. The jump ends each call whose
	 * rsp at the entry is below the handler's rsp. If the handler is in the function that
	 * raises, the call of that function continues.
	 */
	CODE_RAISE,
};

struct code_exit {
	uint32_t off;  /* offset of the instruction from the entry */
	int32_t depth; /* rsp at the entry minus rsp before the instruction */
	enum code_exit_kind kind;
	enum code_cost cost;
	/*
	 * `depth` is valid. If time can be measured (no_time is NULL), depth_known is true for all
	 * kinds but CODE_RAISE.
	 */
	bool depth_known;
};

struct code_function {
	/* The offset of the instruction whose uprobe counts each call exactly once. */
	uint32_t place;
	enum code_cost place_cost;
	enum code_cost entry_cost; /* the cost of a uprobe on the first instruction */
	int32_t place_depth;	   /* rsp at the entry minus rsp at the place */
	bool place_is_entry;
	/*
	 * A jump leads to the entry: a uprobe at the entry counts iterations of a loop as well as
	 * calls.
	 */
	bool entry_is_loop;
	/*
	 * Time must start at the entry: the place is one of the exits, or rsp is not known at the
	 * place, as when OCaml 5 has switched stacks to call C.
	 */
	bool time_from_entry;
	/*
	 * If the function only jumps to another function, perhaps after moves of its arguments and
	 * at most one check whether the collector must run: the address of the other function.
	 * Otherwise 0.
	 */
	uint64_t only_jumps_to;
	/* All exits, sorted by offset, if `no_time` is NULL. */
	struct code_exit *exits;
	size_t n_exits;
	/*
	 * Why calls cannot be counted (no_count), timed (no_time), or counted at the entry, where
	 * the arguments are known (no_entry). Each is the end of a message of the caller, or NULL.
	 */
	const char *no_count, *no_time, *no_entry;
};

/*
 * Decode FUNCTION, which is in FILE. The only error is -ENOMEM; problems of the code are reported
 * in *OUT.
 */
int code_function_decode(struct ocp_ctx *ctx, const struct code_bytes *function,
			 struct code_file *file, struct code_function *out);
/*
 * Like code_function_decode(), but do not examine the exits: no_time and time_from_entry do not
 * take them into account.
 */
int code_function_find_place(struct ocp_ctx *ctx, const struct code_bytes *function,
			     struct code_file *file, struct code_function *out);
void code_function_free(struct code_function *function);

#endif
