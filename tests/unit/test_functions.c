// SPDX-License-Identifier: MIT
/*
 * The functions of executables that are made by hand: sound ones of 4.x and 5.x, and ones that lie. The
 * file has code from CODE_VA and data from DATA_VA on, a page each, and its tables behind them.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str_regexp.h"
#include "code/functions.h"
#include "code/unit_files.h"
#include "unit.h"

enum {
	PAGE = 0x1000,
	CODE_VA = 0x401000,
	DATA_VA = 0x402000,
	SYMBOLS = 3 * PAGE,
	STRINGS = 6 * PAGE,
	RELOCATIONS = 9 * PAGE,
	SECTION_NAMES = 11 * PAGE,
	SECTIONS = 12 * PAGE,
	ALL = 13 * PAGE,
};

enum { NO_SECTION, TABLE, STRING_TABLE, RELA, NAME_TABLE, N_SECTIONS };

struct made {
	uint8_t bytes[ALL];
	size_t n_symbols, n_strings, n_relocations;
	struct ocp_ctx *ctx;
	struct functions *functions;
	struct unit_files *files;
};

static Elf64_Shdr *section(struct made *made, int index)
{
	return (Elf64_Shdr *)(made->bytes + SECTIONS) + index;
}

static Elf64_Sym *symbol(struct made *made, size_t index)
{
	return (Elf64_Sym *)(made->bytes + SYMBOLS) + index;
}

static void add_typed(struct made *made, const char *name, uint64_t va, uint64_t bytes, int type)
{
	assert_true(made->n_strings + strlen(name) < 3 * (size_t)PAGE);
	assert_true((made->n_symbols + 1) * sizeof(Elf64_Sym) < 3 * (size_t)PAGE);
	*symbol(made, made->n_symbols++) = (Elf64_Sym){
		.st_name = (uint32_t)made->n_strings,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, type),
		.st_shndx = 1,
		.st_value = va,
		.st_size = bytes,
	};
	strcpy((char *)made->bytes + STRINGS + made->n_strings, name);
	made->n_strings += strlen(name) + 1;
	section(made, TABLE)->sh_size = made->n_symbols * sizeof(Elf64_Sym);
	section(made, STRING_TABLE)->sh_size = made->n_strings;
}

static void add(struct made *made, const char *name, uint64_t off, uint64_t bytes)
{
	add_typed(made, name, CODE_VA + off, bytes, STT_FUNC);
}

static void add_unit(struct made *made, const char *unit, const char *separator, uint64_t start,
		     uint64_t end)
{
	char name[100];

	snprintf(name, sizeof(name), "%s%scode_begin", unit, separator);
	add_typed(made, name, CODE_VA + start, 0, STT_NOTYPE);
	snprintf(name, sizeof(name), "%s%scode_end", unit, separator);
	add_typed(made, name, CODE_VA + end, 0, STT_NOTYPE);
}

static void set_word(struct made *made, uint64_t off, uint64_t word)
{
	memcpy(made->bytes + 2 * PAGE + off, &word, sizeof(word));
}

static uint64_t info(int arity)
{
	return (uint64_t)(uint8_t)arity << 56 | (arity == 1 ? 2 : 3) << 1 | 1;
}

static void relocate(struct made *made, uint64_t off, uint32_t type, uint32_t index,
		     uint64_t addend)
{
	Elf64_Rela *rela = (Elf64_Rela *)(made->bytes + RELOCATIONS) + made->n_relocations++;

	*rela = (Elf64_Rela){
		.r_offset = DATA_VA + off,
		.r_info = ELF64_R_INFO((uint64_t)index, type),
		.r_addend = (int64_t)addend,
	};
	section(made, RELA)->sh_size = made->n_relocations * sizeof(*rela);
}

/* From now on it is position-independent. */
static void make_relocatable(struct made *made)
{
	((Elf64_Ehdr *)made->bytes)->e_type = ET_DYN;
}

/* From now on it has only .dynsym. */
static void strip(struct made *made)
{
	section(made, TABLE)->sh_type = SHT_DYNSYM;
	section(made, TABLE)->sh_name = 1 + 8 + 8 + 10 + 10;
	section(made, STRING_TABLE)->sh_name = 1 + 8 + 8 + 10 + 10 + 8;
}

