/* SPDX-License-Identifier: MIT */
/*
 * Recognises notes of provider `ocaml` that no OCaml compiler has written, such as those of a
 * runtime that was built with probes of <sys/sdt.h>. The address in such a note is that of a nop,
 * but the cmp or call of an OCaml probe does not follow the nop. The probes of these notes can be
 * counted, but not enabled or disabled.
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
 * Reads the code at the addresses in notes. It reads whole windows of code, since notes are nearly
 * in the order of their sites.
 */
struct foreign_notes {
	struct elf_file *elf;
	uint64_t base_va; /* address of section .stapsdt.base; 0: the section is missing */
	uint64_t window_va;
	size_t window_bytes;
	uint8_t window[FOREIGN_WINDOW_BYTES];
};

/* Prepare FOREIGN for ELF. Return 0, or a negative errno if ELF cannot be read. */
int foreign_notes_open(struct elf_file *elf, struct foreign_notes *foreign);

/*
 * Return true if there is code at the address in NOTE, and this code is not a site of an OCaml
 * probe. Return false if it is a site, if the address is not in code, or if the file does not
 * contain the code.
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
