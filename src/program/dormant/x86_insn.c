// SPDX-License-Identifier: MIT
/*
 * A decoder for 64-bit mode. It knows the instructions that an OCaml compiler may put between a
 * probe and the stores of its arguments: moves, integer and SSE2 arithmetic, jumps and calls. It
 * refuses all other instructions, and never guesses a length.
 *
 * Source: Intel SDM volume 2, chapter 2 (formats) and appendix A (opcode maps).
 */
#include "program/dormant/x86_insn.h"

#include <string.h>

enum insn_shape {
	BAD = 0,
	PLAIN = 1 << 0, /* no operand bytes follow the opcode */
	MODRM = 1 << 1,
	IMM8 = 1 << 2,
	IMM32 = 1 << 3,
	IMM_WIDE = 1 << 4, /* an immediate of 8 bytes with REX.W, otherwise 4 */
	RELATIVE = 1 << 5, /* the immediate is a displacement from the end of the instruction */
	/* opcodes f6 and f7: an immediate follows only if the opcode extension is 0 or 1 (test) */
	GROUP3 = 1 << 6,
	REG8 = 1 << 7, /* `reg` is an 8-bit register; with RM8, `rm` is one */
	RM8 = 1 << 8,
	OPCODE_REG = 1 << 9, /* the last 3 bits of the opcode are the register `rm` */
};

struct opcode_range {
	uint8_t first, last;
	unsigned int shape;
};

static const struct opcode_range one_byte[] = {
	{ 0x00, 0x00, MODRM | REG8 | RM8 },
	{ 0x01, 0x01, MODRM },
	{ 0x02, 0x02, MODRM | REG8 | RM8 },
	{ 0x03, 0x03, MODRM },
	{ 0x08, 0x08, MODRM | REG8 | RM8 },
	{ 0x09, 0x09, MODRM },
	{ 0x0a, 0x0a, MODRM | REG8 | RM8 },
	{ 0x0b, 0x0b, MODRM },
	{ 0x20, 0x20, MODRM | REG8 | RM8 },
	{ 0x21, 0x21, MODRM },
	{ 0x22, 0x22, MODRM | REG8 | RM8 },
	{ 0x23, 0x23, MODRM },
	{ 0x28, 0x28, MODRM | REG8 | RM8 },
	{ 0x29, 0x29, MODRM },
	{ 0x2a, 0x2a, MODRM | REG8 | RM8 },
	{ 0x2b, 0x2b, MODRM },
	{ 0x30, 0x30, MODRM | REG8 | RM8 },
	{ 0x31, 0x31, MODRM },
	{ 0x32, 0x32, MODRM | REG8 | RM8 },
	{ 0x33, 0x33, MODRM },
	{ 0x38, 0x38, MODRM | REG8 | RM8 },
	{ 0x39, 0x39, MODRM },
	{ 0x3a, 0x3a, MODRM | REG8 | RM8 },
	{ 0x3b, 0x3b, MODRM },
	{ 0x3c, 0x3c, IMM8 },
	{ 0x3d, 0x3d, IMM32 },
	{ 0x50, 0x5f, PLAIN | OPCODE_REG },
	{ 0x63, 0x63, MODRM },
	{ 0x69, 0x69, MODRM | IMM32 },
	{ 0x6b, 0x6b, MODRM | IMM8 },
	{ 0x70, 0x7f, IMM8 | RELATIVE },
	{ 0x80, 0x80, MODRM | IMM8 | RM8 },
	{ 0x81, 0x81, MODRM | IMM32 },
	{ 0x83, 0x83, MODRM | IMM8 },
	{ 0x84, 0x84, MODRM | REG8 | RM8 },
	{ 0x85, 0x85, MODRM },
	{ 0x87, 0x87, MODRM },
	{ 0x88, 0x88, MODRM | REG8 | RM8 },
	{ 0x89, 0x89, MODRM },
	{ 0x8a, 0x8a, MODRM | REG8 | RM8 },
	{ 0x8b, 0x8b, MODRM },
	{ 0x8d, 0x8d, MODRM },
	{ 0x90, 0x90, PLAIN },
	{ 0x98, 0x99, PLAIN },
	{ 0xa8, 0xa8, IMM8 },
	{ 0xa9, 0xa9, IMM32 },
	{ 0xb8, 0xbf, IMM_WIDE | OPCODE_REG },
	{ 0xc0, 0xc0, MODRM | IMM8 | RM8 },
	{ 0xc1, 0xc1, MODRM | IMM8 },
	{ 0xc6, 0xc6, MODRM | IMM8 | RM8 },
	{ 0xc7, 0xc7, MODRM | IMM32 },
	{ 0xd0, 0xd0, MODRM | RM8 },
	{ 0xd1, 0xd1, MODRM },
	{ 0xd2, 0xd2, MODRM | RM8 },
	{ 0xd3, 0xd3, MODRM },
	{ 0xe8, 0xe9, IMM32 | RELATIVE },
	{ 0xeb, 0xeb, IMM8 | RELATIVE },
	{ 0xf6, 0xf6, MODRM | GROUP3 | RM8 },
	{ 0xf7, 0xf7, MODRM | GROUP3 },
	{ 0xfe, 0xfe, MODRM | RM8 },
	{ 0xff, 0xff, MODRM },
};