static int make(void **state)
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
	*section(made, TABLE) =
		(Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_SYMTAB, .sh_offset = SYMBOLS };
	*section(made, STRING_TABLE) =
		(Elf64_Shdr){ .sh_name = 1 + 8, .sh_type = SHT_STRTAB, .sh_offset = STRINGS };
	*section(made, RELA) =
		(Elf64_Shdr){ .sh_name = 1 + 8 + 8, .sh_type = SHT_RELA, .sh_offset = RELOCATIONS };
	*section(made, NAME_TABLE) = (Elf64_Shdr){ .sh_name = 1 + 8 + 8 + 10,
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

static int unmake(void **state)
{
	struct made *made = *state;

	unit_files_free(made->files);
	functions_free(made->functions);
	ocp_ctx_free(made->ctx);
	free(made);
	return 0;
}

static int read_made(struct made *made)
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

static void read_well(struct made *made)
{
	if (read_made(made))
		fail_msg("%s", ocp_error(made->ctx));
}

/* The one function with this symbol. */
static const struct function *get(const struct made *made, const char *name)
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
static void expect_found(const struct made *made, const char *name, const char *symbols)
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

static void expect_error(struct made *made, int err, const char *reason)
{
	assert_int_equal(read_made(made), err);
	if (!strstr(ocp_error(made->ctx), reason))
		fail_msg("expected \"%s\", the error is: %s", reason, ocp_error(made->ctx));
	assert_null(made->functions);
}

/* ---- whose they are ------------------------------------------------------------------------- */

static void add_program(struct made *made, const char *separator, const char *const symbols[4])
{
	add_unit(made, "caml_startup", separator, 0x000, 0x100);
	add(made, "caml_program", 0x000, 0x40);
	add(made, "caml_curry2", 0x40, 0x10);
	add(made, "caml_apply2", 0x50, 0x10);
	add_unit(made, "camlService", separator, 0x100, 0x200);
	add(made, symbols[0], 0x100, 0x20);
	add(made, symbols[1], 0x120, 0x20);
	add(made, symbols[2], 0x140, 0x20);
	add_unit(made, "camlStdlib__List", separator, 0x200, 0x300);
	add(made, symbols[3], 0x200, 0x20);
	add(made, "caml_alloc_shr", 0x300, 0x20);
	add(made, "camlService_stub", 0x320, 0x20);
	add(made, "camlNowhere__f_1", 0x340, 0x20);
	add_typed(made, "caml_system__code_begin", CODE_VA + 0x400, 0, STT_NOTYPE);
	add(made, "caml_call_gc", 0x400, 0x20);
	add_typed(made, "caml_system__code_end", CODE_VA + 0x440, 0, STT_NOTYPE);
	add(made, "caml_main", 0x440, 0x20);
}

static void expect_program(struct made *made, const char *const symbols[4])
{
	size_t n;

	assert_int_equal(functions_ocaml_count(made->functions), 4);
	assert_true(functions_have_runtime(made->functions));
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "made"), 0);
	assert_string_equal(get(made, symbols[0])->name, "Service.find");
	assert_string_equal(get(made, symbols[1])->name, "Service.fun_90");
	assert_string_equal(get(made, symbols[2])->name, "Service.entry");
	assert_string_equal(get(made, symbols[3])->name, "List.map");
	assert_string_equal(get(made, symbols[3])->full_name, "Stdlib.List.map");
	assert_int_equal(get(made, symbols[0])->stamp, 80);
	assert_true(get(made, symbols[1])->is_anonymous && !get(made, symbols[0])->is_anonymous);
	assert_true(get(made, symbols[2])->is_initialiser);
	assert_int_equal(get(made, symbols[0])->language, FUNCTION_OCAML);
	assert_int_equal(get(made, "caml_apply2")->language, FUNCTION_GLUE);
	assert_int_equal(get(made, "caml_call_gc")->language, FUNCTION_GLUE);
	assert_int_equal(get(made, "caml_alloc_shr")->language, FUNCTION_C);
	assert_int_equal(get(made, "camlService_stub")->language, FUNCTION_C);
	assert_int_equal(get(made, "camlNowhere__f_1")->language, FUNCTION_C);
	assert_ptr_equal(functions_find_c(made->functions, "caml_alloc_shr"),
			 get(made, "caml_alloc_shr"));
	assert_ptr_equal(functions_find_c(made->functions, "caml_apply2"),
			 get(made, "caml_apply2"));
	assert_null(functions_find_c(made->functions, symbols[0]));
	assert_null(functions_find_c(made->functions, "caml_alloc"));
	expect_found(made, "Service.find", symbols[0]);
	expect_found(made, "Service.find/80", symbols[0]);
	expect_found(made, "Service.find/81", "");
	expect_found(made, "Stdlib.List.map", symbols[3]);
	expect_found(made, "Stdlib__List.map", symbols[3]);
	expect_found(made, "List.map", symbols[3]);
	expect_found(made, "caml_alloc_shr", "");
	functions_list(made->functions, &n);
	assert_int_equal(n, 12);
}

