// SPDX-License-Identifier: MIT
/* Arities and source files of functions that are made by hand, and files that lie. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "made_functions.h"

/* ---- arity ---------------------------------------------------------------------------------- */

static void add_closures(struct made *made)
{
	made_add(made, "camlM__one_1", 0x100, 0x10);
	made_add(made, "camlM__three_2", 0x110, 0x10);
	made_add(made, "camlM__pair_3", 0x120, 0x10);
	made_add(made, "camlM__direct_4", 0x130, 0x10);
	made_add(made, "camlM__twice_5", 0x140, 0x10);
	made_add(made, "camlM__wrong_6", 0x150, 0x10);
	made_add(made, "camlM__other_7", 0x160, 0x10);
	made_add(made, "caml_curry3", 0x200, 0x10);
	made_add(made, "caml_tuplify2", 0x210, 0x10);
	made_add(made, "caml_curry3_1", 0x220, 0x10);
	made_add(made, "caml_curry300", 0x230, 0x10);
	made_add(made, "caml_curry3_RFL1", 0x240, 0x10);
	made_add(made, "caml_curryV_F", 0x250, 0x10);
	made_add(made, "camlM__local_8", 0x170, 0x10);
	made_add(made, "camlM__float_9", 0x180, 0x10);
	made_set_word(made, 0x108, made_info(1));
	made_set_word(made, 0x208, made_info(3));
	made_set_word(made, 0x308, made_info(-2));
	/* Two closures that contradict each other. */
	made_set_word(made, 0x408, made_info(1));
	made_set_word(made, 0x428, made_info(3));
	/* caml_curry3 with another arity, and what is no info word. */
	made_set_word(made, 0x508, made_info(2));
	made_set_word(made, 0x608, made_info(3));
	made_set_word(made, 0x708, 0x4142434445464748);
	/* Without caml_curry3 before it. */
	made_set_word(made, 0x728, made_info(3));
	/* The last function of a set of closures of OxCaml; one with a float argument. */
	made_set_word(made, 0x808, made_info(3) | UINT64_C(1) << 55);
	made_set_word(made, 0x908, made_info(2) | UINT64_C(1) << 55);
}

/* The pointers of these closures: where, and to what. */
static const struct {
	uint64_t off, to;
	const char *symbol;
} pointers[] = {
	{ 0x100, 0x100, "camlM__one_1" },     { 0x200, 0x200, "caml_curry3" },
	{ 0x210, 0x110, "camlM__three_2" },   { 0x300, 0x210, "caml_tuplify2" },
	{ 0x310, 0x120, "camlM__pair_3" },    { 0x400, 0x140, "camlM__twice_5" },
	{ 0x420, 0x200, "caml_curry3" },      { 0x430, 0x140, "camlM__twice_5" },
	{ 0x500, 0x200, "caml_curry3" },      { 0x510, 0x150, "camlM__wrong_6" },
	{ 0x600, 0x220, "caml_curry3_1" },    { 0x610, 0x150, "camlM__wrong_6" },
	{ 0x700, 0x160, "camlM__other_7" },   { 0x720, 0x160, "camlM__other_7" },
	{ 0x800, 0x240, "caml_curry3_RFL1" }, { 0x810, 0x170, "camlM__local_8" },
	{ 0x900, 0x250, "caml_curryV_F" },    { 0x910, 0x180, "camlM__float_9" },
};

enum { N_POINTERS = sizeof(pointers) / sizeof(pointers[0]) };

static void expect_arities(struct made *made)
{
	assert_int_equal(made_function(made, "camlM__one_1")->arity, 1);
	assert_int_equal(made_function(made, "camlM__three_2")->arity, 3);
	assert_int_equal(made_function(made, "camlM__pair_3")->arity, -2);
	assert_int_equal(made_function(made, "camlM__direct_4")->arity, ARITY_UNKNOWN);
	assert_int_equal(made_function(made, "camlM__twice_5")->arity, ARITY_UNKNOWN);
	assert_int_equal(made_function(made, "camlM__wrong_6")->arity, ARITY_UNKNOWN);
	assert_int_equal(made_function(made, "camlM__other_7")->arity, ARITY_UNKNOWN);
	assert_int_equal(made_function(made, "caml_curry3")->arity, ARITY_UNKNOWN);
	assert_int_equal(made_function(made, "camlM__local_8")->arity, 3);
	assert_int_equal(made_function(made, "camlM__float_9")->arity, ARITY_UNKNOWN);
}

