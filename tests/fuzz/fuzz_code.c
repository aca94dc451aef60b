// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as the code of a function. The first byte of the input says how many
 * of the others are jump tables behind the code; the second spreads the addresses that are entries
 * of functions. Whatever the bytes are: uprobes stand on instructions of the function, no jump
 * leads to the place or between the entry and the place, and decoding again gives the same.
 */
#include <stdlib.h>
#include <string.h>

#include "code/code_flow.h"
#include "code/x86_function.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { VA = 0x10000, N_ENTRIES = 4 };

static void require(int condition)
{
	if (!condition)
		abort();
}

static void require_instruction(const struct code_flow *flow, uint32_t off)
{
	uint32_t number;

	require(code_flow_find(flow, off, &number));
	require(flow->insns[number].off == off);
}

static void check_flow(const struct code_flow *flow)
{
	uint32_t off = 0, number;

	for (size_t i = 0; i < flow->n_insns; i++) {
		const struct insn *insn = &flow->insns[i];

		require(insn->off == off && insn->n_bytes > 0 && insn->n_bytes <= 15);
		off += insn->n_bytes;
		if (flow->is_decoded && insn->kind == INSN_JCC &&
		    code_flow_find(flow, insn->value, &number))
			require(flow->is_target[number]);
	}
	require(off <= flow->code.n && (!flow->is_decoded || off == flow->code.n));
}

static void check_exits(const struct code_flow *flow, const struct code_function *it)
{
	for (size_t i = 0; i < it->n_exits; i++) {
		require_instruction(flow, it->exits[i].off);
		require(i == 0 || it->exits[i].off > it->exits[i - 1].off);
		require(it->exits[i].kind == CODE_RAISE ||
			(it->exits[i].depth_known && it->exits[i].depth == 0));
	}
}

static void check_function(const struct code_flow *flow, const struct code_function *it)
{
	require(it->no_time || it->n_exits > 0);
	require(!it->no_time || it->n_exits == 0);
	require(!it->no_count || (it->no_time && it->no_entry));
	if (it->no_count)
		return;
	require_instruction(flow, it->place);
	require(it->place_is_entry == (it->place == 0));
	require(it->place == 0 || it->place_cost == CODE_EMULATED);
	for (uint32_t off = 0; flow->is_decoded && off <= it->place; off++) {
		uint32_t number;

		if (code_flow_find(flow, off, &number))
			require(!flow->is_target[number]);
	}
	check_exits(flow, it);
}

static void require_same(const struct code_function *a, const struct code_function *b)
{
	require(a->place == b->place && a->place_cost == b->place_cost &&
		a->place_depth == b->place_depth && a->no_count == b->no_count &&
		a->no_time == b->no_time && a->n_exits == b->n_exits);
	for (size_t i = 0; i < a->n_exits; i++)
		require(a->exits[i].off == b->exits[i].off && a->exits[i].kind == b->exits[i].kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	uint64_t entries[N_ENTRIES];
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct code_bytes all, code;
	struct code_function first, second;
	struct code_file *file;
	uint8_t *copy;

	require(ctx != NULL);
	if (n < 2 || n > FUNCTION_BYTES_MAX) {
		ocp_ctx_free(ctx);
		return 0;
	}
	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	copy = malloc(n - 1);
	require(copy != NULL);
	memcpy(copy, bytes + 1, n - 1);
	all = (struct code_bytes){ .bytes = copy, .n = n - 1, .va = VA };
	code = (struct code_bytes){ .bytes = copy,
				    .n = bytes[0] < n - 1 ? n - 1 - bytes[0] : n - 1,
				    .va = VA };
	for (uint64_t i = 0; i < N_ENTRIES; i++)
		entries[i] = VA - 8 + 8 * i * copy[0];
	require(code_file_open_memory(ctx, &all, 1, entries, N_ENTRIES, &file) == 0);
	require(code_function_decode(ctx, &code, file, &first) == 0);
	check_flow(code_file_flow(file));
	check_function(code_file_flow(file), &first);
	require(code_function_decode(ctx, &code, file, &second) == 0);
	require_same(&first, &second);
	code_function_free(&first);
	code_function_free(&second);
	code_file_close(file);
	free(copy);
	ocp_ctx_free(ctx);
	return 0;
}
