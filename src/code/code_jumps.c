// SPDX-License-Identifier: MIT
/*
 * Find where the indirect jumps of a function lead. OCaml compiles `match`, and gcc compiles
 * `switch`, to the pattern
 *
 *	lea T(%rip),r; movslq (r,i,4),s; add r,s; jmp *s
 *
 * T is a table of int32 distances from T. Its length is not stored. The decoder assumes that T ends
 * before the next address that the function loads, and before the first distance that leads to no
 * instruction of the function. So T can seem longer than it is: the decoder finds all targets of T,
 * and perhaps some more.
 *
 * A jump to an address that was popped is a raise. Any other jump to an address that was read from
 * memory is a tail call: of a closure, or through the GOT.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "code/code_flow.h"

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
 * Return true if no jump leads to instructions FIRST + 1 to LAST. Then FIRST always runs before
 * them.
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
 * Return true if the jump at I ends the pattern described at the top of this file. Then set *TABLE
 * to the offset of its table from the start of the function.
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
 * Return true if an instruction that always runs before the jump at I loads the jump's register
 * from memory.
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
	int err;

	for (size_t i = 0; i < flow->n_insns; i++) {
		if (flow->insns[i].kind != INSN_LEA_RIP)
			continue;
		err = code_flow_reserve((void **)&flow->leas, &flow->leas_room, flow->n_leas + 1,
					sizeof(*flow->leas));
		if (err)
			return err;
		flow->leas[flow->n_leas++] = flow->insns[i].value;
	}
	qsort(flow->leas, flow->n_leas, sizeof(*flow->leas), compare_lea_targets);
	return 0;
}

/* Return the lowest address above TABLE that the function loads, or INT64_MAX. */
static int64_t next_lea(const struct code_flow *flow, int64_t table)
{
	const size_t next = SEARCH(i, flow->n_leas, flow->leas[i] <= table);

	return next < flow->n_leas ? flow->leas[next] : INT64_MAX;
}

static int add_target(struct code_flow *flow, uint32_t number)
{
	int err = code_flow_reserve((void **)&flow->targets, &flow->targets_room,
				    flow->n_targets + 1, sizeof(*flow->targets));

	if (err)
		return err;
	flow->targets[flow->n_targets++] = number;
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

	err = code_flow_reserve((void **)&flow->tables, &flow->tables_room, flow->n_tables + 1,
				sizeof(*flow->tables));
	if (err)
		return err;
	it = &flow->tables[flow->n_tables++];
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
 * Return true if the kind that follow_jump() gave the jump at I is still right. It is wrong if a
 * table that was read later has a target among the instructions of the jump's pattern.
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

int code_flow_follow_jumps(struct code_flow *flow)
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