static void set_pointers(struct made *made)
{
	for (size_t i = 0; i < N_POINTERS; i++)
		made_set_word(made, pointers[i].off, CODE_VA + pointers[i].to);
}

EACH_TEST(made_set_up, made_tear_down);

TEST(arity_in_words)
{
	struct made *made = *state;

	add_closures(made);
	set_pointers(made);
	made_read_well(made);
	expect_arities(made);
	/* Where words are relocated, those that are not are no pointers. */
	made_make_relocatable(made);
	made_read_well(made);
	assert_int_equal(made_function(made, "camlM__one_1")->arity, ARITY_UNKNOWN);
	/* But with compact relocations they are. */
	made_section_at(made, RELA)->sh_type = 19;
	made_read_well(made);
	expect_arities(made);
}

TEST(arity_in_relocations)
{
	struct made *made = *state;

	add_closures(made);
	made_make_relocatable(made);
	/* In any order. */
	for (size_t i = N_POINTERS; i-- > 0;)
		made_relocate(made, pointers[i].off, R_X86_64_RELATIVE, 0,
			      CODE_VA + pointers[i].to);
	made_read_well(made);
	expect_arities(made);
}

static size_t index_of(struct made *made, const char *name)
{
	for (size_t i = 1; i < made->n_symbols; i++)
		if (strcmp((char *)made->bytes + STRINGS + made_symbol_at(made, i)->st_name,
			   name) == 0)
			return i;
	fail_msg("no symbol %s", name);
	return 0;
}

/* Plugins name what their words point to; caml_curryN can be the program's. */
TEST(arity_in_named_relocations)
{
	struct made *made = *state;
	Elf64_Sym *curry;

	add_closures(made);
	made_make_relocatable(made);
	made_strip(made);
	for (size_t i = 0; i < N_POINTERS; i++)
		made_relocate(made, pointers[i].off, R_X86_64_64,
			      (uint32_t)index_of(made, pointers[i].symbol), 0);
	made_relocate(made, 0x800, R_X86_64_64, UINT32_MAX, 0);
	made_read_well(made);
	expect_arities(made);
	curry = made_symbol_at(made, index_of(made, "caml_curry3"));
	curry->st_shndx = SHN_UNDEF;
	curry->st_value = 0;
	made_read_well(made);
	assert_int_equal(made_function(made, "camlM__three_2")->arity, 3);
	assert_int_equal(made_function(made, "camlM__pair_3")->arity, -2);
}

/* Closures at the very ends of the data: no word outside of it is read. */
TEST(closures_at_the_ends)
{
	struct made *made = *state;

	made_add(made, "camlM__f_1", 0x100, 0x10);
	made_add(made, "camlM__g_1", 0x110, 0x10);
	made_set_word(made, 0, CODE_VA + 0x100);
	made_set_word(made, 8, made_info(1));
	made_set_word(made, PAGE - 8, CODE_VA + 0x110);
	made_read_well(made);
	assert_int_equal(made_function(made, "camlM__f_1")->arity, 1);
	assert_int_equal(made_function(made, "camlM__g_1")->arity, ARITY_UNKNOWN);
	made_make_relocatable(made);
	made_relocate(made, UINT64_MAX - DATA_VA - 3, R_X86_64_RELATIVE, 0, CODE_VA + 0x100);
	made_relocate(made, PAGE, R_X86_64_RELATIVE, 0, CODE_VA + 0x100);
	made_relocate(made, PAGE - 4, R_X86_64_RELATIVE, 0, CODE_VA + 0x100);
	made_read_well(made);
	assert_int_equal(made_function(made, "camlM__f_1")->arity, ARITY_UNKNOWN);
}

/* ---- source files ---------------------------------------------------------------------------- */

static void put(struct made *made, uint64_t off, uint64_t value, size_t bytes)
{
	memcpy(made->bytes + 2 * PAGE + off, &value, bytes);
}

enum { LIST = 0x7c0, FRAMES = 0x800, DEBUG = 0x900, NAMES = 0x980, FILE_NAME = 0x9c0 };

/*
 * A frame table of four descriptors: without debug information, with it, with four allocations, of
 * which one has it, and that of the bottom of a stack.
 */
static void add_frames(struct made *made)
{
	static const uint64_t frames[] = { 8, 24, 48, 88 };

	made_add_unit(made, "camlM", "__", 0x100, 0x200);
	made_add(made, "camlM__f_1", 0x100, 0x20);
	made_add_symbol(made, "camlM__frametable", DATA_VA + FRAMES, 0, STT_NOTYPE);
	made_add_symbol(made, "caml_frametable", DATA_VA + LIST, 0, STT_NOTYPE);
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

	made_read_well(made);
	file = unit_files_of(made->files, made_function(made, "camlM__f_1"));
	assert_string_equal(file ? file : "unknown", expected);
}

