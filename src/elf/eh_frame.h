/* SPDX-License-Identifier: MIT */
/*
 * Call frame information (.eh_frame): for each instruction, where to find the return address of its
 * function and the registers of the function's caller. DWARF 5, section 6.4, and the Linux Standard
 * Base ("Exception Frames") define the format.
 */
#ifndef ELF_EH_FRAME_H
#define ELF_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include "elf/elf_file.h"

/* Numbers of registers in DWARF (System V ABI for AMD64, figure 3.36). */
enum cfi_register {
	CFI_RCX = 2,
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
 * How to compute the canonical frame address (CFA), which is the caller's stack pointer after the
 * return.
 */
enum cfi_cfa {
	CFA_UNKNOWN,  /* unknown, or described in a form that this reader does not support */
	CFA_REGISTER, /* reg + add[0] */
	CFA_LOAD,     /* *(reg + add[0]) + add[1] */
	CFA_LOAD_2,   /* *(*(reg + add[0]) + add[1]) + add[2] */
	/*
	 * In a procedure linkage table, whose entries have 16 bytes: rsp + add[0] before byte
	 * number add[1] of an entry, and rsp + add[0] + 8 from that byte on.
	 */
	CFA_PLT,
};

/* Where to find the value that a register had in the caller. */
enum cfi_saved {
	SAVED_SAME, /* still in the register */
	SAVED_AT_CFA,
	SAVED_AT_RSP,
	SAVED_AT_RBP,
	SAVED_UNDEFINED, /* lost; if the return address is undefined, there is no caller */
	SAVED_UNKNOWN,	 /* described in a form that this reader does not support */
};

/* The registers that a function must preserve for its caller, and the return address. */
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

/* Rules are compared with memcmp(), so unused members are 0. */
struct cfi_rule {
	uint8_t cfa;		       /* enum cfi_cfa */
	uint8_t reg;		       /* enum cfi_register */
	bool is_signal;		       /* a signal frame: the signal interrupted the caller */
	uint8_t saved[KEPT_REGISTERS]; /* enum cfi_saved */
	uint8_t reserved[2];
	int32_t add[3];
	/* offset from the address that `saved` selects: CFA, rsp or rbp */
	int32_t off[KEPT_REGISTERS];
};

/*
 * Called in ascending order of VA. RULE holds from VA up to the VA of the next call. Return 0 to
 * continue. Any other value ends the reading, and eh_frame_read() returns that value.
 */
typedef int (*cfi_row_fn)(void *data, uint64_t va, const struct cfi_rule *rule);

/*
 * Call FN(DATA, ...) for each row of the table in ELF. Code without information has rows with
 * CFA_UNKNOWN. Return 0, or the first value other than 0 that FN returned. Return -ENODATA if ELF
 * has no table, -EBADMSG if the table is damaged or exceeds the limits.
 */
int eh_frame_read(struct ocp_ctx *ctx, struct elf_file *elf, cfi_row_fn fn, void *data);

/*
 * Called for a function of BYTES bytes at VA. Return 0 to continue; any other value ends the
 * reading.
 */
typedef int (*eh_frame_function_fn)(void *data, uint64_t va, uint64_t bytes);

/*
 * Call FN(DATA, ...) for each function that the table describes, in ascending order of the
 * addresses. Even a program without symbols has this table. Return what eh_frame_read() returns,
 * except 0 instead of -ENODATA if the file has no table.
 */
int eh_frame_each_function(struct ocp_ctx *ctx, struct elf_file *elf, eh_frame_function_fn fn,
			   void *data);

#endif
