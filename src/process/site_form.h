/* SPDX-License-Identifier: MIT */
/* The form of the bytes at a site: on, off, or a defect. */
#ifndef PROCESS_SITE_FORM_H
#define PROCESS_SITE_FORM_H

#include <stdbool.h>
#include "program/program.h"

enum site_form {
	SITE_FORM_OFF,
	SITE_FORM_ON,
	SITE_FORM_BREAKPOINT, /* int3 on the byte that is switched */
	SITE_FORM_NO_NOP,
	SITE_FORM_CHANGED, /* a dormant site that differs from the file */
	SITE_FORM_OPCODE,  /* the opcode is neither on nor off */
	SITE_FORM_WRAPPER, /* calls outside of the program's code */
};

/* Return the form of CODE, the site->n_bytes bytes that were read at SITE of ELF. */
enum site_form site_form(const struct elf_file *elf, const struct site *site, const uint8_t *code);

static inline bool site_form_is_sound(enum site_form form)
{
	return form == SITE_FORM_OFF || form == SITE_FORM_ON;
}

/* Write CODE as " 90 3d ..." to TEXT, for a message, and return TEXT. Long code is cut off. */
enum { SITE_CODE_SHOWN = 24, SITE_CODE_TEXT_BYTES = 3 * SITE_CODE_SHOWN + 1 };
const char *site_code_text(const uint8_t *code, size_t n_bytes, char text[SITE_CODE_TEXT_BYTES]);

/* Return, for a message, what is wrong with a site whose form is FORM. */
const char *site_form_fault(enum site_form form);

#endif
