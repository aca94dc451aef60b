// SPDX-License-Identifier: MIT
/*
 * Decode a function from its first to its last byte. This is possible because all its bytes are
 * instructions: compilers for x86-64 keep jump tables elsewhere. So code that is reached only by
 * exceptions is decoded, too.
 */
#include "code/code_flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

/* The text of `problem` for a function with an indirect jump of an unknown kind. */
static const char code_flow_unknown_jump[] = "it has a jump that cannot be followed";

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

/*
 * Make room for at least N elements of BYTES bytes in *ARRAY, which has room for *ROOM elements.
 * Returns 0 or -ENOMEM.
 */
static int code_flow_reserve(void **array, size_t *room, size_t n, size_t bytes)
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

/* ---- jump tables ----------------------------------------------------------------------------- */

/*
 * Find where the indirect jumps of a function lead. OCaml compiles `match`, and gcc compiles
 * `switch`, to the pattern
 *
 *	lea T(%rip),r; movslq (r,i,4),s; add r,s; jmp *s
 *
 * T is a table of int32 distances from T. Its length is not stored. The decoder assumes that T ends
 * before the next address that the function loads, and before the first distance that leads to no
 * instruction of the function. So the decoder may read past the end of T: it finds all targets of
 * T, and perhaps some more.
 *
 * A jump to an address that was popped is a raise. Any other jump to an address that was read from
 * memory is a tail call: of a closure, or through the GOT.
 */

enum {
	TABLE_TARGETS_MAX = 1 << 16,
	/*
	 * The limit for all tables of a function: a hostile function can jump often through the
	 * same table.
	 */
	TARGETS_MAX = 1 << 20,
};

static size_t rest(const struct code_flow *flow, size_t i)
{
	return flow->code.n - flow->insns[i].off;
}

/*
 * Return true if no jump leads to instructions FIRST + 1 to LAST. If so, whenever one of these
 * instructions runs, FIRST and all instructions between FIRST and it have run before.
 */
static bool is_straight(const struct code_flow *flow, size_t first, size_t last)
{
	for (size_t i = first + 1; i <= last; i++) {
		if (flow->is_target[i])
			return false;
	}
	return true;
}

/*
 * Return true if the jump at I is the last instruction of the pattern described above. If so, set
 * *TABLE to the offset of the jump table from the start of the function.
 */
static bool match_table(const struct code_flow *flow, size_t i, int64_t *table)
{
	const struct insn *lea;
	struct insn_table_load load;
	unsigned int to, from;

	if (i < 3)
		return false;
	lea = &flow->insns[i - 3];
	if (lea->kind != INSN_LEA_RIP || !is_straight(flow, i - 3, i) ||
	    !insn_is_table_load(&flow->decoder, code_flow_bytes(flow, i - 2), rest(flow, i - 2),
				&load) ||
	    !insn_is_add(&flow->decoder, code_flow_bytes(flow, i - 1), rest(flow, i - 1), &to,
			 &from))
		return false;
	*table = lea->value;
	return load.base == lea->reg && to == flow->insns[i].reg &&
	       ((to == load.to && from == load.base) || (to == load.base && from == load.to));
}

/*
 * Return true if the register of the indirect jump at I is loaded from memory, by an instruction
 * that always runs before the jump.
 */
static bool is_loaded(const struct code_flow *flow, size_t i)
{
	unsigned int reg = flow->insns[i].reg;

	while (i > 0 && !flow->is_target[i]) {
		const uint8_t *bytes = code_flow_bytes(flow, --i);

		if (!code_flow_goes_on(&flow->insns[i]) || code_flow_is_call(&flow->insns[i]))
			return false;
		if (insn_is_load(&flow->decoder, bytes, rest(flow, i), reg))
			return true;
		if (insn_writes(&flow->decoder, bytes, rest(flow, i), reg))
			return false;
	}
	return false;
}

static int compare_lea_targets(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return COMPARE(x, y);
}

