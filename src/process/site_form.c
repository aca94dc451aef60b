// SPDX-License-Identifier: MIT
#include "process/site_form.h"

#include <string.h>

enum site_form site_form(const struct elf_file *elf, uint64_t va, const uint8_t code[SITE_BYTES])
{
	const struct elf_segment *seg;
	int32_t displacement;

	if (code[0] != SITE_NOP && code[0] != SITE_INT3)
		return SITE_FORM_NO_NOP;
	if (code[SITE_OPCODE_OFF] == SITE_INT3)
		return SITE_FORM_BREAKPOINT;
	if (code[SITE_OPCODE_OFF] != SITE_OFF && code[SITE_OPCODE_OFF] != SITE_ON)
		return SITE_FORM_OPCODE;
	memcpy(&displacement, code + SITE_OPCODE_OFF + 1, sizeof(displacement));
	seg = elf_file_segment_of(elf, va + SITE_BYTES + (uint64_t)(int64_t)displacement, 1);
	if (!seg || !seg->executable)
		return SITE_FORM_WRAPPER;
	return code[SITE_OPCODE_OFF] == SITE_ON ? SITE_FORM_ON : SITE_FORM_OFF;
}

const char *site_form_fault(enum site_form form)
{
	switch (form) {
	case SITE_FORM_OFF:
	case SITE_FORM_ON:
		break;
	case SITE_FORM_BREAKPOINT:
		return "somebody's breakpoint is on the byte to be switched";
	case SITE_FORM_NO_NOP:
		return "does not start with a nop";
	case SITE_FORM_OPCODE:
		return "is neither a disabled nor an enabled probe";
	case SITE_FORM_WRAPPER:
		return "calls outside of the program's code";
	}
	return "nothing";
}
