/* SPDX-License-Identifier: MIT */
/* One x86-64 instruction: what it does to rip and rsp, and what the kernel makes of a uprobe on it. */
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
	INSN_PUSH,	  /* of 8 bytes: of reg, or of something else if that is INSN_NO_REG */
	INSN_POP,	  /* as INSN_PUSH */
	INSN_RSP_ADD,	  /* rsp += value */
	INSN_RSP_SAVE,	  /* reg = rsp */
	INSN_RSP_RESTORE, /* rsp = reg */
	INSN_RSP_LOAD,	  /* rsp = a word of memory */
	INSN_RSP_LOST,	  /* rsp becomes something else */
	INSN_LEA_RIP,	  /* reg = the address `value` */
	INSN_JCC,	  /* to `value` */
	INSN_JMP,	  /* to `value` */
	INSN_CALL,	  /* of `value` */
	INSN_CALL_INDIRECT,
	INSN_JMP_REG, /* to what reg holds */
	INSN_JMP_MEM, /* to what a word of memory holds; its address has no index */
	INSN_JMP_OTHER,
	INSN_RET,
	INSN_TRAP, /* ends the program */
};

/* What a uprobe on an instruction costs; the kernel refuses some. */
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
 * Decode the instruction at BYTES[0..N), which is at offset OFF. Returns false if the bytes are no
 * instruction.
 */
bool insn_decode(struct insn_decoder *decoder, const uint8_t *bytes, size_t n, uint32_t off,
		 struct insn *insn);

/* The cost of a uprobe on the instruction at BYTES[0..N). */
enum insn_cost insn_cost(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* Is the instruction at BYTES[0..N) a string instruction that repeats itself? */
bool insn_repeats(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* Does the instruction at BYTES[0..N) change the general register REG? Yes if it is not known. */
bool insn_writes(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int reg);

/* Does the instruction at BYTES[0..N) write memory? Yes if it is not known. */
bool insn_stores(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* `movslq (BASE,INDEX,4),TO`, where INDEX and BASE are not the same register */
struct insn_table_load {
	unsigned int base, to;
};
bool insn_is_table_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			struct insn_table_load *load);

/* Is it `add` of two registers of 64 bits? Then *TO += *FROM. */
bool insn_is_add(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int *to, unsigned int *from);

/* Is it a move of one register of 64 bits into another, which IS_CONDITIONAL may leave as it was? */
bool insn_is_copy(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int *to, unsigned int *from, bool *is_conditional);

/* Is it the move of a constant, which is not negative, into a general register? */
bool insn_is_constant(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		      unsigned int *to, uint64_t *value);

/* Is it the load of general register REG from a word of memory whose address has no index? */
bool insn_is_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int reg);

#endif
