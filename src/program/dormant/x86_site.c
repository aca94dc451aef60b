// SPDX-License-Identifier: MIT
/*
 * `if Sys.opaque_identity MARKER == <0> then handler` is compiled by ocamlopt for amd64 to
 *
 *	load  MARKER,%R		7 bytes: lea D(%rip), mov of a GOT slot, or mov $imm32 (non-PIE)
 *	cmp   $1,%R		4 bytes; 1 is OCaml's 0. A marker's address never equals 1
 *	jne   L			2 or 6 bytes
 *	<handler>
 *   L:
 *
 * If the handler, or the code after it, is itself a jump, ocamlopt inverts the condition:
 *
 *	load; cmp; je H
 *   N:
 *
 * where H is the handler and N the next code. If the handler is empty, H == N.
 *
 * The condition is constant. So the one byte that differs between je and jne (74 and 75, in the
 * near form 0f 84 and 0f 85) enables and disables the handler. Changing it is safe at any time,
 * wherever a thread is, because the instructions keep their lengths. The tool does this in a
 * running program that was not post-linked. It does not convert the sites to the post-linker's
 * form: a uprobe executes the first instruction as it is in the file, here the load of 7 bytes, and
 * execution would continue in the middle of an instruction of the converted site.
 *
 * Usually a dormant probe has just the three instructions above the handler; x86_match.c describes
 * which others may be in between.
 */
#include "program/dormant/x86_site.h"

#include <string.h>

/* The distance from the end of a dormant probe to the byte that differs in je and jne. */
enum { SHORT_OPCODE_OFF = 2, NEAR_OPCODE_OFF = 5 };

static int32_t read_i32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
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
		/* REX.R and REX.X have no meaning here, and compilers do not set them. */
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

size_t x86_site_handler(const struct x86_site *site)
{
	return site->pos + site->n_bytes + (size_t)(site->is_inverted ? site->jump : 0);
}

size_t x86_site_opcode_at(const struct x86_site *site)
{
	return site->n_bytes - (site->is_near ? NEAR_OPCODE_OFF : SHORT_OPCODE_OFF);
}
