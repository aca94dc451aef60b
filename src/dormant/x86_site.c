// SPDX-License-Identifier: MIT
/*
 * `if Sys.opaque_identity MARKER == <0> then handler` is, by ocamlopt for amd64:
 *
 *	load  MARKER,%R		7 bytes: lea D(%rip), mov of a GOT slot, or mov $imm32 (non-PIE)
 *	cmp   $1,%R		4 bytes; 1 is OCaml's 0. A marker's address never equals it
 *	jne   L			2 or 6 bytes
 *	<handler>
 *   L:
 *
 * Where handler or the code behind it is itself a jump, ocamlopt inverts the condition:
 *
 *	load; cmp; je H
 *   N:
 *
 * An empty handler is the case H == N.
 *
 * Since the condition is a constant, the one byte that tells je and jne apart (74 and 75, in the
 * near form 0f 84 and 0f 85) switches the handler on and off, at any time, wherever a thread is: no
 * instruction begins or ends anywhere else. That is what is done in a running program that was
 * never post-linked. It is not turned into the post-linker's form: a uprobe's first instruction
 * comes from the file, and would be followed by the middle of another one.
 *
 * The three instructions come from one operation and the test at the end of its basic block.
 * ocamlopt puts labels at block starts only, so a jump may lead to the first instruction but never
 * behind it. What the register allocator can do to the sequence, under enough pressure, is to spill
 * %R between load and cmp; that form, and any other, is refused, and stays dormant.
 */
#include "dormant/x86_site.h"

#include <string.h>

enum {
	CMP_BYTES = 4,
	JCC_SHORT_BYTES = 2,
	JCC_NEAR_BYTES = 6,
};

static int32_t read_i32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static int64_t read_i8(const uint8_t *bytes)
{
	return *bytes < 0x80 ? *bytes : *bytes - 0x100;
}

bool x86_decode_load(const struct x86_code *code, size_t pos, struct x86_load *load)
{
	const uint8_t *b = code->bytes + pos;
	int64_t operand;

	if (code->n_bytes < X86_LOAD_BYTES || pos > code->n_bytes - X86_LOAD_BYTES ||
	    !x86_may_be_load(b))
		return false;
	operand = read_i32(b + 3);
	if (b[1] == 0xc7) {
		/* REX.R and REX.X mean nothing here; a compiler never sets them. */
		if (b[0] & 0x06)
			return false;
		load->form = X86_LOAD_IMMEDIATE;
		load->reg = (b[2] & 7u) | (b[0] & 1u) << 3;
		load->va = (uint64_t)operand;
		return true;
	}
	if (b[0] & 0x03)
		return false;
	load->form = b[1] == 0x8d ? X86_LOAD_LEA : X86_LOAD_GOT;
	load->reg = (b[2] >> 3 & 7u) | (b[0] & 4u) << 1;
	load->va = code->va + pos + X86_LOAD_BYTES + (uint64_t)operand;
	return true;
}

const char *x86_match_site(const struct x86_code *code, size_t pos, const struct x86_load *load,
			   struct x86_site *site)
{
	const uint8_t rex = (uint8_t)(0x48 | load->reg >> 3);
	const uint8_t cmp[CMP_BYTES] = { rex, 0x83, (uint8_t)(0xf8 | (load->reg & 7)), 1 };
	size_t room = code->n_bytes - pos;
	const uint8_t *b = code->bytes + pos;
	size_t at = X86_LOAD_BYTES;
	int64_t target;

	/* %rsp cannot be popped into, and is never allocated. */
	if (load->reg == 4)
		return "the marker's address is loaded into the stack pointer";
	if (room < at + CMP_BYTES + JCC_SHORT_BYTES || memcmp(b + at, cmp, CMP_BYTES) != 0)
		return "the marker's address is not compared right after it was loaded";
	at += CMP_BYTES;
	memset(site, 0, sizeof(*site));
	site->pos = pos;
	site->reg = load->reg;
	if (b[at] == 0x75 || b[at] == 0x74) {
		site->is_inverted = b[at] == 0x74;
		site->jump = read_i8(b + at + 1);
		site->n_bytes = at + JCC_SHORT_BYTES;
	} else if (b[at] == 0x0f && (b[at + 1] == 0x85 || b[at + 1] == 0x84) &&
		   room >= at + JCC_NEAR_BYTES) {
		site->is_inverted = b[at + 1] == 0x84;
		site->is_near = true;
		site->jump = read_i32(b + at + 2);
		site->n_bytes = at + JCC_NEAR_BYTES;
	} else {
		return "no jump on equality follows the comparison";
	}

	target = (int64_t)(pos + site->n_bytes) + site->jump;
	if (target < 0 || target >= (int64_t)code->n_bytes || pos + site->n_bytes >= code->n_bytes)
		return "the jump leads out of the section";
	if (target > (int64_t)pos && target < (int64_t)(pos + site->n_bytes))
		return "the jump leads into the probe itself";
	return NULL;
}

size_t x86_site_handler(const struct x86_site *site)
{
	return site->pos + site->n_bytes + (size_t)(site->is_inverted ? site->jump : 0);
}

size_t x86_site_opcode_at(const struct x86_site *site)
{
	return site->n_bytes - (site->is_near ? JCC_NEAR_BYTES - 1 : JCC_SHORT_BYTES);
}