static const char *const names_4[] = { "camlService__find_80", "camlService__fun_90",
				       "camlService__entry", "camlStdlib__List__map_236" };

static void programs_of_version_4(void **state)
{
	add_program(*state, "__", names_4);
	read_well(*state);
	expect_program(*state, names_4);
}

static void programs_of_version_5(void **state)
{
	static const char *const names[] = { "camlService.find_80", "camlService.fun_90",
					     "camlService.entry", "camlStdlib__List.map_236" };

	add_program(*state, ".", names);
	read_well(*state);
	expect_program(*state, names);
}

static void stripped_programs(void **state)
{
	add_program(*state, "__", names_4);
	strip(*state);
	read_well(*state);
	expect_program(*state, names_4);
}

/* With ocamlopt -function-sections, functions are not between the marks of their unit. */
static void functions_far_from_their_unit(void **state)
{
	struct made *made = *state;

	add_unit(made, "camlM", "__", 0x100, 0x100);
	add_unit(made, "camlM__", "__", 0x100, 0x100);
	add(made, "camlM__f_1", 0x800, 0x20);
	add(made, "camlM____g_1", 0x820, 0x20);
	read_well(made);
	assert_string_equal(get(made, "camlM__f_1")->name, "M.f");
	assert_string_equal(get(made, "camlM____g_1")->name, "M__.g");
}

static void without_marks_symbols_decide(void **state)
{
	struct made *made = *state;

	add(made, "camlStdlib__List__map_1", 0x100, 0x20);
	add(made, "caml_alloc", 0x120, 0x20);
	read_well(made);
	assert_string_equal(get(made, "camlStdlib__List__map_1")->name, "List.map");
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	assert_int_equal(get(made, "caml_alloc")->language, FUNCTION_C);
}

static void no_ocaml(void **state)
{
	struct made *made = *state;

	add(made, "main", 0x100, 0x20);
	read_well(made);
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "X"), -ENODATA);
	assert_string_equal(ocp_error(made->ctx), "X: not an OCaml program");
	add(made, "caml_main", 0x120, 0x20);
	read_well(made);
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "X"), -ENODATA);
	assert_string_equal(ocp_error(made->ctx),
			    "X: has OCaml's runtime, but no native OCaml code (bytecode?)");
}

static void no_symbols(void **state)
{
	struct made *made = *state;

	expect_error(made, -ENODATA, "made: no function has a symbol");
	add_typed(made, "caml_data", DATA_VA, 8, STT_OBJECT);
	expect_error(made, -ENODATA, "made: no function has a symbol");
	section(made, TABLE)->sh_type = SHT_PROGBITS;
	expect_error(made, -ENODATA, "made: no function has a symbol");
}

/* ---- names ---------------------------------------------------------------------------------- */

static void several_with_one_name(void **state)
{
	struct made *made = *state;
	char text[FUNCTION_TEXT_BYTES];

	add(made, "camlM__f_20", 0x100, 0x20);
	add(made, "camlM__f_3", 0x120, 0x20);
	add(made, "camlM__g_4", 0x140, 0x20);
	add(made, "camlM__entry_9", 0x160, 0x20);
	add(made, "camlM__entry", 0x180, 0x20);
	read_well(made);
	expect_found(made, "M.f", "camlM__f_3 camlM__f_20");
	expect_found(made, "M.f/20", "camlM__f_20");
	expect_found(made, "M.f/3", "camlM__f_3");
	expect_found(made, "M.f/2", "");
	expect_found(made, "M.entry", "camlM__entry camlM__entry_9");
	expect_found(made, "M.entry/0", "camlM__entry");
	expect_found(made, "M", "");
	assert_string_equal(function_text(get(made, "camlM__f_3"), text), "M.f/3");
	assert_string_equal(function_text(get(made, "camlM__g_4"), text), "M.g");
	assert_string_equal(function_text(get(made, "camlM__entry"), text), "M.entry/0");
}

