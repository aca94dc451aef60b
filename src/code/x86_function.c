// SPDX-License-Identifier: MIT
#include "code/x86_function.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/code_flow.h"

static size_t rest(const struct code_flow *flow, size_t i)
{
	return flow->code.n - flow->insns[i].off;
}

static enum insn_cost cost_at(const struct code_flow *flow, size_t i)
{
	return insn_cost(&flow->decoder, code_flow_bytes(flow, i), rest(flow, i));
}

/* ---- the place ------------------------------------------------------------------------------ */

/*
 * Return true if instruction I is the site of a probe. If the probe is enabled, the five bytes
 * after I call the handler of the probe.
 */
static bool is_probe_site(const struct code_flow *flow, size_t i)
{
	enum { NOP = 0x90, CMP_EAX = 0x3d };
	const uint8_t *bytes = code_flow_bytes(flow, i);

	return bytes[0] == NOP && rest(flow, i) > 1 && bytes[1] == CMP_EAX;
}

/* Return true if the instruction that follows I is executed whenever I is executed. */
static bool runs_on(const struct code_flow *flow, size_t i)
{
	switch (flow->insns[i].kind) {
	case INSN_OTHER:
	case INSN_PUSH:
	case INSN_POP:
	case INSN_RSP_ADD:
	case INSN_RSP_SAVE:
	case INSN_RSP_RESTORE:
	case INSN_RSP_LOAD:
	case INSN_RSP_LOST:
	case INSN_LEA_RIP:
		return true;
	case INSN_NOP:
		return !is_probe_site(flow, i);
	default:
		return false;
	}
}

/*
 * Find the first instruction that the kernel emulates in the straight-line code at the function's
 * entry. This code ends before the first jump target and after the first instruction for which
 * runs_on() is false, so every call executes each of its instructions exactly once.
 */
static bool find_emulated(const struct code_flow *flow, size_t *number)
{
	for (size_t i = 0; i < flow->n_insns && !flow->is_target[i]; i++) {
		if (flow->insns[i].is_emulated) {
			*number = i;
			return true;
		}
		if (!runs_on(flow, i))
			break;
	}
	return false;
}

/*
 * Return true if the bytes at any offset of the function can be read as a jump to its entry. This
 * is for functions that cannot be decoded: where their instructions begin is unknown.
 */
static bool may_jump_to_entry(const struct code_flow *flow)
{
	const uint8_t *bytes = flow->code.bytes;
	int32_t near;

	for (size_t off = 0; off < flow->code.n; off++) {
		bool is_short = bytes[off] == 0xeb || (bytes[off] >= 0x70 && bytes[off] <= 0x7f) ||
				(bytes[off] >= 0xe0 && bytes[off] <= 0xe3);
		bool is_near = bytes[off] == 0xe9 || (bytes[off] >= 0x80 && bytes[off] <= 0x8f);

		if (is_short && off + 2 <= flow->code.n &&
		    (int64_t)off + 2 + (int8_t)bytes[off + 1] == 0)
			return true;
		if (!is_near || off + 5 > flow->code.n)
			continue;
		memcpy(&near, bytes + off + 1, sizeof(near));
		if ((int64_t)off + 5 + near == 0)
			return true;
	}
	return false;
}

/* Return why a uprobe on the first instruction does not count each call exactly once, or NULL. */
static const char *check_entry(const struct code_flow *flow, enum insn_cost cost)
{
	if (!flow->is_decoded && may_jump_to_entry(flow))
		return flow->problem;
	if (flow->is_target[0])
		return "a jump in it leads to its first instruction";
	if (cost == INSN_REFUSED)
		return "the kernel cannot probe its first instruction";
	if (insn_repeats(&flow->decoder, flow->code.bytes, flow->code.n))
		return "its first instruction repeats itself";
	return NULL;
}

static void find_count_place(const struct code_flow *flow, struct code_function *out)
{
	enum insn_cost entry_cost = cost_at(flow, 0);
	size_t i;

	out->entry_is_loop = flow->is_target[0];
	out->entry_cost = entry_cost == INSN_EMULATED ? CODE_EMULATED : CODE_STEPPED;
	out->no_entry = check_entry(flow, entry_cost);
	if (flow->problem || !find_emulated(flow, &i)) {
		out->place_is_entry = true;
		out->place_cost = out->entry_cost;
		out->no_count = out->no_entry;
		return;
	}
	out->place = flow->insns[i].off;
	out->place_cost = CODE_EMULATED;
	out->place_is_entry = i == 0;
	if (flow->depths[i].kind == DEPTH_KNOWN)
		out->place_depth = flow->depths[i].value;
	else
		out->time_from_entry = true;
}

/* ---- exits ---------------------------------------------------------------------------------- */

/* Return true if a call can end with instruction I, and set *KIND to the kind of this exit. */
static bool is_exit(const struct code_flow *flow, size_t i, enum code_exit_kind *kind)
{
	const struct insn *insn = &flow->insns[i];

	if (flow->depths[i].kind == DEPTH_NOT_REACHED)
		return false;
	switch (insn->kind) {
	case INSN_RET:
		*kind = flow->depths[i].kind == DEPTH_HANDLER ? CODE_RAISE : CODE_RET;
		return true;
	case FLOW_JMP_POPPED:
		*kind = CODE_RAISE;
		return true;
	case FLOW_JMP_POINTER:
		*kind = CODE_TAIL_JUMP;
		return true;
	case INSN_JMP:
		*kind = CODE_TAIL_JUMP;
		return insn->value < 0 || (uint64_t)insn->value >= flow->code.n;
	default:
		return false;
	}
}

