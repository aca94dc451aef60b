/* SPDX-License-Identifier: MIT */
/* Run the instructions of call frame information, which produce the rows of one function. */
#ifndef ELF_CFI_PROGRAM_H
#define ELF_CFI_PROGRAM_H

#include "elf/cursor.h"
#include "elf/eh_frame.h"

/* The data that the functions of a Common Information Entry (CIE) share. */
struct cfi_common {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding; /* of addresses: a DW_EH_PE_ value */
	bool has_extra;	  /* the augmentation begins with 'z': the augmentation data has a length */
	bool is_signal;
	const uint8_t *program;
	size_t program_bytes;
};

/*
 * Pass the rows of the function at [FIRST, END) to FN(DATA, ...). COMMON's program runs first, then
 * PROGRAM. If a program is damaged, the rule is CFA_UNKNOWN from the address that the program had
 * reached to the end of the function. Return 0, or the first other value that FN returned.
 */
int cfi_program_run(const struct cfi_common *common, const struct cursor *program, uint64_t first,
		    uint64_t end, cfi_row_fn fn, void *data);

#endif
