/* SPDX-License-Identifier: MIT */
/*
 * Decoding the instructions that ocamlopt emits around a probe. See x86_insn.c.
 */
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
	/* as `base` and `index` */
	X86_NO_REG = -1,
	X86_RIP = -2,
	/* `opcode` of those that start with 0f */
	X86_0F = 0x0f00,
};

struct x86_insn {
	size_t n_bytes;
	unsigned int opcode;
	uint8_t prefix; /* 66, f2, f3 or 0 */
	bool is_wide;	/* REX.W */
	bool has_modrm;
	bool is_memory;	  /* the ModRM operand is in memory: base, index, disp; else `rm` */
	unsigned int reg; /* the other operand, or the opcode extension (then & 7) */
	unsigned int rm;
	int base, index;
	unsigned int scale; /* 1 to 8 */
	int64_t disp;	    /* with X86_RIP: the address itself */
	int64_t imm;	    /* sign-extended; of a jump or call: the address it leads to */
};

/* The 64-bit name, without %, of general register REG, which is below X86_N_REGS. */
const char *x86_register_name(unsigned int reg);

/* Returns false if the instruction is unknown, or the section ends within it. */
bool x86_decode(const struct x86_code *code, size_t pos, struct x86_insn *insn);

#endif