TEST(files_of_units)
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

TEST(files_that_lie)
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
		made_read_well(made);
		put(made, FRAMES + 44, (uint32_t)offset * 0x11, 4);
		made_read_well(made);
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

TEST(names_without_an_end)
{
	struct made *made = *state;
	char *endless;

	made_add(made, "camlM__f_1", 0x100, 0x20);
	made_add(made, "camlM__g_2", 0x120, 0x20);
	made_symbol_at(made, 2)->st_name = UINT32_MAX;
	made_read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	made_symbol_at(made, 2)->st_name = 1;
	endless = (char *)made->bytes + STRINGS + made->n_strings;
	memset(endless, 'x', 5000);
	made_symbol_at(made, 2)->st_name = (uint32_t)made->n_strings;
	made_section_at(made, STRING_TABLE)->sh_size = made->n_strings + 3000;
	made_read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	made_section_at(made, STRING_TABLE)->sh_size = made->n_strings + 5001;
	made_read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	made_section_at(made, STRING_TABLE)->sh_size = 0;
	made_expect_error(made, -ENODATA, "no function has a symbol");
}

TEST(control_characters_are_hidden)
{
	struct made *made = *state;

	made_add(made, "camlM__\033[2J\xff_1", 0x100, 0x20);
	made_add(made, "\033[2J", 0x120, 0x20);
	made_read_well(made);
	assert_string_equal(made_function(made, "camlM__?[2J?_1")->name, "M.(?[2J?)");
	assert_non_null(functions_find_c(made->functions, "?[2J"));
}

TEST(tables_that_lie)
{
	struct made *made = *state;
	Elf64_Shdr *table = made_section_at(made, TABLE);

	made_add(made, "camlM__f_1", 0x100, 0x20);
	table->sh_size = UINT64_C(1) << 30;
	made_expect_error(made, -EBADMSG, "reaches past the end of the file");
	table->sh_size = UINT64_MAX;
	made_expect_error(made, -EBADMSG, "symbol table claims");
	table->sh_size = 48;
	table->sh_offset = UINT64_MAX - 10;
	made_expect_error(made, -EBADMSG, "past the end of the file");
	table->sh_offset = SYMBOLS;
	made_section_at(made, STRING_TABLE)->sh_size = UINT64_C(1) << 30;
	made_expect_error(made, -EBADMSG, "past the end of the file");
	made_section_at(made, STRING_TABLE)->sh_size = made->n_strings;
	made_section_at(made, RELA)->sh_size = UINT64_MAX;
	made_expect_error(made, -EBADMSG, "past the end of the file");
}

/* Marks that contradict each other: nothing but the names is believed. */
TEST(marks_that_lie)
{
	struct made *made = *state;

	made_add_unit(made, "camlA", "__", 0x200, 0x100);
	made_add_unit(made, "camlA", "__", 0x300, 0x900);
	made_add_symbol(made, "camlB__code_end", 0, 0, STT_NOTYPE);
	made_add_symbol(made, "camlC__code_begin", UINT64_MAX, 0, STT_NOTYPE);
	made_add(made, "camlA__f_1", 0x180, 0x20);
	made_add(made, "camlC__f_1", 0x600, 0x20);
	made_add(made, "outside", 0xa00, 0x20);
	made_read_well(made);
	assert_int_equal(functions_ocaml_count(made->functions), 2);
	assert_int_equal(made_function(made, "outside")->language, FUNCTION_C);
}

/*
 * Whatever the bytes of the tables are: nothing is read outside of them (the sanitizers look on).
 */
TEST(noise)
{
	struct made *made = *state;
	unsigned int seed = 3;
	size_t n_read = 0, n;

	made_add_program(made, "__", made_names_4);
	add_frames(made);
	add_closures(made);
	set_pointers(made);
	for (size_t i = 0; i < N_POINTERS; i++)
		made_relocate(made, pointers[i].off, R_X86_64_64,
			      (uint32_t)index_of(made, pointers[i].symbol), 0);
	for (int round = 0; round < 400; round++) {
		if (round == 200)
			made_make_relocatable(made);
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
		if (made_read(made))
			continue;
		n_read++;
		for (size_t i = 0; i < functions_list(made->functions, &n)->bytes; i++)
			functions_at(made->functions, CODE_VA + i);
		functions_find(made->functions, "Service.find", &n);
	}
	assert_true(n_read > 100);
}