/* Collect the addresses that the function loads, any of which may be a table. */
static int find_leas(struct code_flow *flow)
{
	int64_t *new;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (flow->insns[i].kind != INSN_LEA_RIP)
			continue;
		new = array_add(flow->leas, flow->n_leas);
		if (!new)
			return -ENOMEM;
		*new = flow->insns[i].value;
	}
	qsort(flow->leas, flow->n_leas, sizeof(*flow->leas), compare_lea_targets);
	return 0;
}

/* Return the lowest address above TABLE that the function loads, or INT64_MAX without one. */
static int64_t next_lea(const struct code_flow *flow, int64_t table)
{
	const size_t next = SEARCH(i, flow->n_leas, flow->leas[i] <= table);

	return next < flow->n_leas ? flow->leas[next] : INT64_MAX;
}

static int add_target(struct code_flow *flow, uint32_t number)
{
	uint32_t *new = array_add(flow->targets, flow->n_targets);

	if (!new)
		return -ENOMEM;
	*new = number;
	flow->is_target[number] = true;
	return 0;
}

/*
 * Read the jump table at TABLE into a new element of `tables`. If TABLE has no valid targets, the
 * element is empty.
 */
static int read_jump_table(struct code_flow *flow, int64_t table)
{
	int64_t end = next_lea(flow, table);
	struct jump_table *it;
	struct code_bytes bytes;
	uint32_t number;
	int32_t distance;
	int err;

	it = array_add(flow->tables, flow->n_tables);
	if (!it)
		return -ENOMEM;
	*it = (struct jump_table){ .first = flow->n_targets };
	for (int64_t at = table; at < end && it->n < TABLE_TARGETS_MAX; at += 4) {
		if (flow->n_targets == TARGETS_MAX) {
			it->n = 0;
			break;
		}
		if (code_file_bytes(flow->file, false, flow->code.va + (uint64_t)at, 4, &bytes))
			break;
		memcpy(&distance, bytes.bytes, sizeof(distance));
		if (!code_flow_find(flow, table + distance, &number))
			break;
		err = add_target(flow, number);
		if (err)
			return err;
		it->n++;
	}
	return 0;
}

static int follow_jump(struct code_flow *flow, size_t i)
{
	struct insn *jump = &flow->insns[i];
	int64_t table;
	int err;

	if (match_table(flow, i, &table)) {
		if (flow->n_leas == 0) {
			err = find_leas(flow);
			if (err)
				return err;
		}
		err = read_jump_table(flow, table);
		if (err || flow->tables[flow->n_tables - 1].n == 0)
			return err;
		jump->kind = FLOW_JMP_TABLE;
		jump->value = (int64_t)flow->n_tables - 1;
	} else if (i > 0 && flow->insns[i - 1].kind == INSN_POP &&
		   flow->insns[i - 1].reg == jump->reg && !flow->is_target[i]) {
		jump->kind = FLOW_JMP_POPPED;
	} else if (is_loaded(flow, i)) {
		jump->kind = FLOW_JMP_POINTER;
	}
	return 0;
}

/*
 * Return true if the kind that follow_jump() gave the jump at I is still right. The kind is wrong
 * if a jump table that was read later leads into the middle of the pattern that ends with the jump.
 */
static bool is_still_straight(const struct code_flow *flow, size_t i)
{
	switch (flow->insns[i].kind) {
	case FLOW_JMP_TABLE:
		return is_straight(flow, i - 3, i);
	case FLOW_JMP_POPPED:
		return !flow->is_target[i];
	case FLOW_JMP_POINTER:
		return flow->insns[i].reg == INSN_NO_REG || is_loaded(flow, i);
	case INSN_JMP_REG:
	case INSN_JMP_OTHER:
		return false;
	default:
		return true;
	}
}

