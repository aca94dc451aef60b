/* SPDX-License-Identifier: MIT */
/*
 * The instructions of a function, the jumps between them, and the depth of the stack before each
 * instruction: how far rsp is below its value at the entry.
 */
#ifndef CODE_CODE_FLOW_H
#define CODE_CODE_FLOW_H

#include <stdint.h>
#include "base/ctx.h"
#include "code/code_file.h"
#include "code/code_insn.h"

enum {
	/* A larger function is not decoded. */
	FUNCTION_BYTES_MAX = 4 << 20,
	/* The bounds of pauses are not looked for in a larger function. */
	CODE_PAUSE_BYTES = 16384,
};

enum depth_kind {
	DEPTH_NOT_REACHED,
	DEPTH_KNOWN,
	/* rsp was loaded from memory: it is the rsp of an exception handler or of another stack */
	DEPTH_HANDLER,
	DEPTH_UNKNOWN,
};

struct depth {
	int32_t value; /* DEPTH_KNOWN: rsp at the entry minus rsp; other kinds: see code_flow.c */
	uint8_t kind;  /* enum depth_kind */
	bool is_doubtful, is_queued; /* see code_flow.c */
};

/*
 * Kinds of indirect jumps. When code_flow.c recognises an indirect jump, it replaces the jump's
 * kind, of enum insn_kind, by one of these.
 */
enum flow_kind {
	FLOW_JMP_TABLE = 0x40, /* `value` is the number of the jump table */
	FLOW_JMP_POINTER,      /* a jump to a function whose address was read from memory */
	FLOW_JMP_POPPED,       /* a jump to an address that was popped: OCaml's raise */
};

/* The targets of a jump table: instructions targets[first] to targets[first + n - 1]. */
struct jump_table {
	size_t first, n;
};

struct code_flow {
	struct insn_decoder decoder;
	struct code_bytes code;
	struct code_file *file;

	struct insn *insns; /* sorted by offset */
	struct depth *depths;
	bool *is_target; /* for each instruction: a jump may lead to it */
	uint32_t *queue;
	size_t n_insns, room;
	/*
	 * for each offset: 1 + the number of the instruction that begins at the offset; 0 if none
	 * does
	 */
	uint32_t *numbers;
	size_t numbers_room;

	struct jump_table *tables;
	size_t n_tables;
	uint32_t *targets;
	size_t n_targets;
	/*
	 * the addresses that lea instructions load, as offsets from the start of the function;
	 * sorted
	 */
	int64_t *leas;
	size_t n_leas;

	bool is_decoded; /* all bytes are instructions, and no jump leads into the middle of one */
	/*
	 * NULL if the function is understood; otherwise the reason why not, as the end of an error
	 * message
	 */
	const char *problem;
	/*
	 * the only problem is that a jump leads to other code than a function; all jumps within the
	 * function are known
	 */
	bool only_leaves;
};

struct code_flow *code_flow_new(void);
void code_flow_free(struct code_flow *flow);

/* Read FUNCTION, which has between 1 and FUNCTION_BYTES_MAX bytes. The only error is -ENOMEM. */
int code_flow_read(struct code_flow *flow, const struct code_bytes *function,
		   struct code_file *file);

/* ---- instructions ---------------------------------------------------------------------------- */

/*
 * Set *NUMBER to the number of the instruction at offset VALUE. Return false if no instruction
 * begins at VALUE.
 */
static inline bool code_flow_find(const struct code_flow *flow, int64_t value, uint32_t *number)
{
	if (value < 0 || (uint64_t)value >= flow->code.n || flow->numbers[value] == 0)
		return false;
	*number = flow->numbers[value] - 1;
	return true;
}

static inline const uint8_t *code_flow_bytes(const struct code_flow *flow, size_t i)
{
	return flow->code.bytes + flow->insns[i].off;
}

static inline bool code_flow_is_call(const struct insn *insn)
{
	return insn->kind == INSN_CALL || insn->kind == INSN_CALL_INDIRECT;
}

/* Return true if execution can continue at the instruction that follows INSN in memory. */
static inline bool code_flow_goes_on(const struct insn *insn)
{
	switch (insn->kind) {
	case INSN_JMP:
	case INSN_JMP_REG:
	case INSN_JMP_MEM:
	case INSN_JMP_OTHER:
	case INSN_RET:
	case INSN_TRAP:
	case FLOW_JMP_TABLE:
	case FLOW_JMP_POINTER:
	case FLOW_JMP_POPPED:
		return false;
	default:
		return true;
	}
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/*
 * Find the two instructions of a C function between which its calls are timed. The kernel emulates
 * both instructions.
 */

/*
 * The two instructions. `begin` and `end` are their offsets from the entry of the function;
 * begin_depth and end_depth are rsp at the entry minus rsp before each of them.
 */
struct code_pause {
	uint32_t begin, end;
	int32_t begin_depth, end_depth;
};

/*
 * FUNCTION is in FILE. Of its instructions that each call executes exactly once and that the kernel
 * emulates, find the first and the last. If THROUGH_VA is not 0, "each call" means each call of
 * FUNCTION that calls the function at THROUGH_VA; all other calls of FUNCTION must execute neither
 * instruction. Returns -ENODATA if there are no such instructions, or -ENOMEM.
 */
int code_pause_find(struct ocp_ctx *ctx, const struct code_bytes *function, struct code_file *file,
		    uint64_t through_va, struct code_pause *out);

/* Return true if instruction I of FLOW can be the begin or the end of a pause. */
typedef bool (*code_bound_fn)(const struct code_flow *flow, size_t i, const void *data);

/* The numbers of two instructions; `end` is CODE_NOWHERE if there is no such instruction. */
#define CODE_NOWHERE SIZE_MAX
struct code_bounds {
	size_t begin, end;
};

/*
 * Like code_pause_find(), for the function that was read to FLOW, and for instructions for which
 * IS_BOUND(FLOW, instruction, DATA) is true instead of those that the kernel emulates. Returns
 * -ENODATA if no instruction can be the begin.
 */
int code_bounds_find(struct ocp_ctx *ctx, const struct code_flow *flow, uint64_t through_va,
		     code_bound_fn is_bound, const void *data, struct code_bounds *out);

#endif
