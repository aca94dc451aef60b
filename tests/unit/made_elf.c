// SPDX-License-Identifier: MIT
#include "made_elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

enum {
	SECTIONS_OFF = 0x400,
	CODE_OFF = 0x1000,
	DATA_OFF = 0x2000,
	TABLE_OFF = MADE_TABLE_OFF,
	STRINGS_OFF = 0x5000
};
enum { N_SECTIONS = 4, FILE_BYTES = 0x8000 };

void made_symbol(struct made_elf *made, const char *name, uint64_t va, uint64_t bytes,
		 bool is_local)
{
	assert_true(made->n_symbols < MADE_SYMBOLS);
	made->symbols[made->n_symbols++] = (struct made_symbol){ name, va, bytes, is_local };
}

void made_symbol_change(struct made_elf *made, const char *name, uint64_t va, uint64_t bytes)
{
	for (size_t i = 0; i < made->n_symbols; i++)
		if (strcmp(made->symbols[i].name, name) == 0) {
			made->symbols[i].va = va;
			made->symbols[i].bytes = bytes;
			return;
		}
	fail_msg("no symbol %s", name);
}

void made_distance(struct made_elf *made, size_t at, uint64_t va)
{
	const int32_t distance = (int32_t)(va - (MADE_CODE_VA + at + 4));

	memcpy(made->code + at, &distance, sizeof(distance));
}

void made_section_change(int fd, size_t index, uint64_t off, uint64_t bytes)
{
	const off_t at = SECTIONS_OFF + (off_t)(index * sizeof(Elf64_Shdr));
	Elf64_Shdr section;

	assert_int_equal(pread(fd, &section, sizeof(section), at), sizeof(section));
	section.sh_offset = off;
	section.sh_size = bytes;
	assert_int_equal(pwrite(fd, &section, sizeof(section), at), sizeof(section));
}

static void add_symbols(const struct made_elf *made, uint8_t *file, Elf64_Shdr *table,
			Elf64_Shdr *strings, bool locals)
{
	Elf64_Sym *symbols = (Elf64_Sym *)(file + TABLE_OFF);
	size_t n = table->sh_size / sizeof(*symbols), at = strings->sh_size;

	for (size_t i = 0; i < made->n_symbols; i++) {
		const struct made_symbol *symbol = &made->symbols[i];

		if (symbol->is_local != locals || !symbol->va)
			continue;
		symbols[n++] = (Elf64_Sym){
			.st_name = (Elf64_Word)at,
			.st_info = ELF64_ST_INFO(locals ? STB_LOCAL : STB_GLOBAL, STT_NOTYPE),
			.st_shndx = 1,
			.st_value = symbol->va,
			.st_size = symbol->bytes,
		};
		strcpy((char *)file + STRINGS_OFF + at, symbol->name);
		at += strlen(symbol->name) + 1;
	}
	table->sh_size = n * sizeof(*symbols);
	strings->sh_size = at;
}

int made_fd(const struct made_elf *made)
{
	static const char names[] = "\0.symtab\0.strtab\0.dynsym\0.dynstr\0.shstrtab";
	uint8_t *file = calloc(1, FILE_BYTES);
	Elf64_Ehdr *header = (Elf64_Ehdr *)file;
	Elf64_Phdr *segments = (Elf64_Phdr *)(header + 1);
	Elf64_Shdr *sections = (Elf64_Shdr *)(file + SECTIONS_OFF);
	int fd = memfd_create("made", MFD_CLOEXEC);

	assert_non_null(file);
	assert_true(fd >= 0);
	memcpy(header->e_ident, ELFMAG, SELFMAG);
	header->e_ident[EI_CLASS] = ELFCLASS64;
	header->e_ident[EI_DATA] = ELFDATA2LSB;
	header->e_ident[EI_VERSION] = EV_CURRENT;
	header->e_type = ET_DYN;
	header->e_machine = EM_X86_64;
	header->e_version = EV_CURRENT;
	header->e_ehsize = sizeof(*header);
	header->e_phoff = sizeof(*header);
	header->e_phentsize = sizeof(*segments);
	header->e_phnum = 2;
	header->e_shoff = SECTIONS_OFF;
	header->e_shentsize = sizeof(*sections);
	header->e_shnum = N_SECTIONS;
	header->e_shstrndx = 3;
	segments[0] = (Elf64_Phdr){ PT_LOAD,	  PF_R | PF_X, CODE_OFF,   MADE_CODE_VA,
				    MADE_CODE_VA, MADE_BYTES,  MADE_BYTES, 0x1000 };
	/* Twice as long in memory: .bss */
	segments[1] = (Elf64_Phdr){ PT_LOAD,	  PF_R | PF_W, DATA_OFF,       MADE_DATA_VA,
				    MADE_DATA_VA, MADE_BYTES,  2 * MADE_BYTES, 0x1000 };
	memcpy(file + CODE_OFF, made->code, MADE_BYTES);
	memcpy(file + DATA_OFF, made->data, MADE_BYTES);
	sections[1] = (Elf64_Shdr){ .sh_name = made->is_stripped ? 17 : 1,
				    .sh_type = made->is_stripped ? SHT_DYNSYM : SHT_SYMTAB,
				    .sh_offset = TABLE_OFF,
				    .sh_size = sizeof(Elf64_Sym),
				    .sh_entsize = sizeof(Elf64_Sym) };
	sections[2] = (Elf64_Shdr){ .sh_name = made->is_stripped ? 25 : 9,
				    .sh_type = SHT_STRTAB,
				    .sh_offset = STRINGS_OFF,
				    .sh_size = 1 };
	sections[3] = (Elf64_Shdr){
		.sh_name = 33, .sh_type = SHT_STRTAB, .sh_offset = 0x800, .sh_size = sizeof(names)
	};
	memcpy(file + 0x800, names, sizeof(names));
	if (!made->is_stripped)
		add_symbols(made, file, &sections[1], &sections[2], true);
	add_symbols(made, file, &sections[1], &sections[2], false);
	assert_int_equal(write(fd, file, FILE_BYTES), FILE_BYTES);
	free(file);
	return fd;
}
