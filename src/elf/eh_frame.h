/* SPDX-License-Identifier: MIT */
/*
 * Call frame information (.eh_frame): for each instruction, where the caller of its function
 * continues, and where the registers of the caller are. The format is that of DWARF 5, section 6.4,
 * and of the Linux Standard Base ("Exception Frames").
 */
#ifndef ELF_EH_FRAME_H
#define ELF_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include "elf/elf_file.h"

/* Numbers of registers in DWARF (System V ABI for AMD64, figure 3.36). */
enum cfi_register {
	CFI_RBX = 3,
	CFI_RBP = 6,
	CFI_RSP = 7,
	CFI_R12 = 12,
	CFI_R13 = 13,
	CFI_R14 = 14,
	CFI_R15 = 15,
	CFI_RIP = 16,
	CFI_REGISTERS = 17,
};

/*
 * How the canonical frame address (CFA) is found. It is the stack pointer of the caller after the
 * return.
 */
enum cfi_cfa {
	CFA_UNKNOWN,  /* there is no information, or none that this reader understands */
	CFA_REGISTER, /* reg + add[0] */
	CFA_LOAD,     /* *(reg + add[0]) + add[1] */
	CFA_LOAD_2,   /* *(*(reg + add[0]) + add[1]) + add[2] */
	/*
	 * In a procedure linkage table, whose entries have 16 bytes: rsp + add[0], and 8 more from
	 * byte number add[1] of each entry on.
	 */
	CFA_PLT,
};

/* Where a register of the caller is. */
enum cfi_saved {
	SAVED_SAME, /* in the register itself */
	SAVED_AT_CFA,
	SAVED_AT_RSP,
	SAVED_AT_RBP,
	SAVED_UNDEFINED, /* nowhere; as the return address: the function has no caller */
	SAVED_UNKNOWN,	 /* described in a way that this reader does not understand */
};

/* The registers that a function keeps for its caller, and the return address. */
enum cfi_kept {
	KEPT_RBX,
	KEPT_RBP,
	KEPT_R12,
	KEPT_R13,
	KEPT_R14,
	KEPT_R15,
	KEPT_RIP,
	KEPT_REGISTERS
};

/* Two rules are the same if memcmp() says so. */
struct cfi_rule {
	uint8_t cfa;	/* enum cfi_cfa */
	uint8_t reg;	/* enum cfi_register */
	bool is_signal; /* the frame is that of a signal, which interrupted the caller */
	uint8_t saved[KEPT_REGISTERS]; /* enum cfi_saved */
	uint8_t reserved[2];
	int32_t add[3];
	int32_t off[KEPT_REGISTERS]; /* from the address that `saved` names */
};

/*
 * RULE holds from VA on, up to the next call. Calls are in ascending order of VA. A value other
 * than 0 ends the reading.
 */
typedef int (*cfi_row_fn)(void *data, uint64_t va, const struct cfi_rule *rule);

/*
 * Call FN(DATA, ...) for each row of the table in ELF. Code without information has rows with
 * CFA_UNKNOWN. Returns what FN returned. -ENODATA: ELF has no table. -EBADMSG: the table is
 * damaged, or exceeds the limits.
 */
int eh_frame_read(struct ocp_ctx *ctx, struct elf_file *elf, cfi_row_fn fn, void *data);

/* A function of BYTES bytes at VA. A value other than 0 ends the reading. */
typedef int (*eh_frame_function_fn)(void *data, uint64_t va, uint64_t bytes);

/*
 * Call FN(DATA, ...) for each function that the table describes, in ascending order. A program
 * without symbols has this table, too. Returns the same as eh_frame_read(), but 0 if the file has
 * no table.
 */
int eh_frame_each_function(struct ocp_ctx *ctx, struct elf_file *elf, eh_frame_function_fn fn,
			   void *data);

#endif