/* Find the kinds of the indirect jumps, and read the jump tables. */
static int code_flow_follow_jumps(struct code_flow *flow)
{
	int err;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (flow->insns[i].kind == INSN_JMP_MEM)
			flow->insns[i].kind = FLOW_JMP_POINTER;
		if (flow->insns[i].kind != INSN_JMP_REG)
			continue;
		err = follow_jump(flow, i);
		if (err)
			return err;
	}
	for (size_t i = 0; i < flow->n_insns; i++) {
		if (!is_still_straight(flow, i) && !flow->problem)
			flow->problem = code_flow_unknown_jump;
	}
	return 0;
}

/* ---- depths of the stack --------------------------------------------------------------------- */

/*
 * Find the depth of the stack before each instruction, along all paths from the entry.
 *
 * All paths that a program can take to an instruction have the same depth. But some of the paths
 * followed here can never be taken: the path after a call that never returns, and a jump through an
 * element past the end of its jump table. So a depth is doubtful if its path goes through a jump
 * table, or through a call that is followed by the target of a jump. If another path gives a depth
 * that is not doubtful, that depth replaces the doubtful one.
 */

/*
 * The `value` of a depth of kind DEPTH_HANDLER is the depth before rsp was loaded from memory;
 * NO_VALUE if that depth is unknown.
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
 * Combine two depths before the same instruction: OLD is the result of the paths so far, NEW comes
 * from one more path.
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
 * Take DEPTH as the depth before instruction I on one more path. Returns true if this has changed
 * flow->depths[I].
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
 * Instruction I is `mov REG,%rsp`. Return the depth after it, which is the depth at the `mov
 * %rsp,REG` shortly before I. OCaml 5 saves and restores rsp this way when it calls a C function on
 * another stack.
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
 * Append the successors of instruction I to the queue, except the instruction that follows I in
 * memory. N is the length of the queue. Returns the new length.
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
		 * OCaml loads the address of an exception handler, and then pushes it. When the
		 * handler is entered, rsp is as it was before the push.
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
 * Called if a path runs past the last instruction. A sound program never takes such a path: the
 * function ends with a call that never returns, perhaps followed by nops. So set flow->problem if
 * the function does not end this way.
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
 * Follow the code from instruction I on, up to the end of the path or to an instruction whose depth
 * does not change any more. N is the length of the queue. Returns the new length of the queue.
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
		/*
		 * The call may never return. This matters only if a jump also leads to the
		 * instruction after the call.
		 */
		if (code_flow_is_call(insn) && flow->is_target[i])
			depth.is_doubtful = true;
		if (!reach(flow, i, depth))
			return n;
	}
}

/* Set `depths` to the depth before each instruction. */
static void code_flow_find_depths(struct code_flow *flow)
{
	const struct depth entry = { .kind = DEPTH_KNOWN };
	size_t n = enqueue(flow, 0, 0, entry);

	while (n > 0) {
		uint32_t i = flow->queue[--n];

		flow->depths[i].is_queued = false;
		n = walk(flow, n, i);
	}
}

/* ---- reading a function ---------------------------------------------------------------------- */

/* Like code_flow_reserve(), but for all arrays that have an element for each instruction. */
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
 * Mark the instruction at offset VALUE as the target of a jump, or of a pointer by which code can
 * jump. VALUE must be inside the function. If no instruction begins at VALUE, set is_decoded to
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
			flow->only_leaves = true;
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
 * function to one of its labels: then set flow->problem.
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
	flow->only_leaves = false;
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
	if (!flow->is_decoded) {
		flow->only_leaves = false;
		return 0;
	}
	err = code_flow_follow_jumps(flow);
	if (err)
		return err;
	code_flow_find_depths(flow);
	check_jumps(flow);
	if (flow->problem)
		flow->only_leaves = false;
	else if (flow->only_leaves)
		flow->problem = "it jumps to code that is not a function";
	return 0;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

