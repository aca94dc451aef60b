/* SPDX-License-Identifier: MIT */
/* One x86-64 instruction: what it does to rip and rsp, and what a uprobe on it costs. */
#ifndef CODE_CODE_INSN_H
#define CODE_CODE_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <Zydis/Decoder.h>

enum {
	INSN_RSP = 4,
	INSN_NO_REG = 0xff,
};

enum insn_kind {
	INSN_OTHER,	  /* leaves rip and rsp alone */
	INSN_NOP,	  /* of any length */
	INSN_PUSH,	  /* 8 bytes: reg, or another operand if reg is INSN_NO_REG */
	INSN_POP,	  /* as INSN_PUSH */
	INSN_RSP_ADD,	  /* rsp += value */
	INSN_RSP_SAVE,	  /* reg = rsp */
	INSN_RSP_RESTORE, /* rsp = reg */
	INSN_RSP_LOAD,	  /* rsp = a word of memory */
	INSN_RSP_LOST,	  /* rsp becomes unknown */
	INSN_LEA_RIP,	  /* reg = the address `value` */
	INSN_JCC,	  /* to `value` */
	INSN_JMP,	  /* to `value` */
	INSN_CALL,	  /* of `value` */
	INSN_CALL_INDIRECT,
	INSN_JMP_REG, /* to the address in reg */
	INSN_JMP_MEM, /* to the address in a word of memory; the operand has no index register */
	INSN_JMP_OTHER,
	INSN_RET,
	INSN_TRAP, /* ends the program */
};

/* How the kernel executes an instruction with a uprobe; it refuses a uprobe on some. */
enum insn_cost { INSN_EMULATED, INSN_STEPPED, INSN_REFUSED };

struct insn {
	uint32_t off; /* from the start of the function */
	uint8_t n_bytes;
	uint8_t kind; /* enum insn_kind */
	uint8_t reg;
	bool is_emulated;
	int64_t value; /* addresses count from the start of the function */
};

struct insn_memo;

struct insn_decoder {
	ZydisDecoder quick;	/* lengths and raw parts */
	ZydisDecoder full;	/* operands, too */
	struct insn_memo *memo; /* see code_insn.c */
};

/* False: out of memory. */
bool insn_decoder_init(struct insn_decoder *decoder);
void insn_decoder_free(struct insn_decoder *decoder);

/*
 * Decode the instruction at BYTES[0..N), which is at offset OFF of its function. Returns false if
 * the bytes are not a valid instruction.
 */
bool insn_decode(struct insn_decoder *decoder, const uint8_t *bytes, size_t n, uint32_t off,
		 struct insn *insn);

/* The cost of a uprobe on the instruction at BYTES[0..N). */
enum insn_cost insn_cost(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* Is the instruction at BYTES[0..N) a string instruction with a rep prefix? */
bool insn_repeats(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* Does the instruction at BYTES[0..N) change general register REG? True if it cannot be decoded. */
bool insn_writes(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int reg);

/* Does the instruction at BYTES[0..N) write memory? True if it cannot be decoded. */
bool insn_stores(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* `movslq (BASE,INDEX,4),TO`, where INDEX and BASE are not the same register */
struct insn_table_load {
	unsigned int base, to;
};
bool insn_is_table_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			struct insn_table_load *load);

/* Is the instruction an `add` of two 64-bit registers? It does *TO += *FROM. */
bool insn_is_add(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int *to, unsigned int *from);

/*
 * Is the instruction a move between 64-bit registers? *IS_CONDITIONAL: a cmov, which may do
 * nothing.
 */
bool insn_is_copy(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int *to, unsigned int *from, bool *is_conditional);

/* Is the instruction the move of a constant that is not negative into a general register? */
bool insn_is_constant(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		      unsigned int *to, uint64_t *value);

/* Is the instruction a 64-bit load of register REG from memory, without an index register? */
bool insn_is_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int reg);

#endif
