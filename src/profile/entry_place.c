// SPDX-License-Identifier: MIT
#include "profile/entry_place.h"

#include <errno.h>

#include "code/code_insn.h"
#include "code/x86_function.h"

enum { REG_RDI = 7 };

/* Return true if the instructions at BYTES[0..N) neither branch nor change rdi or memory. */
static bool changes_nothing(struct insn_decoder *decoder, const uint8_t *bytes, size_t n)
{
	struct insn insn;

	for (size_t at = 0; at < n; at += insn.n_bytes) {
		if (!insn_decode(decoder, bytes + at, n - at, (uint32_t)at, &insn))
			return false;
		if (insn.kind != INSN_OTHER && insn.kind != INSN_NOP && insn.kind != INSN_RSP_ADD &&
		    insn.kind != INSN_RSP_SAVE && insn.kind != INSN_LEA_RIP)
			return false;
		if (insn_writes(decoder, bytes + at, n - at, REG_RDI) ||
		    insn_stores(decoder, bytes + at, n - at))
			return false;
	}
	return true;
}

int entry_place_find(struct ocp_ctx *ctx, struct code_file *file,
		     const struct named_symbol *function, struct entry_place *place)
{
	struct insn_decoder decoder;
	struct code_function decoded;
	struct code_bytes bytes;
	int err;

	*place = (struct entry_place){ .va = function->va, .is_stepped = true };
	err = code_file_bytes(file, true, function->va, function->bytes, &bytes);
	if (err)
		return err == -ENOMEM ? ctx_no_memory(ctx) : 0;
	err = code_function_find_place(ctx, &bytes, file, &decoded);
	if (err)
		return err;
	place->is_stepped = decoded.entry_cost == CODE_STEPPED;
	if (place->is_stepped && !decoded.no_count && decoded.place_cost == CODE_EMULATED) {
		if (!insn_decoder_init(&decoder)) {
			err = ctx_no_memory(ctx);
		} else if (changes_nothing(&decoder, bytes.bytes, decoded.place)) {
			place->va += decoded.place;
			place->is_stepped = false;
		}
		insn_decoder_free(&decoder);
	}
	code_function_free(&decoded);
	return err;
}