static const struct opcode_range two_byte[] = {
	{ 0x10, 0x11, MODRM },	     { 0x1f, 0x1f, MODRM },
	{ 0x28, 0x2a, MODRM },	     { 0x2c, 0x2f, MODRM },
	{ 0x40, 0x4f, MODRM },	     { 0x51, 0x51, MODRM },
	{ 0x54, 0x5f, MODRM },	     { 0x6e, 0x6f, MODRM },
	{ 0x7e, 0x7f, MODRM },	     { 0x80, 0x8f, IMM32 | RELATIVE },
	{ 0x90, 0x9f, MODRM | RM8 }, { 0xaf, 0xaf, MODRM },
	{ 0xb6, 0xb6, MODRM | RM8 }, { 0xb7, 0xb8, MODRM },
	{ 0xbc, 0xbd, MODRM },	     { 0xbe, 0xbe, MODRM | RM8 },
	{ 0xbf, 0xbf, MODRM },	     { 0xd6, 0xd6, MODRM },
	{ 0xef, 0xef, MODRM },
};

static const char *const register_names[X86_N_REGS] = {
	"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
	"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15",
};

const char *x86_register_name(unsigned int reg)
{
	return register_names[reg];
}

static unsigned int find_shape(const struct opcode_range *ranges, size_t n, uint8_t opcode)
{
	for (size_t i = 0; i < n; i++)
		if (opcode >= ranges[i].first && opcode <= ranges[i].last)
			return ranges[i].shape;
	return BAD;
}

/* Reads the bytes from the start of the instruction to the end of the section. */
struct insn_cursor {
	const uint8_t *bytes;
	size_t at, n;
};

/*
 * Take the next N bytes, and return them as a sign-extended number. After a read past the end, `at`
 * exceeds `n`.
 */
static int64_t take_insn_bytes(struct insn_cursor *cursor, size_t n)
{
	uint64_t value = 0;
	unsigned int unused = 64 - 8 * (unsigned int)n;

	if (cursor->at > cursor->n || cursor->n - cursor->at < n) {
		cursor->at = cursor->n + 1;
		return 0;
	}
	memcpy(&value, cursor->bytes + cursor->at, n);
	cursor->at += n;
	return (int64_t)(value << unused) >> unused;
}

static uint8_t peek(const struct insn_cursor *cursor)
{
	return cursor->at < cursor->n ? cursor->bytes[cursor->at] : 0;
}