/* The program has a module of the name of one of Stdlib: it goes first. */
static void names_that_need_their_prefix(void **state)
{
	struct made *made = *state;

	add_unit(made, "camlStdlib__List", "__", 0x100, 0x200);
	add(made, "camlStdlib__List__map_1", 0x100, 0x20);
	add_unit(made, "camlDune__exe__List", "__", 0x200, 0x300);
	add(made, "camlDune__exe__List__map_1", 0x200, 0x20);
	add_unit(made, "camlDune__exe__Main", "__", 0x300, 0x400);
	add(made, "camlDune__exe__Main__f_1", 0x300, 0x20);
	add_unit(made, "camlMain", "__", 0x400, 0x500);
	add(made, "camlMain__f_1", 0x400, 0x20);
	read_well(made);
	assert_string_equal(get(made, "camlStdlib__List__map_1")->name, "Stdlib.List.map");
	assert_string_equal(get(made, "camlDune__exe__List__map_1")->name, "List.map");
	assert_string_equal(get(made, "camlDune__exe__Main__f_1")->name, "Dune__exe.Main.f");
	expect_found(made, "List.map", "camlDune__exe__List__map_1");
	expect_found(made, "Stdlib.List.map", "camlStdlib__List__map_1");
	expect_found(made, "Dune__exe__List.map", "camlDune__exe__List__map_1");
	expect_found(made, "Dune__exe__Main.f", "camlDune__exe__Main__f_1");
	expect_found(made, "Main.f", "camlMain__f_1");
	expect_found(made, "Stdlib.Main.f", "");
}

static void names_that_match(void **state)
{
	static const struct {
		const char *pattern;
		bool matches;
	} all[] = {
		{ "List.map", true },
		{ "Li", true },
		{ "Stdlib\\.List", true },
		{ "List\\.map$", true },
		{ "List\\.map/7$", true },
		{ "map", false },
		{ ".*map", true },
		{ "List\\.map2", false },
		{ "Dune__exe\\.List", false },
	};
	struct made *made = *state;

	add(made, "camlStdlib__List__map_7", 0x100, 0x20);
	read_well(made);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct str_regexp *re;

		assert_int_equal(str_regexp_new(made->ctx, all[i].pattern, &re), 0);
		if (function_matches(get(made, "camlStdlib__List__map_7"), re) != all[i].matches)
			fail_msg("%s", all[i].pattern);
		str_regexp_free(re);
	}
}

/* ---- places --------------------------------------------------------------------------------- */

static void expect_at(const struct made *made, uint64_t off, const char *name)
{
	const struct function *function = functions_at(made->functions, CODE_VA + off);

	assert_string_equal(function ? function->symbol : "", name);
}

static void where_functions_end(void **state)
{
	struct made *made = *state;

	add(made, "camlM__f_1", 0x100, 0x80); /* overlaps the next */
	add(made, "camlM__g_2", 0x140, 0);
	add(made, "camlM__h_3", 0x180, 0x20);
	add(made, "wide", 0x200, 0x100); /* C may contain entries of others */
	add(made, "inner", 0x240, 0x10);
	add(made, "alias", 0x240, 0x10);
	add(made, "camlM__last_4", 0xf00, UINT64_MAX);
	read_well(made);
	assert_int_equal(get(made, "camlM__f_1")->bytes, 0x40);
	assert_int_equal(get(made, "camlM__g_2")->bytes, 0x40);
	assert_int_equal(get(made, "camlM__h_3")->bytes, 0x20);
	assert_int_equal(get(made, "wide")->bytes, 0x100);
	assert_int_equal(get(made, "camlM__last_4")->bytes, 0x100);
	expect_at(made, 0x0ff, "");
	expect_at(made, 0x100, "camlM__f_1");
	expect_at(made, 0x13f, "camlM__f_1");
	expect_at(made, 0x140, "camlM__g_2");
	expect_at(made, 0x1a0, "");
	expect_at(made, 0x24f, "inner");
	expect_at(made, 0x250, "wide");
	expect_at(made, 0xfff, "camlM__last_4");
	expect_at(made, 0x1000, "");
}

/* Where jumps from other functions are calls. */
static void where_functions_begin(void **state)
{
	struct made *made = *state;
	const uint64_t *entries;
	size_t n;

	add(made, "f", 0x200, 0x10);
	add(made, "alias", 0x200, 0x10);
	add(made, "f.cold", 0x300, 0x10);
	add(made, "f.part.0.cold.1", 0x310, 0x10);
	add(made, "f.isra.0", 0x320, 0x10);
	add(made, "camlM.cold_1", 0x100, 0x10);
	read_well(made);
	entries = functions_entries(made->functions, &n);
	assert_int_equal(n, 3);
	assert_int_equal(entries[0], CODE_VA + 0x100);
	assert_int_equal(entries[1], CODE_VA + 0x200);
	assert_int_equal(entries[2], CODE_VA + 0x320);
}