/*
 * Calls are timed between two instructions that the kernel emulates, since a return probe costs
 * twice as much as a probe on an emulated instruction, and a probe on a single-stepped entry ten
 * times as much. Functions of the runtime have branches, which are emulated, near their beginning
 * and their end. The few moves and pops before the first branch and after the last one are not
 * timed.
 *
 * The search follows all paths of the function. Some of these paths are never taken, for example
 * the path after a call that never returns. Because of them, the search may find no instructions,
 * or instructions farther from the beginning or the end than necessary. But it never finds wrong
 * instructions.
 */

struct pause_search {
	const struct code_flow *flow;
	bool *seen; /* for each instruction: the search has visited it */
	uint32_t *queue;
	size_t n_queued;
	size_t avoided;
	code_bound_fn is_bound;
	const void *data;
};

static void visit(struct pause_search *s, size_t i)
{
	if (i < s->flow->n_insns && i != s->avoided && !s->seen[i]) {
		s->seen[i] = true;
		s->queue[s->n_queued++] = (uint32_t)i;
	}
}

/*
 * Visit the instructions that can be executed right after I. Return true if a call can end with I.
 */
static bool visit_next(struct pause_search *s, size_t i)
{
	const struct code_flow *flow = s->flow;
	const struct insn *insn = &flow->insns[i];
	uint32_t number;

	if (code_flow_goes_on(insn))
		visit(s, i + 1);
	switch (insn->kind) {
	case INSN_JCC:
	case INSN_JMP:
		if (!code_flow_find(flow, insn->value, &number))
			return true;
		visit(s, number);
		return false;
	case FLOW_JMP_TABLE:
		for (size_t k = 0; k < flow->tables[insn->value].n; k++)
			visit(s, flow->targets[flow->tables[insn->value].first + k]);
		return false;
	case INSN_TRAP:
		return false;
	default:
		return !code_flow_goes_on(insn);
	}
}

/*
 * Mark in `seen` all instructions on the paths from FIRST that do not execute AVOIDED. If
 * LEAVE_OUT, the paths begin after FIRST, with its successors. Return true if a call can end on one
 * of these paths.
 */
static bool explore(struct pause_search *s, size_t first, bool leave_out, size_t avoided)
{
	bool ends = false;

	memset(s->seen, 0, s->flow->n_insns * sizeof(*s->seen));
	s->n_queued = 0;
	s->avoided = avoided;
	if (leave_out)
		ends = visit_next(s, first);
	else
		visit(s, first);
	while (s->n_queued)
		ends |= visit_next(s, s->queue[--s->n_queued]);
	return ends;
}

static bool is_usable(struct pause_search *s, size_t i)
{
	const struct depth *depth = &s->flow->depths[i];

	if (depth->kind != DEPTH_KNOWN || depth->is_doubtful || !s->is_bound(s->flow, i, s->data))
		return false;
	explore(s, i, true, CODE_NOWHERE);
	return !s->seen[i];
}

/* Return true if a call can execute J after I. */
static bool leads_to(struct pause_search *s, size_t i, size_t j)
{
	explore(s, i, true, CODE_NOWHERE);
	return s->seen[j];
}

/*
 * Return true if a pause can begin at I. If THROUGH is CODE_NOWHERE, each call must execute I.
 * Otherwise I must be THROUGH, or each call that executes one of the two must execute I before
 * THROUGH.
 */
static bool begins(struct pause_search *s, size_t i, size_t through)
{
	if (through == CODE_NOWHERE)
		return !explore(s, 0, false, i);
	if (i == through)
		return true;
	explore(s, 0, false, i);
	return !s->seen[through] && !explore(s, i, true, through);
}

/*
 * Return true if instruction I, or one that can be executed after I, calls a function or jumps to
 * one: a pause that ends at I would lack the time of this function, such as the second compaction
 * of OCaml 4. Functions whose addresses are in memory are hooks of the program: they do not matter.
 */
