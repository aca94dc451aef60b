// SPDX-License-Identifier: MIT
#include "made_functions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

Elf64_Shdr *made_section_at(struct made *made, int index)
{
	return (Elf64_Shdr *)(made->bytes + SECTIONS) + index;
}

Elf64_Sym *made_symbol_at(struct made *made, size_t index)
{
	return (Elf64_Sym *)(made->bytes + SYMBOLS) + index;
}

void made_add_symbol(struct made *made, const char *name, uint64_t va, uint64_t bytes, int type)
{
	assert_true(made->n_strings + strlen(name) < 3 * (size_t)PAGE);
	assert_true((made->n_symbols + 1) * sizeof(Elf64_Sym) < 3 * (size_t)PAGE);
	*made_symbol_at(made, made->n_symbols++) = (Elf64_Sym){
		.st_name = (uint32_t)made->n_strings,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, type),
		.st_shndx = 1,
		.st_value = va,
		.st_size = bytes,
	};
	strcpy((char *)made->bytes + STRINGS + made->n_strings, name);
	made->n_strings += strlen(name) + 1;
	made_section_at(made, TABLE)->sh_size = made->n_symbols * sizeof(Elf64_Sym);
	made_section_at(made, STRING_TABLE)->sh_size = made->n_strings;
}

void made_add(struct made *made, const char *name, uint64_t off, uint64_t bytes)
{
	made_add_symbol(made, name, CODE_VA + off, bytes, STT_FUNC);
}

void made_add_unit(struct made *made, const char *unit, const char *separator, uint64_t start,
		   uint64_t end)
{
	char name[100];

	snprintf(name, sizeof(name), "%s%scode_begin", unit, separator);
	made_add_symbol(made, name, CODE_VA + start, 0, STT_NOTYPE);
	snprintf(name, sizeof(name), "%s%scode_end", unit, separator);
	made_add_symbol(made, name, CODE_VA + end, 0, STT_NOTYPE);
}

void made_set_word(struct made *made, uint64_t off, uint64_t word)
{
	memcpy(made->bytes + 2 * PAGE + off, &word, sizeof(word));
}

uint64_t made_info(int arity)
{
	return (uint64_t)(uint8_t)arity << 56 | (arity == 1 ? 2 : 3) << 1 | 1;
}

void made_relocate(struct made *made, uint64_t off, uint32_t type, uint32_t index, uint64_t addend)
{
	Elf64_Rela *rela = (Elf64_Rela *)(made->bytes + RELOCATIONS) + made->n_relocations++;

	*rela = (Elf64_Rela){
		.r_offset = DATA_VA + off,
		.r_info = ELF64_R_INFO((uint64_t)index, type),
		.r_addend = (int64_t)addend,
	};
	made_section_at(made, RELA)->sh_size = made->n_relocations * sizeof(*rela);
}

/* From now on it is position-independent. */
void made_make_relocatable(struct made *made)
{
	((Elf64_Ehdr *)made->bytes)->e_type = ET_DYN;
}

/* From now on it has only .dynsym. */
void made_strip(struct made *made)
{
	made_section_at(made, TABLE)->sh_type = SHT_DYNSYM;
	made_section_at(made, TABLE)->sh_name = 1 + 8 + 8 + 10 + 10;
	made_section_at(made, STRING_TABLE)->sh_name = 1 + 8 + 8 + 10 + 10 + 8;
}

int made_set_up(void **state)
{
	static const char names[] = "\0.symtab\0.strtab\0.rela.dyn\0.shstrtab\0.dynsym\0.dynstr";
	struct made *made = calloc(1, sizeof(*made));
	Elf64_Ehdr *ehdr;
	Elf64_Phdr *phdr;

	assert_non_null(made);
	ehdr = (Elf64_Ehdr *)made->bytes;
	phdr = (Elf64_Phdr *)(made->bytes + sizeof(*ehdr));
	memcpy(ehdr->e_ident, ELFMAG, SELFMAG);
	ehdr->e_ident[EI_CLASS] = ELFCLASS64;
	ehdr->e_ident[EI_DATA] = ELFDATA2LSB;
	ehdr->e_type = ET_EXEC;
	ehdr->e_machine = EM_X86_64;
	ehdr->e_phoff = sizeof(*ehdr);
	ehdr->e_phentsize = sizeof(*phdr);
	ehdr->e_phnum = 2;
	ehdr->e_shoff = SECTIONS;
	ehdr->e_shentsize = sizeof(Elf64_Shdr);
	ehdr->e_shnum = N_SECTIONS;
	ehdr->e_shstrndx = NAME_TABLE;
	phdr[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_offset = PAGE,
				.p_vaddr = CODE_VA,
				.p_filesz = PAGE,
				.p_memsz = PAGE };
	phdr[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_W,
				.p_offset = 2 * PAGE,
				.p_vaddr = DATA_VA,
				.p_filesz = PAGE,
				.p_memsz = PAGE };
	*made_section_at(made, TABLE) =
		(Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_SYMTAB, .sh_offset = SYMBOLS };
	*made_section_at(made, STRING_TABLE) =
		(Elf64_Shdr){ .sh_name = 1 + 8, .sh_type = SHT_STRTAB, .sh_offset = STRINGS };
	*made_section_at(made, RELA) =
		(Elf64_Shdr){ .sh_name = 1 + 8 + 8, .sh_type = SHT_RELA, .sh_offset = RELOCATIONS };
	*made_section_at(made, NAME_TABLE) = (Elf64_Shdr){ .sh_name = 1 + 8 + 8 + 10,
							   .sh_type = SHT_STRTAB,
							   .sh_offset = SECTION_NAMES,
							   .sh_size = sizeof(names) };
	memcpy(made->bytes + SECTION_NAMES, names, sizeof(names));
	made->n_strings = 1;
	made->n_symbols = 1;
	made->ctx = ocp_ctx_new();
	assert_non_null(made->ctx);
	*state = made;
	return 0;
}