static void what_is_no_function(void **state)
{
	struct made *made = *state;
	size_t n;

	add(made, "camlM__f_1", 0x100, 0x20);
	add(made, "camlM__f_1", 0x100, 0x20); /* once */
	add_typed(made, "camlM__data_2", DATA_VA, 8, STT_FUNC);
	add_typed(made, "camlM__nowhere_3", 8, 8, STT_FUNC);
	add_typed(made, "camlM__object_4", CODE_VA, 8, STT_OBJECT);
	add_typed(made, "camlM__label_5", CODE_VA, 8, STT_NOTYPE);
	add(made, "camlM__undefined_6", 0x200, 8);
	symbol(made, made->n_symbols - 1)->st_shndx = SHN_UNDEF;
	add_typed(made, "chosen", CODE_VA + 0x300, 8, STT_GNU_IFUNC);
	read_well(made);
	functions_list(made->functions, &n);
	assert_int_equal(n, 2);
	assert_true(get(made, "chosen")->is_chosen && !get(made, "camlM__f_1")->is_chosen);
}

/* ---- arity ---------------------------------------------------------------------------------- */

static void add_closures(struct made *made)
{
	add(made, "camlM__one_1", 0x100, 0x10);
	add(made, "camlM__three_2", 0x110, 0x10);
	add(made, "camlM__pair_3", 0x120, 0x10);
	add(made, "camlM__direct_4", 0x130, 0x10);
	add(made, "camlM__twice_5", 0x140, 0x10);
	add(made, "camlM__wrong_6", 0x150, 0x10);
	add(made, "camlM__other_7", 0x160, 0x10);
	add(made, "caml_curry3", 0x200, 0x10);
	add(made, "caml_tuplify2", 0x210, 0x10);
	add(made, "caml_curry3_1", 0x220, 0x10);
	add(made, "caml_curry300", 0x230, 0x10);
	set_word(made, 0x108, info(1));
	set_word(made, 0x208, info(3));
	set_word(made, 0x308, info(-2));
	/* Two closures that contradict each other. */
	set_word(made, 0x408, info(1));
	set_word(made, 0x428, info(3));
	/* caml_curry3 with another arity, and what is no info word. */
	set_word(made, 0x508, info(2));
	set_word(made, 0x608, info(3));
	set_word(made, 0x708, 0x4142434445464748);
	/* Without caml_curry3 before it. */
	set_word(made, 0x728, info(3));
}

/* The pointers of these closures: where, and to what. */
static const struct {
	uint64_t off, to;
	const char *symbol;
} pointers[] = {
	{ 0x100, 0x100, "camlM__one_1" },   { 0x200, 0x200, "caml_curry3" },
	{ 0x210, 0x110, "camlM__three_2" }, { 0x300, 0x210, "caml_tuplify2" },
	{ 0x310, 0x120, "camlM__pair_3" },  { 0x400, 0x140, "camlM__twice_5" },
	{ 0x420, 0x200, "caml_curry3" },    { 0x430, 0x140, "camlM__twice_5" },
	{ 0x500, 0x200, "caml_curry3" },    { 0x510, 0x150, "camlM__wrong_6" },
	{ 0x600, 0x220, "caml_curry3_1" },  { 0x610, 0x150, "camlM__wrong_6" },
	{ 0x700, 0x160, "camlM__other_7" }, { 0x720, 0x160, "camlM__other_7" },
};

enum { N_POINTERS = sizeof(pointers) / sizeof(pointers[0]) };

static void expect_arities(struct made *made)
{
	assert_int_equal(get(made, "camlM__one_1")->arity, 1);
	assert_int_equal(get(made, "camlM__three_2")->arity, 3);
	assert_int_equal(get(made, "camlM__pair_3")->arity, -2);
	assert_int_equal(get(made, "camlM__direct_4")->arity, ARITY_UNKNOWN);
	assert_int_equal(get(made, "camlM__twice_5")->arity, ARITY_UNKNOWN);
	assert_int_equal(get(made, "camlM__wrong_6")->arity, ARITY_UNKNOWN);
	assert_int_equal(get(made, "camlM__other_7")->arity, ARITY_UNKNOWN);
	assert_int_equal(get(made, "caml_curry3")->arity, ARITY_UNKNOWN);
}

static void set_pointers(struct made *made)
{
	for (size_t i = 0; i < N_POINTERS; i++)
		set_word(made, pointers[i].off, CODE_VA + pointers[i].to);
}

static void arity_in_words(void **state)
{
	struct made *made = *state;

	add_closures(made);
	set_pointers(made);
	read_well(made);
	expect_arities(made);
	/* Where words are relocated, those that are not are no pointers. */
	make_relocatable(made);
	read_well(made);
	assert_int_equal(get(made, "camlM__one_1")->arity, ARITY_UNKNOWN);
	/* But with compact relocations they are. */
	section(made, RELA)->sh_type = 19;
	read_well(made);
	expect_arities(made);
}

