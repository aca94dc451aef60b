// SPDX-License-Identifier: MIT
/*
 * Find the depth of the stack before each instruction, along all paths from the entry.
 *
 * All paths that a program can take to an instruction have the same depth. But some of the paths
 * followed here can never be taken: the path behind a call that never returns, and a jump through
 * an element that is behind the end of its jump table. So a depth is doubtful if its path goes
 * through a jump table, or continues behind a call at an instruction that is also the target of a
 * jump. If another path gives a depth that is not doubtful, that depth replaces the doubtful one.
 */
#include "code/code_flow.h"

/*
 * If a depth has the kind DEPTH_HANDLER, its `value` is the depth before rsp was loaded from
 * memory; NO_VALUE: that depth was not known.
 */
enum { NO_VALUE = INT32_MIN };

static bool is_same_depth(struct depth a, struct depth b)
{
	return a.kind == b.kind && a.value == b.value;
}

static struct depth unknown(bool is_doubtful)
{
	return (struct depth){ .kind = DEPTH_UNKNOWN, .is_doubtful = is_doubtful };
}

/*
 * Combine two depths before the same instruction: OLD, from the paths so far, and NEW, from another
 * path.
 */
static struct depth join_depths(struct depth old, struct depth new)
{
	struct depth it = old;

	if (old.kind == DEPTH_NOT_REACHED || (old.is_doubtful && !new.is_doubtful))
		it = new;
	else if (old.is_doubtful == new.is_doubtful && !is_same_depth(old, new))
		it = unknown(old.is_doubtful);
	it.is_queued = old.is_queued;
	return it;
}

/*
 * Take DEPTH as the depth before instruction I on one more path. Returns true if this changed the
 * known depth.
 */
static bool reach(struct code_flow *flow, size_t i, struct depth depth)
{
	struct depth old = flow->depths[i];

	flow->depths[i] = join_depths(old, depth);
	return !is_same_depth(old, flow->depths[i]) ||
	       old.is_doubtful != flow->depths[i].is_doubtful;
}

static size_t enqueue(struct code_flow *flow, size_t n, uint32_t i, struct depth depth)
{
	if (reach(flow, i, depth) && !flow->depths[i].is_queued) {
		flow->depths[i].is_queued = true;
		flow->queue[n++] = i;
	}
	return n;
}

static struct depth moved(struct depth depth, int64_t bytes)
{
	int64_t value = depth.value + bytes;

	if (depth.kind != DEPTH_KNOWN)
		return depth;
	if (value < -INT32_MAX || value > INT32_MAX)
		return unknown(depth.is_doubtful);
	depth.value = (int32_t)value;
	return depth;
}

/*
 * Return the depth after `mov REG,%rsp` at I: the depth at the `mov %rsp,REG` shortly before it.
 * OCaml 5 saves and restores rsp this way when it calls a C function on another stack.
 */
static struct depth restored(const struct code_flow *flow, size_t i)
{
	enum { LOOK_BACK = 8 };
	unsigned int reg = flow->insns[i].reg;

	for (size_t back = 1; back <= LOOK_BACK && back <= i; back++) {
		const struct insn *insn = &flow->insns[i - back];

		if (flow->is_target[i - back + 1])
			break;
		if (insn->kind == INSN_RSP_SAVE && insn->reg == reg)
			return flow->depths[i - back];
		/* C functions keep rbx, rbp and r12 to r15. */
		if (code_flow_is_call(insn)) {
			if (reg != 3 && reg != 5 && reg < 12)
				break;
		} else if (insn->kind != INSN_RSP_LOAD &&
			   insn_writes(&flow->decoder, code_flow_bytes(flow, i - back),
				       flow->code.n - insn->off, reg)) {
			break;
		}
	}
	return unknown(false);
}

/* Return the depth after instruction I, given DEPTH before I. */
static struct depth depth_after(const struct code_flow *flow, size_t i, struct depth depth)
{
	const struct insn *insn = &flow->insns[i];
	struct depth it;

	switch (insn->kind) {
	case INSN_PUSH:
		return moved(depth, 8);
	case INSN_POP:
		return moved(depth, -8);
	case INSN_RSP_ADD:
		return moved(depth, -insn->value);
	case INSN_RSP_LOAD:
		it = depth;
		it.kind = DEPTH_HANDLER;
		if (depth.kind != DEPTH_KNOWN)
			it.value = NO_VALUE;
		return it;
	case INSN_RSP_LOST:
		return unknown(depth.is_doubtful);
	case INSN_RSP_RESTORE:
		it = restored(flow, i);
		it.is_doubtful = depth.is_doubtful;
		return it;
	default:
		return depth;
	}
}

/*
 * Enqueue the successors of instruction I, except the instruction that follows it in memory.
 * Returns the new length of the queue.
 */
static size_t jump(struct code_flow *flow, size_t n, size_t i, struct depth depth)
{
	const struct insn *insn = &flow->insns[i];
	uint32_t number;

	switch (insn->kind) {
	case INSN_JCC:
	case INSN_JMP:
		if (code_flow_find(flow, insn->value, &number))
			n = enqueue(flow, n, number, depth);
		break;
	case INSN_LEA_RIP:
		/*
		 * OCaml pushes the address of an exception handler. The handler is entered with rsp
		 * as before the push.
		 */
		if (insn->value == 0 || !code_flow_find(flow, insn->value, &number))
			break;
		if (i + 1 == flow->n_insns || flow->insns[i + 1].kind != INSN_PUSH ||
		    flow->insns[i + 1].reg != insn->reg)
			depth = unknown(depth.is_doubtful);
		n = enqueue(flow, n, number, depth);
		break;
	case FLOW_JMP_TABLE:
		depth.is_doubtful = true;
		for (size_t k = 0; k < flow->tables[insn->value].n; k++)
			n = enqueue(flow, n, flow->targets[flow->tables[insn->value].first + k],
				    depth);
		break;
	default:
		break;
	}
	return n;
}

/*
 * A path runs past the last instruction. This is sound only after a call that never returns, which
 * nops may follow. So set flow->problem if the function does not end with a call and nops.
 */
static void check_end(struct code_flow *flow)
{
	size_t i = flow->n_insns - 1;

	while (i > 0 && flow->insns[i].kind == INSN_NOP && !flow->is_target[i])
		i--;
	if (!code_flow_is_call(&flow->insns[i]) && !flow->problem)
		flow->problem = "its code runs past its end";
}

/*
 * Follow the code from instruction I on, until it ends or until it reaches an instruction whose
 * depth does not change any more. Returns the new length of the queue.
 */
static size_t walk(struct code_flow *flow, size_t n, size_t i)
{
	for (;;) {
		const struct insn *insn = &flow->insns[i];
		struct depth depth = flow->depths[i];

		depth.is_queued = false;
		n = jump(flow, n, i, depth);
		if (!code_flow_goes_on(insn))
			return n;
		depth = depth_after(flow, i, depth);
		i++;
		if (i == flow->n_insns) {
			check_end(flow);
			return n;
		}
		/* The call may never return. This only matters if a jump leads behind it, too. */
		if (code_flow_is_call(insn) && flow->is_target[i])
			depth.is_doubtful = true;
		if (!reach(flow, i, depth))
			return n;
	}
}

void code_flow_find_depths(struct code_flow *flow)
{
	const struct depth entry = { .kind = DEPTH_KNOWN };
	size_t n = enqueue(flow, 0, 0, entry);

	while (n > 0) {
		uint32_t i = flow->queue[--n];

		flow->depths[i].is_queued = false;
		n = walk(flow, n, i);
	}
}
