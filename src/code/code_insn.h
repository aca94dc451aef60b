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
	INSN_OTHER,	  /* does not write rsp, and does not jump */
	INSN_NOP,	  /* a nop of any length */
	INSN_PUSH,	  /* pushes 8 bytes: reg, or another operand if reg is INSN_NO_REG */
	INSN_POP,	  /* pops 8 bytes into reg, or another operand if reg is INSN_NO_REG */
	INSN_RSP_ADD,	  /* rsp += value */
	INSN_RSP_SAVE,	  /* reg = rsp */
	INSN_RSP_RESTORE, /* rsp = reg */
	INSN_RSP_LOAD,	  /* rsp = a word of memory */
	INSN_RSP_LOST,	  /* rsp becomes unknown */
	INSN_LEA_RIP,	  /* reg = the address `value` */
	INSN_JCC,	  /* a conditional jump to `value` */
	INSN_JMP,	  /* a jump to `value` */
	INSN_CALL,	  /* a call of the code at `value` */
	INSN_CALL_INDIRECT,
	INSN_JMP_REG, /* a jump to the address in reg */
	/* a jump to the address in a word of memory; the operand has no index register */
	INSN_JMP_MEM,
	INSN_JMP_OTHER,
	INSN_RET,
	INSN_TRAP, /* ends the program */
};

/*
 * How the kernel executes an instruction that has a uprobe. INSN_REFUSED: the kernel does not
 * accept a uprobe on the instruction.
 */
enum insn_cost { INSN_EMULATED, INSN_STEPPED, INSN_REFUSED };

struct insn {
	uint32_t off; /* the offset from the start of the function */
	uint8_t n_bytes;
	uint8_t kind; /* enum insn_kind */
	uint8_t reg;
	bool is_emulated;
	/* see enum insn_kind; an address is an offset from the start of the function */
	int64_t value;
};

struct insn_memos;

struct insn_decoder {
	ZydisDecoder quick;	  /* lengths and raw parts */
	ZydisDecoder full;	  /* lengths, raw parts and operands */
	struct insn_memos *memos; /* see code_insn.c */
};

/* Returns false if there is no memory. */
bool insn_decoder_init(struct insn_decoder *decoder);
void insn_decoder_free(struct insn_decoder *decoder);

/*
 * Decode the instruction at BYTES[0..N), which is at offset OFF of its function. Returns false if
 * the bytes are not a valid instruction.
 */
bool insn_decode(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n, uint32_t off,
		 struct insn *insn);

/* Return the cost of a uprobe on the instruction at BYTES[0..N). */
enum insn_cost insn_cost(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/* Return true if the instruction at BYTES[0..N) is a string instruction with a rep prefix. */
bool insn_repeats(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/*
 * Return true if the instruction at BYTES[0..N) changes general register REG, or cannot be decoded.
 */
bool insn_writes(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int reg);

/*
 * Return the set of general registers that the instruction at BYTES[0..N) changes: bit R stands for
 * register R. Return all bits if the instruction cannot be decoded.
 */
uint32_t insn_written(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/*
 * Return true if the instruction at BYTES[0..N) reads general register REG or a part of it, or
 * cannot be decoded. An instruction that keeps a part of the register reads it, too.
 */
bool insn_reads(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		unsigned int reg);

/* Return true if the instruction at BYTES[0..N) writes memory, or cannot be decoded. */
bool insn_stores(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/*
 * Return true if the instruction at BYTES[0..N) writes memory at a distance from rsp, as push and
 * call do, too, or cannot be decoded.
 */
bool insn_writes_stack(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/*
 * Flags of the processor that instructions read and write: sets of ZYDIS_CPUFLAG_... of the six
 * status flags. `written` has only flags that the instruction always writes.
 */
enum { INSN_STATUS_FLAGS = 0x8d5 }; /* CF, PF, AF, ZF, SF, OF */
struct insn_flags {
	uint32_t read, written;
};
/*
 * Return the flags of the instruction at BYTES[0..N). An instruction that cannot be decoded reads
 * all of them.
 */
struct insn_flags insn_flags(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/*
 * The field of an instruction that has the distance from the end of the instruction to an address:
 * the target of a branch, or an operand relative to rip.
 */
struct insn_distance {
	uint8_t at, n_bytes; /* n_bytes 0: the instruction has no such field */
};
/*
 * Set *DISTANCE for the instruction at BYTES[0..N). Return false if the instruction cannot be
 * decoded, or if its addresses have 32 bits.
 */
bool insn_distance(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		   struct insn_distance *distance);

/* Return true if the instruction at BYTES[0..N) reads rsp, or cannot be decoded. */
bool insn_reads_rsp(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n);

/*
 * The instruction `movslq (BASE,INDEX,4),TO`, where INDEX and BASE are different registers. For
 * this instruction, insn_is_table_load() returns true and sets *LOAD.
 */
struct insn_table_load {
	unsigned int base, to;
};
bool insn_is_table_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
			struct insn_table_load *load);

/* Return true if the instruction is an `add` of two 64-bit registers: *TO += *FROM. */
bool insn_is_add(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 unsigned int *to, unsigned int *from);

/*
 * Return true if the instruction moves 64-bit register *FROM to *TO. Set *IS_CONDITIONAL to true if
 * the instruction is a cmov, which may do nothing, else to false.
 */
bool insn_is_copy(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int *to, unsigned int *from, bool *is_conditional);

/*
 * Return true if the instruction moves *VALUE, a constant that is not negative, into general
 * register *TO.
 */
bool insn_is_constant(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		      unsigned int *to, uint64_t *value);

/* What an instruction does to the word of memory at *(BASE + OFF). */
enum insn_memory_use {
	INSN_MEMORY_READ,  /* reads the word, and perhaps writes it */
	INSN_MEMORY_WRITE, /* only writes the word */
	INSN_MEMORY_LOAD,  /* moves the word into register `to` */
	INSN_MEMORY_SUB,   /* subtracts the word from register `to` */
};

struct insn_memory {
	enum insn_memory_use use;
	uint8_t n_bytes;      /* size of the word */
	uint8_t base;	      /* a general register, or INSN_NO_REG */
	uint8_t to;	      /* a general register, or INSN_NO_REG */
	bool is_thread_local; /* the address is relative to the FS base */
	int64_t off;
};

/*
 * Set *MEMORY to the explicit memory operand of the instruction at BYTES[0..N). Return false if the
 * instruction has no such operand, or one with an index register or relative to rip.
 */
bool insn_memory(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		 struct insn_memory *memory);

/*
 * Return true if the instruction is a 64-bit load of register REG from memory, without an index
 * register.
 */
bool insn_is_load(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		  unsigned int reg);

#endif
