/* SPDX-License-Identifier: MIT */
/*
 * Where an instruction that is no call is in the source, and into which functions of OCaml its code was
 * inlined. Frame tables know calls only. The line table knows the line of the instruction, and calls of
 * the same line nearby know what is inlined where.
 */
#ifndef UNWIND_EXACT_FRAME_H
#define UNWIND_EXACT_FRAME_H

#include "code/frametable.h"
#include "code/functions.h"
#include "elf/address_lines.h"
#include "elf/elf_file.h"

/* An instruction, and what its file has. */
struct exact_frame {
	const struct elf_file *elf;
	const struct address_lines *lines;
	const struct frametable *table;
	const struct function
		*function; /* of OCaml, that has the instruction; NULL: of another language */
	uint64_t va;
	/* Filled in by exact_frame_read(). */
	struct address_line line;
	uint64_t handler; /* of the probe that begins at the instruction; 0: none */
};

/* Find the line of FRAME. False: it is not known. */
bool exact_frame_read(struct exact_frame *frame);

/*
 * The locations of FRAME, whose line is known, in a function of OCaml: as frametable_locations() tells those of
 * a call. At most ROOM. 0: the calls of its function do not tell, or do not agree.
 */
size_t exact_frame_locations(const struct exact_frame *frame, struct frame_location *locations,
			     size_t room);

/* The name that the frame table has for the file of FRAME's line; that of the line table if it has none. */
const char *exact_frame_file(const struct exact_frame *frame);

#endif
