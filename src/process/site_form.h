/* SPDX-License-Identifier: MIT */
/* What the six bytes at a site are: one of the ABI's two forms, or what else. */
#ifndef PROCESS_SITE_FORM_H
#define PROCESS_SITE_FORM_H

#include <stdbool.h>
#include "elf/program.h"

enum site_form {
	SITE_FORM_OFF,
	SITE_FORM_ON,
	SITE_FORM_BREAKPOINT, /* int3 on the byte that is switched */
	SITE_FORM_NO_NOP,
	SITE_FORM_OPCODE,  /* neither cmp nor call */
	SITE_FORM_WRAPPER, /* calls outside of the program's code */
};

/* The form of CODE, read at the site that is linked at VA in ELF. */
enum site_form site_form(const struct elf_file *elf, uint64_t va, const uint8_t code[SITE_BYTES]);

static inline bool site_form_is_sound(enum site_form form)
{
	return form == SITE_FORM_OFF || form == SITE_FORM_ON;
}

/* What is wrong with a site of an unsound form. */
const char *site_form_fault(enum site_form form);

#endif
