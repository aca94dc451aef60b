/* SPDX-License-Identifier: MIT */
/*
 * Notes of provider `ocaml` that no OCaml compiler has written: a runtime that was built with
 * probes of <sys/sdt.h> has such, at a nop without a site of ours behind it. They can be counted,
 * not switched.
 */
#ifndef PROGRAM_FOREIGN_NOTES_H
#define PROGRAM_FOREIGN_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"
#include "program/note.h"

enum { FOREIGN_WINDOW_BYTES = 16384 };

/* The code is read in pieces: notes stand in the order of their sites, nearly. */
struct foreign_notes {
	struct elf_file *elf;
	uint64_t base_va; /* of .stapsdt.base; 0: there is none */
	uint64_t window_va;
	size_t window_bytes;
	uint8_t window[FOREIGN_WINDOW_BYTES];
};

/* Returns a negative errno if ELF cannot be read. */
int foreign_notes_open(struct elf_file *elf, struct foreign_notes *foreign);

/*
 * Is there other code than a site at NOTE? False if the address is not code, or not in the file.
 */
bool foreign_notes_has(struct foreign_notes *foreign, const struct note *note);

/*
 * Is NOTE what TEXT names: NAME, of provider `ocaml` and FOREIGN, or PROVIDER:NAME of another
 * provider?
 */
bool foreign_notes_is(struct foreign_notes *foreign, const struct note *note, const char *text);

/* Where NOTE's site is, after the prelink correction. */
uint64_t foreign_notes_va(const struct foreign_notes *foreign, const struct note *note);

#endif
