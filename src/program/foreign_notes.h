/* SPDX-License-Identifier: MIT */
/*
 * Recognises notes of provider `ocaml` that no OCaml compiler has written, such as those of a
 * runtime that was built with probes of <sys/sdt.h>. The address in such a note is the address of a
 * nop, but no cmp or call follows the nop, as it would at the site of an OCaml probe. The probes of
 * these notes can be counted, but not enabled or disabled.
 */
#ifndef PROGRAM_FOREIGN_NOTES_H
#define PROGRAM_FOREIGN_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elf/elf_file.h"
#include "program/note.h"

enum { FOREIGN_WINDOW_BYTES = 16384 };

/*
 * Reads the code at the addresses in notes. Notes are nearly in the order of their sites, so large
 * windows of code are read, each of which serves many notes.
 */
struct foreign_notes {
	struct elf_file *elf;
	uint64_t base_va; /* address of section .stapsdt.base; 0 if the section is missing */
	uint64_t window_va;
	size_t window_bytes;
	uint8_t window[FOREIGN_WINDOW_BYTES];
};

/* Prepare FOREIGN for ELF. Return 0, or a negative errno if ELF cannot be read. */
int foreign_notes_open(struct elf_file *elf, struct foreign_notes *foreign);

/*
 * Return true if there is code at the address in NOTE, and if this code is not a site of an OCaml
 * probe. Return false if the code is such a site, if the address is not in code, or if the file
 * does not contain the code.
 */
bool foreign_notes_has(struct foreign_notes *foreign, const struct note *note);

/*
 * Return true if TEXT names NOTE. TEXT is either NAME, for a note of provider `ocaml` whose code is
 * not a site of an OCaml probe, or PROVIDER:NAME, for any other provider.
 */
bool foreign_notes_is(struct foreign_notes *foreign, const struct note *note, const char *text);

/* Return the address of NOTE's site after the prelink correction. */
uint64_t foreign_notes_va(const struct foreign_notes *foreign, const struct note *note);

#endif
