/* SPDX-License-Identifier: MIT */
/*
 * Find the source line of an instruction that is not a call, and the OCaml functions into which its
 * code was inlined. Frame tables have only calls. The line table gives the line of the instruction,
 * and the frame table entries of calls on the same line show which functions are inlined there.
 */
#ifndef UNWIND_EXACT_FRAME_H
#define UNWIND_EXACT_FRAME_H

#include "code/frametable.h"
#include "code/functions.h"
#include "elf/lines.h"
#include "elf/elf_file.h"

/* An instruction, and the tables of its file. */
struct exact_frame {
	const struct elf_file *elf;
	const struct address_lines *lines;
	const struct frametable *table;
	/*
	 * The OCaml function that contains the instruction; NULL: the instruction is not OCaml
	 * code.
	 */
	const struct function *function;
	uint64_t va;
	/* Filled in by exact_frame_read(). */
	struct address_line line;
	/* the handler of the probe that begins at the instruction; 0: there is no probe */
	uint64_t handler;
};

/* Set `line` and `handler` of FRAME. Returns false if the line is not known. */
bool exact_frame_read(struct exact_frame *frame);

/*
 * Write the locations of FRAME to LOCATIONS, at most ROOM, in the form of frametable_locations().
 * FRAME must be in an OCaml function, and exact_frame_read() must have found its line. Returns the
 * number of locations; 0 if no call of the function is on that line, or if the calls on that line
 * have different locations.
 */
size_t exact_frame_locations(const struct exact_frame *frame, struct frame_location *locations,
			     size_t room);

/*
 * Return the name of the source file of FRAME's line: the name in the frame table or, if the frame
 * table lacks the file, the name in the line table.
 */
const char *exact_frame_file(const struct exact_frame *frame);

#endif