/*
 * Set the depth of IT, the exit by instruction I. Set out->no_time if the exit cannot be used, and
 * out->time_from_entry if I is also the place of the uprobe.
 */
static void check_exit(const struct code_flow *flow, size_t i, enum insn_cost cost,
		       struct code_function *out, struct code_exit *it)
{
	const struct depth *depth = &flow->depths[i];

	it->depth = depth->kind == DEPTH_KNOWN ? depth->value : 0;
	it->depth_known = depth->kind == DEPTH_KNOWN;
	if (it->kind == CODE_RAISE ? depth->kind != DEPTH_HANDLER
				   : !it->depth_known || it->depth != 0)
		out->no_time = "its stack depth is unknown where it ends";
	else if (cost == INSN_REFUSED)
		out->no_time = "the kernel cannot probe an instruction that ends it";
	else if (it->off == 0)
		out->no_time = "it only jumps to another function";
	if (it->off == out->place)
		out->time_from_entry = true;
}

static int find_exits(struct ocp_ctx *ctx, const struct code_flow *flow, struct code_function *out)
{
	enum code_exit_kind kind;
	size_t n = 0;

	for (size_t i = 0; i < flow->n_insns; i++)
		n += is_exit(flow, i, &kind);
	if (n == 0) {
		out->no_time = "it never returns";
		return 0;
	}
	out->exits = calloc(n, sizeof(*out->exits));
	if (!out->exits)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < flow->n_insns; i++) {
		struct code_exit *it = &out->exits[out->n_exits];
		enum insn_cost cost;

		if (!is_exit(flow, i, &kind))
			continue;
		cost = cost_at(flow, i);
		out->n_exits++;
		it->off = flow->insns[i].off;
		it->kind = kind;
		it->cost = cost == INSN_EMULATED ? CODE_EMULATED : CODE_STEPPED;
		check_exit(flow, i, cost, out, it);
	}
	return 0;
}

/*
 * Return the target of a function that only jumps; 0 if the function does more. The function may
 * also have one conditional jump and, after the jump to the target, one call: the check whether the
 * collector must run.
 */
static uint64_t find_only_jump(const struct code_flow *flow)
{
	size_t n_branches = 0, n_calls = 0, exit = flow->n_insns;

	for (size_t i = 0; i < flow->n_insns; i++) {
		enum code_exit_kind kind;

		if (flow->depths[i].kind == DEPTH_NOT_REACHED)
			continue;
		if (is_exit(flow, i, &kind)) {
			if (exit < flow->n_insns || flow->insns[i].kind != INSN_JMP)
				return 0;
			exit = i;
		} else if (code_flow_is_call(&flow->insns[i])) {
			if (exit == flow->n_insns || n_calls++)
				return 0;
		} else if (flow->insns[i].kind == INSN_JCC && n_branches++) {
			return 0;
		}
	}
	if (exit == flow->n_insns || n_branches != n_calls)
		return 0;
	return flow->code.va + (uint64_t)flow->insns[exit].value;
}

/* ---- all ------------------------------------------------------------------------------------ */

static void drop_exits(struct code_function *out)
{
	free(out->exits);
	out->exits = NULL;
	out->n_exits = 0;
}

int code_function_find_place(struct ocp_ctx *ctx, const struct code_bytes *function,
			     struct code_file *file, struct code_function *out)
{
	struct code_flow *flow = code_file_flow(file);
	int err;

	*out = (struct code_function){ .place_is_entry = true,
				       .place_cost = CODE_STEPPED,
				       .entry_cost = CODE_STEPPED };
	if (function->n == 0 || function->n > FUNCTION_BYTES_MAX) {
		out->no_count = function->n ? "its code is larger than 4 MiB" : "it has no code";
		out->no_entry = out->no_time = out->no_count;
		return 0;
	}
	err = code_flow_read(flow, function, file);
	if (err)
		return ctx_no_memory(ctx);
	if (flow->n_insns == 0) {
		out->no_entry = out->no_count = out->no_time = flow->problem;
		return 0;
	}
	find_count_place(flow, out);
	out->no_time = out->no_count ? out->no_count : flow->problem;
	return 0;
}

int code_function_decode(struct ocp_ctx *ctx, const struct code_bytes *function,
			 struct code_file *file, struct code_function *out)
{
	const struct code_flow *flow = code_file_flow(file);
	int err = code_function_find_place(ctx, function, file, out);

	if (!err && !out->no_time)
		err = find_exits(ctx, flow, out);
	if (!flow->problem)
		out->only_jumps_to = find_only_jump(flow);
	if (!out->no_time && out->time_from_entry)
		out->no_time = out->no_entry;
	if (err || out->no_time)
		drop_exits(out);
	return err;
}

void code_function_free(struct code_function *function)
{
	drop_exits(function);
}
