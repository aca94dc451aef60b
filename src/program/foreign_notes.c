// SPDX-License-Identifier: MIT
#include "program/foreign_notes.h"

#include <elf.h>
#include <string.h>

#include "program/abi.h"
#include "program/program.h"

int foreign_notes_open(struct elf_file *elf, struct foreign_notes *foreign)
{
	struct elf_section base;
	const int found = elf_file_find_section(elf, ".stapsdt.base", SHT_PROGBITS, &base);

	foreign->elf = elf;
	foreign->base_va = found > 0 ? base.va : 0;
	foreign->window_va = foreign->window_bytes = 0;
	return found < 0 ? found : 0;
}

/*
 * Return the code at VA, of which the caller may read two bytes. Return NULL if VA is not in code,
 * or if the file has fewer than SITE_BYTES of code from VA on.
 */
static const uint8_t *code_at(struct foreign_notes *foreign, uint64_t va)
{
	const struct elf_segment *segment = elf_file_segment_of(foreign->elf, va, SITE_BYTES);
	uint64_t left;

	if (!segment || !segment->executable || va - segment->va > segment->file_bytes)
		return NULL;
	left = segment->file_bytes - (va - segment->va);
	if (left < SITE_BYTES)
		return NULL;
	if (va < foreign->window_va || va - foreign->window_va + 2 > foreign->window_bytes) {
		foreign->window_va = va;
		foreign->window_bytes = left < FOREIGN_WINDOW_BYTES ? left : FOREIGN_WINDOW_BYTES;
		if (elf_file_read(foreign->elf, segment->off + (va - segment->va), foreign->window,
				  foreign->window_bytes) != 0) {
			foreign->window_bytes = 0;
			return NULL;
		}
	}
	return foreign->window + (va - foreign->window_va);
}

uint64_t foreign_notes_va(const struct foreign_notes *foreign, const struct note *note)
{
	const uint64_t moved =
		foreign->base_va && note->base_va ? foreign->base_va - note->base_va : 0;

	return note->site_va + moved;
}

bool foreign_notes_has(struct foreign_notes *foreign, const struct note *note)
{
	const uint8_t *code =
		note->site_va ? code_at(foreign, foreign_notes_va(foreign, note)) : NULL;

	return code && (code[0] != SITE_NOP || (code[1] != SITE_OFF && code[1] != SITE_ON));
}

bool foreign_notes_is(struct foreign_notes *foreign, const struct note *note, const char *text)
{
	const char *colon = strchr(text, ':'), *name = colon ? colon + 1 : text;
	const char *provider = colon ? text : "ocaml";
	const size_t n = colon ? (size_t)(colon - text) : strlen(provider);
	enum site_abi abi;

	if (strcmp(note->name, name) != 0 || strlen(note->provider) != n ||
	    memcmp(note->provider, provider, n) != 0 || !note->site_va)
		return false;
	return !abi_of_provider(note->provider, &abi) || foreign_notes_has(foreign, note);
}