static void take_modrm(struct insn_cursor *cursor, uint8_t rex, struct x86_insn *insn)
{
	uint8_t modrm = (uint8_t)take_insn_bytes(cursor, 1), sib;
	unsigned int mod = modrm >> 6;

	insn->has_modrm = true;
	insn->reg = (modrm >> 3 & 7u) | (rex & 4u) << 1;
	insn->rm = (modrm & 7u) | (rex & 1u) << 3;
	insn->index = X86_NO_REG;
	if (mod == 3)
		return;
	insn->is_memory = true;
	insn->base = (int)insn->rm;
	if ((modrm & 7) == 4) {
		sib = (uint8_t)take_insn_bytes(cursor, 1);
		insn->base = (sib & 7) | (rex & 1) << 3;
		insn->index = (sib >> 3 & 7) | (rex & 2) << 2;
		insn->scale = 1u << (sib >> 6);
		if (insn->index == X86_RSP)
			insn->index = X86_NO_REG;
		if (mod == 0 && (sib & 7) == 5)
			insn->base = X86_NO_REG;
	} else if (mod == 0 && (modrm & 7) == 5) {
		insn->base = X86_RIP;
	}
	if (mod == 1)
		insn->disp = take_insn_bytes(cursor, 1);
	else if (mod == 2 || insn->base < 0)
		insn->disp = take_insn_bytes(cursor, 4);
}

static void take_immediate(struct insn_cursor *cursor, unsigned int shape, struct x86_insn *insn)
{
	if (shape & GROUP3) {
		if ((insn->reg & 7) <= 1)
			insn->imm = take_insn_bytes(cursor, insn->opcode == 0xf7 ? 4 : 1);
	} else if (shape & IMM8) {
		insn->imm = take_insn_bytes(cursor, 1);
	} else if (shape & IMM32) {
		insn->imm = take_insn_bytes(cursor, 4);
	} else if (shape & IMM_WIDE && insn->is_wide) {
		insn->imm = take_insn_bytes(cursor, 8);
	} else if (shape & IMM_WIDE) {
		insn->imm = take_insn_bytes(cursor, 4) & 0xffffffff;
	}
}

/*
 * Return true if an operand is %ah, %ch, %dh or %bh, which are parts of other registers. In an
 * instruction without REX, the byte registers 4 to 7 mean these.
 */
static bool has_high_byte(unsigned int shape, const struct x86_insn *insn)
{
	return (shape & REG8 && insn->reg >= 4) ||
	       (shape & RM8 && !insn->is_memory && insn->rm >= 4);
}

bool x86_decode(const struct x86_code *code, size_t pos, struct x86_insn *insn)
{
	struct insn_cursor cursor = { code->bytes + pos, 0, code->n_bytes - pos };
	uint8_t rex = 0, byte;
	unsigned int shape;

	memset(insn, 0, sizeof(*insn));
	insn->base = insn->index = X86_NO_REG;
	byte = peek(&cursor);
	if (byte == 0x66 || byte == 0xf2 || byte == 0xf3) {
		insn->prefix = byte;
		cursor.at++;
	}
	if ((peek(&cursor) & 0xf0) == 0x40)
		rex = (uint8_t)take_insn_bytes(&cursor, 1);
	insn->is_wide = rex & 8;
	byte = (uint8_t)take_insn_bytes(&cursor, 1);
	insn->opcode = byte;
	if (byte == 0x0f) {
		byte = (uint8_t)take_insn_bytes(&cursor, 1);
		insn->opcode = X86_0F | byte;
		shape = find_shape(two_byte, sizeof(two_byte) / sizeof(*two_byte), byte);
	} else {
		shape = find_shape(one_byte, sizeof(one_byte) / sizeof(*one_byte), byte);
		/*
		 * Refuse instructions with prefixes: 66 changes the size of an immediate; f2 and f3
		 * change the meaning of the opcode.
		 */
		if (insn->prefix && byte != 0x90)
			return false;
	}
	if (shape == BAD)
		return false;
	if (shape & OPCODE_REG)
		insn->rm = (byte & 7u) | (rex & 1u) << 3;
	if (shape & MODRM)
		take_modrm(&cursor, rex, insn);
	if (!rex && has_high_byte(shape, insn))
		return false;
	take_immediate(&cursor, shape, insn);
	if (cursor.at > cursor.n)
		return false;
	insn->n_bytes = cursor.at;
	if (insn->base == X86_RIP)
		insn->disp = (int64_t)(code->va + pos + cursor.at + (uint64_t)insn->disp);
	if (shape & RELATIVE)
		insn->imm = (int64_t)(code->va + pos + cursor.at + (uint64_t)insn->imm);
	return true;
}