static bool calls_after(struct pause_search *s, size_t i)
{
	const struct code_flow *flow = s->flow;
	uint32_t number;

	explore(s, i, false, CODE_NOWHERE);
	for (size_t k = 0; k < flow->n_insns; k++) {
		const struct insn *insn = &flow->insns[k];

		if (s->seen[k] && (insn->kind == INSN_CALL ||
				   ((insn->kind == INSN_JMP || insn->kind == INSN_JCC) &&
				    !code_flow_find(flow, insn->value, &number))))
			return true;
	}
	return false;
}

/*
 * Return true if a pause can end at I. This is like begins(), but I must be executed after THROUGH,
 * and no function may be called after I.
 */
static bool ends(struct pause_search *s, size_t i, size_t through)
{
	if (calls_after(s, i))
		return false;
	if (through == CODE_NOWHERE)
		return !explore(s, 0, false, i);
	if (explore(s, through, true, i))
		return false;
	explore(s, 0, false, through);
	return !s->seen[i];
}

/*
 * Return the number of the instruction that calls the function at VA; CODE_NOWHERE if no
 * instruction does, or several do.
 */
static size_t find_call(const struct code_flow *flow, uint64_t va)
{
	size_t found = CODE_NOWHERE;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (flow->insns[i].kind != INSN_CALL ||
		    flow->code.va + (uint64_t)flow->insns[i].value != va)
			continue;
		if (found != CODE_NOWHERE)
			return CODE_NOWHERE;
		found = i;
	}
	return found;
}

static int find_bounds(struct pause_search *s, size_t through, struct code_bounds *out)
{
	size_t begin = CODE_NOWHERE, end = CODE_NOWHERE;

	for (size_t i = 0; i < s->flow->n_insns; i++) {
		if (!is_usable(s, i))
			continue;
		if (begins(s, i, through) && (begin == CODE_NOWHERE || leads_to(s, i, begin)))
			begin = i;
		if (ends(s, i, through) && (end == CODE_NOWHERE || leads_to(s, end, i)))
			end = i;
	}
	if (begin == CODE_NOWHERE)
		return -ENODATA;
	if (end != CODE_NOWHERE && !leads_to(s, begin, end))
		end = CODE_NOWHERE;
	*out = (struct code_bounds){ begin, end };
	return 0;
}

int code_bounds_find(struct ocp_ctx *ctx, const struct code_flow *flow, uint64_t through_va,
		     code_bound_fn is_bound, const void *data, struct code_bounds *out)
{
	struct pause_search search = { .flow = flow, .is_bound = is_bound, .data = data };
	const size_t through = through_va ? find_call(flow, through_va) : CODE_NOWHERE;
	int err;

	if (flow->problem || !flow->n_insns || (through_va && through == CODE_NOWHERE))
		return -ENODATA;
	search.seen = calloc(flow->n_insns, sizeof(*search.seen));
	search.queue = calloc(flow->n_insns, sizeof(*search.queue));
	err = search.seen && search.queue ? find_bounds(&search, through, out) : ctx_no_memory(ctx);
	free(search.seen);
	free(search.queue);
	return err;
}

static bool is_emulated(const struct code_flow *flow, size_t i, const void *data)
{
	(void)data;
	return flow->insns[i].is_emulated;
}

int code_pause_find(struct ocp_ctx *ctx, const struct code_bytes *function, struct code_file *file,
		    uint64_t through_va, struct code_pause *out)
{
	struct code_flow *flow = code_file_flow(file);
	struct code_bounds bounds;
	int err;

	if (!function->n || function->n > CODE_PAUSE_BYTES)
		return -ENODATA;
	if (code_flow_read(flow, function, file))
		return ctx_no_memory(ctx);
	err = code_bounds_find(ctx, flow, through_va, is_emulated, NULL, &bounds);
	if (err)
		return err;
	if (bounds.end == CODE_NOWHERE)
		return -ENODATA;
	*out = (struct code_pause){ .begin = flow->insns[bounds.begin].off,
				    .end = flow->insns[bounds.end].off,
				    .begin_depth = flow->depths[bounds.begin].value,
				    .end_depth = flow->depths[bounds.end].value };
	return 0;
}