int made_tear_down(void **state)
{
	struct made *made = *state;

	unit_files_free(made->files);
	functions_free(made->functions);
	ocp_ctx_free(made->ctx);
	free(made);
	return 0;
}

int made_read(struct made *made)
{
	int fd = memfd_create("made", MFD_CLOEXEC), err;
	struct elf_file *elf;

	assert_true(fd >= 0 && write(fd, made->bytes, ALL) == ALL);
	unit_files_free(made->files);
	functions_free(made->functions);
	made->functions = NULL;
	made->files = NULL;
	err = elf_file_open(made->ctx, fd, "made", &elf);
	if (!err) {
		err = functions_read(made->ctx, elf, &made->functions);
		if (!err)
			err = unit_files_read(made->ctx, elf, made->functions, &made->files);
		elf_file_close(elf);
	}
	close(fd);
	return err;
}

void made_read_well(struct made *made)
{
	if (made_read(made))
		fail_msg("%s", ocp_error(made->ctx));
}

/* The one function with this symbol. */
const struct function *made_function(const struct made *made, const char *name)
{
	size_t n;
	const struct function *list = functions_list(made->functions, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].symbol, name) == 0)
			return &list[i];
	fail_msg("no function %s", name);
	return NULL;
}

/* The symbols of the functions that are called NAME. */
void made_expect_found(const struct made *made, const char *name, const char *symbols)
{
	char found[200] = "";
	size_t n;
	const struct function *const *functions = functions_find(made->functions, name, &n);

	assert_int_equal(functions == NULL, n == 0);
	for (size_t i = 0; i < n; i++) {
		strcat(found, i ? " " : "");
		strcat(found, functions[i]->symbol);
	}
	assert_string_equal(found, symbols);
}

void made_expect_error(struct made *made, int err, const char *reason)
{
	assert_int_equal(made_read(made), err);
	if (!strstr(ocp_error(made->ctx), reason))
		fail_msg("expected \"%s\", the error is: %s", reason, ocp_error(made->ctx));
	assert_null(made->functions);
}
const char *const made_names_4[4] = { "camlService__find_80", "camlService__fun_90",
				      "camlService__entry", "camlStdlib__List__map_236" };

void made_add_program(struct made *made, const char *separator, const char *const symbols[4])
{
	made_add_unit(made, "caml_startup", separator, 0x000, 0x100);
	made_add(made, "caml_program", 0x000, 0x40);
	made_add(made, "caml_curry2", 0x40, 0x10);
	made_add(made, "caml_apply2", 0x50, 0x10);
	made_add_unit(made, "camlService", separator, 0x100, 0x200);
	made_add(made, symbols[0], 0x100, 0x20);
	made_add(made, symbols[1], 0x120, 0x20);
	made_add(made, symbols[2], 0x140, 0x20);
	made_add_unit(made, "camlStdlib__List", separator, 0x200, 0x300);
	made_add(made, symbols[3], 0x200, 0x20);
	made_add(made, "caml_alloc_shr", 0x300, 0x20);
	made_add(made, "camlService_stub", 0x320, 0x20);
	made_add(made, "camlNowhere__f_1", 0x340, 0x20);
	made_add_symbol(made, "caml_system__code_begin", CODE_VA + 0x400, 0, STT_NOTYPE);
	made_add(made, "caml_call_gc", 0x400, 0x20);
	made_add_symbol(made, "caml_system__code_end", CODE_VA + 0x440, 0, STT_NOTYPE);
	made_add(made, "caml_main", 0x440, 0x20);
}
