// SPDX-License-Identifier: MIT
#include "process/site_form.h"

#include <stdio.h>
#include <string.h>

/* Return true if the call at a site, whether on or off, leads into the program's code. */
static bool calls_code(const struct elf_file *elf, const struct site *site, const uint8_t *code)
{
	const struct elf_segment *seg;
	int32_t displacement;

	memcpy(&displacement, code + SITE_OPCODE_OFF + 1, sizeof(displacement));
	seg = elf_file_segment_of(elf, site->va + SITE_BYTES + (uint64_t)(int64_t)displacement, 1);
	return seg && seg->executable;
}

/*
 * Return true if a dormant site is as in the file, except for its first byte and the opcode byte.
 */
static bool is_as_in_file(const struct site *site, const uint8_t *code)
{
	const uint8_t *in_file = site->dormant->code;
	size_t after = site->opcode_at + 1u;

	return memcmp(code + 1, in_file + 1, site->opcode_at - 1u) == 0 &&
	       memcmp(code + after, in_file + after, site->n_bytes - after) == 0;
}

enum site_form site_form(const struct elf_file *elf, const struct site *site, const uint8_t *code)
{
	uint8_t first = site->dormant ? site->dormant->code[0] : SITE_NOP,
		opcode = code[site->opcode_at];

	if (code[0] != first && code[0] != SITE_INT3)
		return site->dormant ? SITE_FORM_CHANGED : SITE_FORM_NO_NOP;
	if (opcode == SITE_INT3)
		return SITE_FORM_BREAKPOINT;
	if (opcode != site->off_opcode && opcode != site->on_opcode)
		return SITE_FORM_OPCODE;
	if (site->dormant && !is_as_in_file(site, code))
		return SITE_FORM_CHANGED;
	if (!site->dormant && !calls_code(elf, site, code))
		return SITE_FORM_WRAPPER;
	return opcode == site->on_opcode ? SITE_FORM_ON : SITE_FORM_OFF;
}

const char *site_form_fault(enum site_form form)
{
	switch (form) {
	case SITE_FORM_OFF:
	case SITE_FORM_ON:
		break;
	case SITE_FORM_BREAKPOINT:
		return "a breakpoint is on the byte to be switched";
	case SITE_FORM_NO_NOP:
		return "does not start with a nop";
	case SITE_FORM_CHANGED:
		return "differs from the code in the program's file";
	case SITE_FORM_OPCODE:
		return "is neither a disabled nor an enabled probe";
	case SITE_FORM_WRAPPER:
		return "calls outside of the program's code";
	}
	return "nothing";
}

const char *site_code_text(const uint8_t *code, size_t n_bytes, char text[SITE_CODE_TEXT_BYTES])
{
	text[0] = '\0';
	for (size_t i = 0; i < n_bytes && i < SITE_CODE_SHOWN; i++)
		sprintf(text + 3 * i, " %02x", code[i]);
	return text;
}
