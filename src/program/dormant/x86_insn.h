/* SPDX-License-Identifier: MIT */
/* Decodes the instructions that ocamlopt emits around a probe. See x86_insn.c. */
#ifndef DORMANT_X86_INSN_H
#define DORMANT_X86_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/x86_site.h"

enum {
	X86_RSP = 4,
	X86_R15 = 15,
	X86_N_REGS = 16,
	/* Values of `base` and `index`. */
	X86_NO_REG = -1,
	X86_RIP = -2,
	/* In instructions that start with 0f, `opcode` is the second byte plus this number. */
	X86_0F = 0x0f00,
};

struct x86_insn {
	size_t n_bytes;
	unsigned int opcode;
	uint8_t prefix; /* 66, f2, f3 or 0 */
	bool is_wide;	/* REX.W */
	bool has_modrm;
	/*
	 * If is_memory, the ModRM operand is the memory at `base` + `index` * `scale` + `disp`;
	 * otherwise it is register `rm`.
	 */
	bool is_memory;
	unsigned int reg; /* the other operand; or `reg & 7` is the opcode extension */
	unsigned int rm;
	int base, index;
	unsigned int scale; /* 1 to 8 */
	int64_t disp;	    /* if `base` is X86_RIP, `disp` is the absolute address */
	int64_t imm;	    /* sign-extended; for a jump or call: the target address */
};

/* Return the 64-bit name, without %, of general register REG, which must be below X86_N_REGS. */
const char *x86_register_name(unsigned int reg);

/*
 * Decode the instruction at POS. Return false if the instruction is unknown, or if the section ends
 * before the instruction does.
 */
bool x86_decode(const struct x86_code *code, size_t pos, struct x86_insn *insn);

#endif
