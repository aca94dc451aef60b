// SPDX-License-Identifier: MIT
/*
 * libdw splits the section into its entries. Those of functions (FDE) begin with the function's address
 * and length, in the form that the entry which they share (CIE) gives: LSB, "DWARF Extensions", 10.5 and
 * 10.6.
 */
#include "elf/eh_frame.h"

#include <elf.h>
#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_SECTION_BYTES = 1 << 28,
	FORM_MASK = 0x0f,
	BASE_MASK = 0x70,
	RELATIVE_TO_PLACE = 0x10,
	FORM_U2 = 0x02,
	FORM_U4 = 0x03,
	FORM_U8 = 0x04,
	FORM_S2 = 0x0a,
	FORM_S4 = 0x0b,
	FORM_S8 = 0x0c,
};

struct walk {
	const uint8_t *bytes;
	uint64_t va;	  /* of the section */
	Dwarf_Off cie;	  /* the shared entry that was read last */
	uint8_t encoding; /* what it says */
	bool is_known;	  /* its encoding is one that is read here */
	Elf_Data section;
};

static const unsigned char ident[EI_NIDENT] = {
	ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT,
};

/* The number of bytes of an address; 0: another form. */
static size_t form_bytes(uint8_t encoding)
{
	switch (encoding & FORM_MASK) {
	case 0:
	case FORM_U8:
	case FORM_S8:
		return 8;
	case FORM_U4:
	case FORM_S4:
		return 4;
	case FORM_U2:
	case FORM_S2:
		return 2;
	default:
		return 0;
	}
}

/* Find the encoding of addresses in a shared entry. Returns false if it is unusual. */
static bool read_encoding(const Dwarf_CIE *cie, uint8_t *encoding)
{
	const uint8_t *at = cie->augmentation_data;
	const uint8_t *end = at ? at + cie->augmentation_data_size : at;

	*encoding = 0;
	if (!*cie->augmentation)
		return true;
	if (cie->augmentation[0] != 'z')
		return false;
	for (const char *letter = cie->augmentation + 1; *letter; letter++) {
		size_t bytes = 0;

		if (*letter == 'S')
			continue;
		if (at == end)
			return false;
		if (*letter == 'R') {
			*encoding = *at;
			return form_bytes(*at) &&
			       ((*at & BASE_MASK) == 0 || (*at & ~FORM_MASK) == RELATIVE_TO_PLACE);
		}
		if (*letter == 'P')
			bytes = form_bytes(*at);
		else if (*letter != 'L')
			return false;
		at++;
		if ((*letter == 'P' && !bytes) || bytes > (size_t)(end - at))
			return false;
		at += bytes;
	}
	return true;
}

static void read_cie(struct walk *walk, Dwarf_Off off)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	walk->cie = off;
	walk->is_known = dwarf_next_cfi(ident, &walk->section, true, off, &next, &entry) == 0 &&
			 dwarf_cfi_cie_p(&entry) && read_encoding(&entry.cie, &walk->encoding);
}

static uint64_t read_number(const uint8_t *at, size_t bytes, bool is_signed)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	if (is_signed && bytes < 8 && value >> (8 * bytes - 1))
		value |= UINT64_MAX << (8 * bytes);
	return value;
}

static int take(struct walk *walk, const Dwarf_FDE *fde, eh_frame_fn fn, void *data)
{
	uint64_t va, n;
	size_t bytes;

	if (fde->CIE_pointer != walk->cie)
		read_cie(walk, fde->CIE_pointer);
	bytes = form_bytes(walk->encoding);
	if (!walk->is_known || !bytes || (size_t)(fde->end - fde->start) < 2 * bytes)
		return 0;
	va = read_number(fde->start, bytes, walk->encoding & 0x08);
	n = read_number(fde->start + bytes, bytes, false);
	if (walk->encoding & RELATIVE_TO_PLACE)
		va += walk->va + (uint64_t)(fde->start - walk->bytes);
	return n ? fn(data, va, n) : 0;
}

int eh_frame_each(struct elf_file *elf, eh_frame_fn fn, void *data)
{
	struct walk walk = { .cie = UINT64_MAX };
	Dwarf_Off off = 0, next = 0;
	struct elf_section section;
	Dwarf_CFI_Entry entry;
	uint8_t *bytes;
	int found, err;

	found = elf_file_find_section(elf, ".eh_frame", SHT_PROGBITS, &section);
	if (found <= 0)
		return found;
	err = elf_file_read_section(elf, &section, MAX_SECTION_BYTES, &bytes);
	if (err)
		return err;
	walk.bytes = bytes;
	walk.va = section.va;
	walk.section = (Elf_Data){ .d_buf = bytes,
				   .d_type = ELF_T_BYTE,
				   .d_version = EV_CURRENT,
				   .d_size = section.bytes };
	while (!err && off < section.bytes) {
		const int status = dwarf_next_cfi(ident, &walk.section, true, off, &next, &entry);

		if (status == 0 && !dwarf_cfi_cie_p(&entry))
			err = take(&walk, &entry.fde, fn, data);
		/* Behind the last entry is -1. */
		if (status > 0 || next <= off)
			break;
		off = next;
	}
	free(bytes);
	return err;
}
