// SPDX-License-Identifier: MIT
/*
 * Decode a function from its first to its last byte. This is possible because all its bytes are
 * instructions: compilers for x86-64 keep jump tables elsewhere. In this way, code that only
 * exceptions reach is decoded, too.
 */
#include "code/code_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char code_flow_unknown_jump[] = "it has a jump that cannot be followed";

struct code_flow *code_flow_new(void)
{
	struct code_flow *flow = calloc(1, sizeof(*flow));

	if (flow && !insn_decoder_init(&flow->decoder)) {
		free(flow);
		return NULL;
	}
	return flow;
}

void code_flow_free(struct code_flow *flow)
{
	if (!flow)
		return;
	insn_decoder_free(&flow->decoder);
	free(flow->insns);
	free(flow->depths);
	free(flow->is_target);
	free(flow->queue);
	free(flow->numbers);
	free(flow->tables);
	free(flow->targets);
	free(flow->leas);
	free(flow);
}

int code_flow_reserve(void **array, size_t *room, size_t n, size_t bytes)
{
	size_t more = *room ? *room : 256;
	void *larger;

	if (n <= *room)
		return 0;
	while (more < n)
		more *= 2;
	larger = realloc(*array, more * bytes);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*room = more;
	return 0;
}

/* Like code_flow_reserve(), for the arrays that have an element for each instruction. */
static int reserve_insns(struct code_flow *flow, size_t n)
{
	size_t rooms[] = { flow->room, flow->room, flow->room, flow->room };

	if (n <= flow->room)
		return 0;
	if (code_flow_reserve((void **)&flow->insns, &rooms[0], n, sizeof(*flow->insns)) ||
	    code_flow_reserve((void **)&flow->depths, &rooms[1], n, sizeof(*flow->depths)) ||
	    code_flow_reserve((void **)&flow->is_target, &rooms[2], n, sizeof(*flow->is_target)) ||
	    code_flow_reserve((void **)&flow->queue, &rooms[3], n, sizeof(*flow->queue)))
		return -ENOMEM;
	flow->room = rooms[0];
	return 0;
}

static void note_problem(struct code_flow *flow, const char *problem)
{
	if (!flow->problem)
		flow->problem = problem;
}

static int decode_all(struct code_flow *flow)
{
	size_t off = 0;
	int err;

	while (off < flow->code.n) {
		struct insn *insn;

		err = reserve_insns(flow, flow->n_insns + 1);
		if (err)
			return err;
		insn = &flow->insns[flow->n_insns];
		if (!insn_decode(&flow->decoder, flow->code.bytes + off, flow->code.n - off,
				 (uint32_t)off, insn)) {
			flow->is_decoded = false;
			note_problem(flow, "its code cannot be decoded");
			return 0;
		}
		flow->is_target[flow->n_insns] = false;
		flow->depths[flow->n_insns] = (struct depth){ .kind = DEPTH_NOT_REACHED };
		flow->numbers[off] = (uint32_t)++flow->n_insns;
		off += insn->n_bytes;
	}
	return 0;
}

static bool is_inside(const struct code_flow *flow, int64_t value)
{
	return value >= 0 && (uint64_t)value < flow->code.n;
}

/*
 * Mark the instruction at offset VALUE as the target of a jump, or of a pointer that a jump can
 * use. VALUE must be inside the function. If no instruction begins at VALUE, set is_decoded to
 * false.
 */
static void mark_target(struct code_flow *flow, int64_t value)
{
	uint32_t number;

	if (code_flow_find(flow, value, &number)) {
		flow->is_target[number] = true;
	} else {
		flow->is_decoded = false;
		note_problem(flow, "a jump leads into the middle of an instruction");
	}
}

static void mark_direct(struct code_flow *flow, const struct insn *insn)
{
	bool inside = is_inside(flow, insn->value);

	switch (insn->kind) {
	case INSN_JCC:
	case INSN_JMP:
		if (inside)
			mark_target(flow, insn->value);
		else if (insn->kind == INSN_JCC ||
			 !code_file_is_entry(flow->file, flow->code.va + (uint64_t)insn->value))
			note_problem(flow, "it jumps to code elsewhere that is no function");
		break;
	case INSN_CALL:
		if (inside && insn->value != 0) {
			mark_target(flow, insn->value);
			note_problem(flow, "it calls a part of itself");
		}
		break;
	case INSN_LEA_RIP:
		if (inside && insn->value != 0)
			mark_target(flow, insn->value);
		break;
	default:
		break;
	}
}

/*
 * Check that the kinds of the indirect jumps, which code_flow_follow_jumps() found, fit their
 * depths: at a tail call rsp must be as at the entry, and at a raise rsp must have been loaded from
 * memory. If a kind does not fit, the jump is of an unknown kind, for example a jump of a C
 * function to one of its labels: note this as the problem of the function.
 */
static void check_jumps(struct code_flow *flow)
{
	for (size_t i = 0; i < flow->n_insns; i++) {
		const struct depth *depth = &flow->depths[i];

		if (depth->kind == DEPTH_NOT_REACHED)
			continue;
		if ((flow->insns[i].kind == FLOW_JMP_POINTER &&
		     (depth->kind != DEPTH_KNOWN || depth->value != 0)) ||
		    (flow->insns[i].kind == FLOW_JMP_POPPED && depth->kind != DEPTH_HANDLER))
			note_problem(flow, code_flow_unknown_jump);
	}
}

int code_flow_read(struct code_flow *flow, const struct code_bytes *function,
		   struct code_file *file)
{
	int err;

	flow->code = *function;
	flow->file = file;
	flow->n_insns = flow->n_tables = flow->n_targets = flow->n_leas = 0;
	flow->is_decoded = true;
	flow->problem = NULL;
	err = code_flow_reserve((void **)&flow->numbers, &flow->numbers_room, function->n,
				sizeof(*flow->numbers));
	if (err)
		return err;
	memset(flow->numbers, 0, function->n * sizeof(*flow->numbers));
	err = decode_all(flow);
	if (err)
		return err;
	for (size_t i = 0; i < flow->n_insns; i++)
		mark_direct(flow, &flow->insns[i]);
	if (!flow->is_decoded)
		return 0;
	err = code_flow_follow_jumps(flow);
	if (err)
		return err;
	code_flow_find_depths(flow);
	check_jumps(flow);
	return 0;
}