static void arity_in_relocations(void **state)
{
	struct made *made = *state;

	add_closures(made);
	make_relocatable(made);
	/* In any order. */
	for (size_t i = N_POINTERS; i-- > 0;)
		relocate(made, pointers[i].off, R_X86_64_RELATIVE, 0, CODE_VA + pointers[i].to);
	read_well(made);
	expect_arities(made);
}

static size_t index_of(struct made *made, const char *name)
{
	for (size_t i = 1; i < made->n_symbols; i++)
		if (strcmp((char *)made->bytes + STRINGS + symbol(made, i)->st_name, name) == 0)
			return i;
	fail_msg("no symbol %s", name);
	return 0;
}

/* Plugins name what their words point to; caml_curryN can be the program's. */
static void arity_in_named_relocations(void **state)
{
	struct made *made = *state;
	Elf64_Sym *curry;

	add_closures(made);
	make_relocatable(made);
	strip(made);
	for (size_t i = 0; i < N_POINTERS; i++)
		relocate(made, pointers[i].off, R_X86_64_64,
			 (uint32_t)index_of(made, pointers[i].symbol), 0);
	relocate(made, 0x800, R_X86_64_64, UINT32_MAX, 0);
	read_well(made);
	expect_arities(made);
	curry = symbol(made, index_of(made, "caml_curry3"));
	curry->st_shndx = SHN_UNDEF;
	curry->st_value = 0;
	read_well(made);
	assert_int_equal(get(made, "camlM__three_2")->arity, 3);
	assert_int_equal(get(made, "camlM__pair_3")->arity, -2);
}

/* Closures at the very ends of the data: no word outside of it is read. */
static void closures_at_the_ends(void **state)
{
	struct made *made = *state;

	add(made, "camlM__f_1", 0x100, 0x10);
	add(made, "camlM__g_1", 0x110, 0x10);
	set_word(made, 0, CODE_VA + 0x100);
	set_word(made, 8, info(1));
	set_word(made, PAGE - 8, CODE_VA + 0x110);
	read_well(made);
	assert_int_equal(get(made, "camlM__f_1")->arity, 1);
	assert_int_equal(get(made, "camlM__g_1")->arity, ARITY_UNKNOWN);
	make_relocatable(made);
	relocate(made, UINT64_MAX - DATA_VA - 3, R_X86_64_RELATIVE, 0, CODE_VA + 0x100);
	relocate(made, PAGE, R_X86_64_RELATIVE, 0, CODE_VA + 0x100);
	relocate(made, PAGE - 4, R_X86_64_RELATIVE, 0, CODE_VA + 0x100);
	read_well(made);
	assert_int_equal(get(made, "camlM__f_1")->arity, ARITY_UNKNOWN);
}

/* ---- source files ---------------------------------------------------------------------------- */

static void put(struct made *made, uint64_t off, uint64_t value, size_t bytes)
{
	memcpy(made->bytes + 2 * PAGE + off, &value, bytes);
}

enum { LIST = 0x7c0, FRAMES = 0x800, DEBUG = 0x900, NAMES = 0x980, FILE_NAME = 0x9c0 };

/*
 * A frame table of four descriptors: without debug information, with it, with four allocations, of which
 * one has it, and that of the bottom of a stack.
 */
static void add_frames(struct made *made)
{
	static const uint64_t frames[] = { 8, 24, 48, 88 };

	add_unit(made, "camlM", "__", 0x100, 0x200);
	add(made, "camlM__f_1", 0x100, 0x20);
	add_typed(made, "camlM__frametable", DATA_VA + FRAMES, 0, STT_NOTYPE);
	add_typed(made, "caml_frametable", DATA_VA + LIST, 0, STT_NOTYPE);
	put(made, LIST, DATA_VA + FRAMES, 8);
	put(made, FRAMES, 4, 8);
	for (uint64_t i = 0; i < 4; i++)
		put(made, FRAMES + frames[i], CODE_VA + 0x108 + 8 * i, 8);
	/* One live slot. */
	put(made, FRAMES + 16, 16, 2);
	put(made, FRAMES + 18, 1, 2);
	/* The next, at 24. */
	put(made, FRAMES + 32, 16 | 1, 2);
	put(made, FRAMES + 34, 3, 2);
	put(made, FRAMES + 44, (uint64_t)(DEBUG - (FRAMES + 44)), 4);
	/* At 48: four lengths, and four places from 68 on. */
	put(made, FRAMES + 56, 16 | 2 | 1, 2);
	put(made, FRAMES + 60, 0x0101010104, 5);
	put(made, FRAMES + 72, (uint64_t)(DEBUG - (FRAMES + 72)), 4);
	/* At 88: neither lengths nor places follow. */
	put(made, FRAMES + 96, 0xffff, 2);
	put(made, FRAMES + 100, 0x7f, 1);
	/* A function of elsewhere that is inlined into one of ours. */
	put(made, DEBUG, (uint64_t)(NAMES + 32 - DEBUG) | 1, 4);
	put(made, DEBUG + 8, (uint64_t)(NAMES - (DEBUG + 8)) | 2, 4);
	put(made, NAMES, FILE_NAME - NAMES, 4);
	put(made, NAMES + 32, (uint64_t)(FILE_NAME + 16 - (NAMES + 32)), 4);
	memcpy(made->bytes + 2 * PAGE + FILE_NAME, "m.ml", 5);
	memcpy(made->bytes + 2 * PAGE + FILE_NAME + 16, "elsewhere.ml", 13);
}

