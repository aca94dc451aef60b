/* SPDX-License-Identifier: MIT */
/*
 * A copy of the instructions of a window for another address. The copy does what the instructions
 * do in the function.
 */
#ifndef CODE_WINDOW_COPY_H
#define CODE_WINDOW_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "code/code_insn.h"

enum {
	/* a window of WINDOW_MAX_BYTES has at most this many instructions */
	WINDOW_MAX_INSNS = 5,
	/*
	 * The largest copy: a short branch of two bytes becomes a near one of six, and a call
	 * becomes a push of six bytes, a jump of up to 15, and a constant of eight. Then a jump of
	 * five bytes.
	 */
	WINDOW_COPY_MAX_BYTES = 64,
};

struct window_copy {
	uint8_t bytes[WINDOW_COPY_MAX_BYTES];
	size_t n_bytes;
	/*
	 * For each instruction, its offset in the window and that of its copy: a thread that was
	 * stopped in the window continues in the copy.
	 */
	struct {
		uint8_t from, to;
	} insns[WINDOW_MAX_INSNS];
	size_t n_insns;
};

/*
 * Return true if the window that begins with the byte OPCODE is a direct call. It is replaced by a
 * call, not by a jump: so the program's own instruction writes the return address, which matters
 * where the stack ends, and the processor predicts the return.
 */
static inline bool window_is_call(uint8_t opcode)
{
	return opcode == 0xe8;
}

/*
 * Copy the instructions BYTES[0..N), which are at FROM_VA, for the address TO_VA. Only nops may
 * follow a jump or a return; they are not copied. A call must be the last instruction; its copy
 * pushes the return address of the original, so that all who read return addresses find the one
 * that they know. Of a direct call that is the only instruction, the copy is a jump. If execution
 * continues behind the last instruction, and if JUMPS_BACK, the copy ends with a jump to the
 * instruction behind BYTES. Return false if an instruction cannot be copied, or if the distance
 * between the two addresses is too large.
 */
bool window_copy_make(const struct insn_decoder *decoder, const uint8_t *bytes, size_t n,
		      uint64_t from_va, uint64_t to_va, bool jumps_back, struct window_copy *copy);

#endif
