// SPDX-License-Identifier: MIT
/*
 * A dormant probe (see dormant/x86_site.c) becomes a site of the probe ABI, in the same bytes.
 *
 *	nop
 *	cmp   $D,%eax		3d: off; e8 makes it `call`, and D leads to the pop
 *	jmp   L
 *	pop   %R		drops the return address and falls into the handler
 *	nops
 *	<handler>
 *
 * The handler stays in its place, no code is added, and the stack layout stays the same. The pop
 * can overwrite %R, whose value is not used after the site. No code reads the flags that the new
 * cmp sets: ocamlopt never keeps flags across a conditional jump.
 *
 * If the jump is inverted (je to the handler H; N is the code after the jump):
 *
 *	load; cmp; je H				nop; cmp; jmp N; pop %R; nops; jmp H
 *   N:					->	   N:
 */
#include "link/x86_write.h"

#include <string.h>
#include "program/program.h"

enum {
	JUMP_SHORT_BYTES = 2,
	JUMP_NEAR_BYTES = 5,
};

static void write_i32(uint8_t *bytes, int32_t value)
{
	memcpy(bytes, &value, sizeof(value));
}

static int64_t load_operand(const struct x86_code *code, size_t pos, const struct x86_load *load,
			    uint64_t va)
{
	if (load->form == X86_LOAD_IMMEDIATE)
		return (int64_t)va;
	return (int64_t)(va - (code->va + pos + X86_LOAD_BYTES));
}

bool x86_can_redirect(const struct x86_code *code, size_t pos, const struct x86_load *load,
		      uint64_t va)
{
	int64_t operand = load_operand(code, pos, load, va);

	return operand >= INT32_MIN && operand <= INT32_MAX;
}

void x86_redirect_load(const struct x86_code *code, size_t pos, const struct x86_load *load,
		       uint64_t va)
{
	uint8_t *b = code->bytes + pos;

	if (load->form == X86_LOAD_GOT)
		/* lea, which loads the address itself and not the contents of the GOT slot */
		b[1] = 0x8d;
	write_i32(b + 3, (int32_t)load_operand(code, pos, load, va));
}

/* Write a jump to DISP, relative to the first byte of the jump. Returns its length. */
static size_t write_jump(uint8_t *bytes, int64_t disp)
{
	int64_t near_disp = disp - JUMP_NEAR_BYTES;
	int64_t short_disp = disp - JUMP_SHORT_BYTES;

	if (short_disp >= INT8_MIN && short_disp <= INT8_MAX) {
		bytes[0] = 0xeb;
		bytes[1] = (uint8_t)short_disp;
		return JUMP_SHORT_BYTES;
	}
	bytes[0] = 0xe9;
	write_i32(bytes + 1, (int32_t)near_disp);
	return JUMP_NEAR_BYTES;
}

static void write_nops(uint8_t *bytes, size_t n)
{
	static const uint8_t nops[][6] = {
		{ 0x90 },
		{ 0x66, 0x90 },
		{ 0x0f, 0x1f, 0x00 },
		{ 0x0f, 0x1f, 0x40, 0x00 },
		{ 0x0f, 0x1f, 0x44, 0x00, 0x00 },
		{ 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00 },
	};

	while (n) {
		size_t k = n < 6 ? n : 6;

		memcpy(bytes, nops[k - 1], k);
		bytes += k;
		n -= k;
	}
}

void x86_write_nops(const struct x86_code *code, size_t pos, size_t n_bytes)
{
	write_nops(code->bytes + pos, n_bytes);
}

/*
 * A site always has enough bytes. With a short conditional jump it has 13 bytes. Of these, at most
 * 6 + 5 + 2 are used, or 6 + 2 + 2 + 2 if the jump is inverted. (The 5 is a near jump: at the new
 * place of the jump, the target of the old short jump can be too far for a short jump.) With a near
 * conditional jump the site has 17 bytes, of which at most 6 + 5 + 2 are used, or 6 + 2 + 2 + 5 if
 * the jump is inverted.
 */
void x86_write_site(const struct x86_code *code, const struct x86_site *site, bool is_enabled)
{
	uint8_t *bytes = code->bytes + site->pos;
	int64_t end = (int64_t)site->n_bytes;
	size_t at = SITE_BYTES, tail = 0;

	at += write_jump(bytes + at, (site->is_inverted ? end : end + site->jump) - (int64_t)at);
	bytes[0] = SITE_NOP;
	bytes[SITE_OPCODE_OFF] = is_enabled ? SITE_ON : SITE_OFF;
	write_i32(bytes + 2, (int32_t)(at - SITE_BYTES));
	if (site->reg >= 8)
		bytes[at++] = 0x41;
	bytes[at++] = (uint8_t)(0x58 | (site->reg & 7));
	/*
	 * The jump to the handler ends where the conditional jump ended, so it has the same
	 * displacement.
	 */
	if (site->is_inverted)
		tail = site->is_near ? JUMP_NEAR_BYTES : JUMP_SHORT_BYTES;
	write_nops(bytes + at, site->n_bytes - tail - at);
	if (!site->is_inverted)
		return;
	bytes += site->n_bytes - tail;
	bytes[0] = site->is_near ? 0xe9 : 0xeb;
	if (site->is_near)
		write_i32(bytes + 1, (int32_t)site->jump);
	else
		bytes[1] = (uint8_t)site->jump;
}