static void expect_file(struct made *made, const char *expected)
{
	const char *file;

	read_well(made);
	file = unit_files_of(made->files, get(made, "camlM__f_1"));
	assert_string_equal(file ? file : "unknown", expected);
}

static void files_of_units(void **state)
{
	struct made *made = *state;

	add_frames(made);
	expect_file(made, "m.ml");
	/* A function without calls. */
	put(made, FRAMES + 24, CODE_VA + 0x148, 8);
	put(made, FRAMES + 48, CODE_VA + 0x150, 8);
	expect_file(made, "m.ml");
	put(made, FRAMES + 24, CODE_VA + 0x110, 8);
	put(made, FRAMES + 48, CODE_VA + 0x118, 8);
	/* Each descriptor is read: here the third names another file. */
	put(made, FRAMES + 68, (uint64_t)(DEBUG + 32 - (FRAMES + 68)), 4);
	put(made, DEBUG + 32, (uint64_t)(NAMES + 32 - (DEBUG + 32)), 4);
	expect_file(made, "unknown");
	put(made, FRAMES + 68, 0, 4);
	put(made, FRAMES, 0, 8);
	expect_file(made, "unknown");
}

static void files_that_lie(void **state)
{
	struct made *made = *state;

	add_frames(made);
	put(made, FRAMES, UINT64_MAX, 8);
	expect_file(made, "unknown");
	put(made, FRAMES, 2, 8);
	expect_file(made, "m.ml");
	put(made, FRAMES + 18, 0xffff, 2); /* live slots to the end of the data */
	expect_file(made, "unknown");
	put(made, FRAMES + 18, 1, 2);
	for (uint64_t offset = 0x10; offset; offset <<= 4) {
		put(made, FRAMES + 44, (uint32_t)-offset, 4);
		read_well(made);
		put(made, FRAMES + 44, (uint32_t)offset * 0x11, 4);
		read_well(made);
	}
	put(made, FRAMES + 44, (uint64_t)(DEBUG - (FRAMES + 44)), 4);
	put(made, NAMES, 0x7fffffff, 4);
	expect_file(made, "unknown");
	put(made, NAMES, 0x80000000, 4);
	expect_file(made, "unknown");
	put(made, NAMES, FILE_NAME - NAMES, 4);
	/* Entries that never end. */
	for (uint64_t off = DEBUG; off < NAMES; off += 8)
		put(made, off, 1, 4);
	expect_file(made, "unknown");
	put(made, DEBUG + 8, (uint64_t)(NAMES - (DEBUG + 8)) | 2, 4);
	memcpy(made->bytes + 2 * PAGE + FILE_NAME, "\033[m", 4);
	expect_file(made, "?[m");
	/* The name runs to the end of the data. */
	memset(made->bytes + 2 * PAGE + FILE_NAME, 'x', PAGE - FILE_NAME);
	expect_file(made, "unknown");
}

/* ---- hostile files -------------------------------------------------------------------------- */

static void names_without_an_end(void **state)
{
	struct made *made = *state;
	char *endless;

	add(made, "camlM__f_1", 0x100, 0x20);
	add(made, "camlM__g_2", 0x120, 0x20);
	symbol(made, 2)->st_name = UINT32_MAX;
	read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	symbol(made, 2)->st_name = 1;
	endless = (char *)made->bytes + STRINGS + made->n_strings;
	memset(endless, 'x', 5000);
	symbol(made, 2)->st_name = (uint32_t)made->n_strings;
	section(made, STRING_TABLE)->sh_size = made->n_strings + 3000;
	read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	section(made, STRING_TABLE)->sh_size = made->n_strings + 5001;
	read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	section(made, STRING_TABLE)->sh_size = 0;
	expect_error(made, -ENODATA, "no function has a symbol");
}

