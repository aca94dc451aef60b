/* SPDX-License-Identifier: MIT */
/*
 * Find the source line of an instruction that is not a call, and the OCaml functions into which its
 * code was inlined. Frame tables have only calls. The line table gives the line of the instruction,
 * and the frame table entries of calls on the same line tell what is inlined where.
 */
#ifndef UNWIND_EXACT_FRAME_H
#define UNWIND_EXACT_FRAME_H

#include "code/frametable.h"
#include "code/functions.h"
#include "elf/address_lines.h"
#include "elf/elf_file.h"

/* An instruction, and the tables of its file. */
struct exact_frame {
	const struct elf_file *elf;
	const struct address_lines *lines;
	const struct frametable *table;
	/* The OCaml function that contains the instruction; NULL: it is of another language. */
	const struct function *function;
	uint64_t va;
	/* Filled in by exact_frame_read(). */
	struct address_line line;
	uint64_t handler; /* of the probe that begins at the instruction; 0: there is no probe */
};

/* Set the line of FRAME, and its handler. Returns false if the line is not known. */
bool exact_frame_read(struct exact_frame *frame);

/*
 * Write the locations of FRAME to LOCATIONS, at most ROOM, in the form of frametable_locations().
 * FRAME is in a function of OCaml, and its line is known. Returns their number; 0 if the calls of
 * the function do not tell the locations, or do not agree.
 */
size_t exact_frame_locations(const struct exact_frame *frame, struct frame_location *locations,
			     size_t room);

/*
 * The name of the file of FRAME's line, as in the frame table or, if the frame table lacks the
 * file, as in the line table.
 */
const char *exact_frame_file(const struct exact_frame *frame);

#endif