static void control_characters_are_hidden(void **state)
{
	struct made *made = *state;

	add(made, "camlM__\033[2J\xff_1", 0x100, 0x20);
	add(made, "\033[2J", 0x120, 0x20);
	read_well(made);
	assert_string_equal(get(made, "camlM__?[2J?_1")->name, "M.(?[2J?)");
	assert_non_null(functions_find_c(made->functions, "?[2J"));
}

static void tables_that_lie(void **state)
{
	struct made *made = *state;
	Elf64_Shdr *table = section(made, TABLE);

	add(made, "camlM__f_1", 0x100, 0x20);
	table->sh_size = UINT64_C(1) << 30;
	expect_error(made, -EBADMSG, "reaches past the end of the file");
	table->sh_size = UINT64_MAX;
	expect_error(made, -EBADMSG, "symbol table claims");
	table->sh_size = 48;
	table->sh_offset = UINT64_MAX - 10;
	expect_error(made, -EBADMSG, "past the end of the file");
	table->sh_offset = SYMBOLS;
	section(made, STRING_TABLE)->sh_size = UINT64_C(1) << 30;
	expect_error(made, -EBADMSG, "past the end of the file");
	section(made, STRING_TABLE)->sh_size = made->n_strings;
	section(made, RELA)->sh_size = UINT64_MAX;
	expect_error(made, -EBADMSG, "past the end of the file");
}

/* Marks that contradict each other: nothing but the names is believed. */
static void marks_that_lie(void **state)
{
	struct made *made = *state;

	add_unit(made, "camlA", "__", 0x200, 0x100);
	add_unit(made, "camlA", "__", 0x300, 0x900);
	add_typed(made, "camlB__code_end", 0, 0, STT_NOTYPE);
	add_typed(made, "camlC__code_begin", UINT64_MAX, 0, STT_NOTYPE);
	add(made, "camlA__f_1", 0x180, 0x20);
	add(made, "camlC__f_1", 0x600, 0x20);
	add(made, "outside", 0xa00, 0x20);
	read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 2);
	assert_int_equal(get(made, "outside")->language, FUNCTION_C);
}

/* Whatever the bytes of the tables are: nothing is read outside of them (the sanitizers look on). */
static void noise(void **state)
{
	struct made *made = *state;
	unsigned int seed = 3;
	size_t n_read = 0, n;

	add_program(made, "__", names_4);
	add_frames(made);
	add_closures(made);
	set_pointers(made);
	for (size_t i = 0; i < N_POINTERS; i++)
		relocate(made, pointers[i].off, R_X86_64_64,
			 (uint32_t)index_of(made, pointers[i].symbol), 0);
	for (int round = 0; round < 400; round++) {
		if (round == 200)
			make_relocatable(made);
		for (int i = 0; i < 3; i++) {
			made->bytes[SYMBOLS + (size_t)rand_r(&seed) % (24 * made->n_symbols)] =
				(uint8_t)rand_r(&seed);
			made->bytes[STRINGS + (size_t)rand_r(&seed) % made->n_strings] =
				(uint8_t)rand_r(&seed);
			made->bytes[2 * PAGE + FRAMES + (size_t)rand_r(&seed) % (PAGE - FRAMES)] =
				(uint8_t)rand_r(&seed);
			made->bytes[RELOCATIONS +
				    (size_t)rand_r(&seed) % (24 * made->n_relocations)] =
				(uint8_t)rand_r(&seed);
		}
		if (read_made(made))
			continue;
		n_read++;
		for (size_t i = 0; i < functions_list(made->functions, &n)->bytes; i++)
			functions_at(made->functions, CODE_VA + i);
		functions_find(made->functions, "Service.find", &n);
	}
	assert_true(n_read > 100);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(programs_of_version_4),
		TEST(programs_of_version_5),
		TEST(stripped_programs),
		TEST(functions_far_from_their_unit),
		TEST(without_marks_symbols_decide),
		TEST(no_ocaml),
		TEST(no_symbols),
		TEST(several_with_one_name),
		TEST(names_that_need_their_prefix),
		TEST(names_that_match),
		TEST(where_functions_end),
		TEST(where_functions_begin),
		TEST(what_is_no_function),
		TEST(arity_in_words),
		TEST(arity_in_relocations),
		TEST(arity_in_named_relocations),
		TEST(closures_at_the_ends),
		TEST(files_of_units),
		TEST(files_that_lie),
		TEST(names_without_an_end),
		TEST(control_characters_are_hidden),
		TEST(tables_that_lie),
		TEST(marks_that_lie),
		TEST(noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
