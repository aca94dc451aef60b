// SPDX-License-Identifier: MIT
/*
 * The functions of executables of 4.x and 5.x that are made by hand: whose they are, names, places.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str_regexp.h"
#include "made_functions.h"

/* ---- whose they are ------------------------------------------------------------------------- */

static void expect_program(struct made *made, const char *const symbols[4])
{
	size_t n;

	assert_int_equal(functions_ocaml_count(made->functions), 4);
	assert_true(functions_have_runtime(made->functions));
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "made"), 0);
	assert_string_equal(made_function(made, symbols[0])->name, "Service.find");
	assert_string_equal(made_function(made, symbols[1])->name, "Service.fun_90");
	assert_string_equal(made_function(made, symbols[2])->name, "Service.entry");
	assert_string_equal(made_function(made, symbols[3])->name, "List.map");
	assert_string_equal(made_function(made, symbols[3])->full_name, "Stdlib.List.map");
	assert_int_equal(made_function(made, symbols[0])->stamp, 80);
	assert_true(made_function(made, symbols[1])->is_anonymous &&
		    !made_function(made, symbols[0])->is_anonymous);
	assert_true(made_function(made, symbols[2])->is_initialiser);
	assert_int_equal(made_function(made, symbols[0])->language, FUNCTION_OCAML);
	assert_int_equal(made_function(made, "caml_apply2")->language, FUNCTION_GLUE);
	assert_int_equal(made_function(made, "caml_call_gc")->language, FUNCTION_GLUE);
	assert_int_equal(made_function(made, "caml_alloc_shr")->language, FUNCTION_C);
	assert_int_equal(made_function(made, "camlService_stub")->language, FUNCTION_C);
	assert_int_equal(made_function(made, "camlNowhere__f_1")->language, FUNCTION_C);
	assert_ptr_equal(functions_find_c(made->functions, "caml_alloc_shr"),
			 made_function(made, "caml_alloc_shr"));
	assert_ptr_equal(functions_find_c(made->functions, "caml_apply2"),
			 made_function(made, "caml_apply2"));
	assert_null(functions_find_c(made->functions, symbols[0]));
	assert_null(functions_find_c(made->functions, "caml_alloc"));
	made_expect_found(made, "Service.find", symbols[0]);
	made_expect_found(made, "Service.find/80", symbols[0]);
	made_expect_found(made, "Service.find/81", "");
	made_expect_found(made, "Stdlib.List.map", symbols[3]);
	made_expect_found(made, "Stdlib__List.map", symbols[3]);
	made_expect_found(made, "List.map", symbols[3]);
	made_expect_found(made, "caml_alloc_shr", "");
	functions_list(made->functions, &n);
	assert_int_equal(n, 12);
}

EACH_TEST(made_set_up, made_tear_down);

TEST(programs_of_version_4)
{
	made_add_program(*state, "__", made_names_4);
	made_read_well(*state);
	expect_program(*state, made_names_4);
}

TEST(programs_of_version_5)
{
	static const char *const names[] = { "camlService.find_80", "camlService.fun_90",
					     "camlService.entry", "camlStdlib__List.map_236" };

	made_add_program(*state, ".", names);
	made_read_well(*state);
	expect_program(*state, names);
}

TEST(stripped_programs)
{
	made_add_program(*state, "__", made_names_4);
	made_strip(*state);
	made_read_well(*state);
	expect_program(*state, made_names_4);
}

/* With ocamlopt -function-sections, functions are not between the marks of their unit. */
TEST(functions_far_from_their_unit)
{
	struct made *made = *state;

	made_add_unit(made, "camlM", "__", 0x100, 0x100);
	made_add_unit(made, "camlM__", "__", 0x100, 0x100);
	made_add(made, "camlM__f_1", 0x800, 0x20);
	made_add(made, "camlM____g_1", 0x820, 0x20);
	made_read_well(made);
	assert_string_equal(made_function(made, "camlM__f_1")->name, "M.f");
	assert_string_equal(made_function(made, "camlM____g_1")->name, "M__.g");
}

TEST(without_marks_symbols_decide)
{
	struct made *made = *state;

	made_add(made, "camlStdlib__List__map_1", 0x100, 0x20);
	made_add(made, "caml_alloc", 0x120, 0x20);
	made_read_well(made);
	assert_string_equal(made_function(made, "camlStdlib__List__map_1")->name, "List.map");
	assert_int_equal(functions_ocaml_count(made->functions), 1);
	assert_int_equal(made_function(made, "caml_alloc")->language, FUNCTION_C);
}

TEST(no_ocaml)
{
	struct made *made = *state;

	made_add(made, "main", 0x100, 0x20);
	made_read_well(made);
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "X"), -ENODATA);
	assert_string_equal(ocp_error(made->ctx),
			    "X: not an OCaml program: it contains no OCaml runtime");
	made_add(made, "caml_main", 0x120, 0x20);
	made_read_well(made);
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "X"), -ENODATA);
	assert_string_equal(ocp_error(made->ctx),
			    "X: has OCaml's runtime, but no native OCaml code");
	made_add(made, "caml_startup_code", 0x140, 0x20);
	made_read_well(made);
	assert_int_equal(functions_require_ocaml(made->ctx, made->functions, "X"), -ENODATA);
	assert_string_equal(ocp_error(made->ctx), "X: runs OCaml bytecode, not native code");
}

TEST(no_symbols)
{
	struct made *made = *state;

	made_expect_error(made, -ENODATA,
			  "made: not an OCaml program, and no function has a symbol");
	made_add_symbol(made, "caml_data", DATA_VA, 8, STT_OBJECT);
	made_expect_error(made, -ENODATA,
			  "made: not an OCaml program, and no function has a symbol");
	made_section_at(made, TABLE)->sh_type = SHT_PROGBITS;
	made_expect_error(made, -ENODATA,
			  "made: not an OCaml program, and no function has a symbol");
}

/* ---- names ---------------------------------------------------------------------------------- */

TEST(several_with_one_name)
{
	struct made *made = *state;
	char text[FUNCTION_TEXT_BYTES];

	made_add(made, "camlM__f_20", 0x100, 0x20);
	made_add(made, "camlM__f_3", 0x120, 0x20);
	made_add(made, "camlM__g_4", 0x140, 0x20);
	made_add(made, "camlM__entry_9", 0x160, 0x20);
	made_add(made, "camlM__entry", 0x180, 0x20);
	made_read_well(made);
	made_expect_found(made, "M.f", "camlM__f_3 camlM__f_20");
	made_expect_found(made, "M.f/20", "camlM__f_20");
	made_expect_found(made, "M.f/3", "camlM__f_3");
	made_expect_found(made, "M.f/2", "");
	made_expect_found(made, "M.entry", "camlM__entry camlM__entry_9");
	made_expect_found(made, "M.entry/0", "camlM__entry");
	made_expect_found(made, "M", "");
	assert_string_equal(function_text(made_function(made, "camlM__f_3"), text), "M.f/3");
	assert_string_equal(function_text(made_function(made, "camlM__g_4"), text), "M.g");
	assert_string_equal(function_text(made_function(made, "camlM__entry"), text), "M.entry/0");
}

/* The program has a module of the name of one of Stdlib: it goes first. */
TEST(names_that_need_their_prefix)
{
	struct made *made = *state;

	made_add_unit(made, "camlStdlib__List", "__", 0x100, 0x200);
	made_add(made, "camlStdlib__List__map_1", 0x100, 0x20);
	made_add_unit(made, "camlDune__exe__List", "__", 0x200, 0x300);
	made_add(made, "camlDune__exe__List__map_1", 0x200, 0x20);
	made_add_unit(made, "camlDune__exe__Main", "__", 0x300, 0x400);
	made_add(made, "camlDune__exe__Main__f_1", 0x300, 0x20);
	made_add_unit(made, "camlMain", "__", 0x400, 0x500);
	made_add(made, "camlMain__f_1", 0x400, 0x20);
	made_read_well(made);
	assert_string_equal(made_function(made, "camlStdlib__List__map_1")->name,
			    "Stdlib.List.map");
	assert_string_equal(made_function(made, "camlDune__exe__List__map_1")->name, "List.map");
	assert_string_equal(made_function(made, "camlDune__exe__Main__f_1")->name,
			    "Dune__exe.Main.f");
	made_expect_found(made, "List.map", "camlDune__exe__List__map_1");
	made_expect_found(made, "Stdlib.List.map", "camlStdlib__List__map_1");
	made_expect_found(made, "Dune__exe__List.map", "camlDune__exe__List__map_1");
	made_expect_found(made, "Dune__exe__Main.f", "camlDune__exe__Main__f_1");
	made_expect_found(made, "Main.f", "camlMain__f_1");
	made_expect_found(made, "Stdlib.Main.f", "");
}

TEST(names_that_match)
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

	made_add(made, "camlStdlib__List__map_7", 0x100, 0x20);
	made_read_well(made);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct str_regexp *re;

		assert_int_equal(str_regexp_new(made->ctx, all[i].pattern, &re), 0);
		if (function_matches(made_function(made, "camlStdlib__List__map_7"), re) !=
		    all[i].matches)
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

TEST(where_functions_end)
{
	struct made *made = *state;

	made_add(made, "camlM__f_1", 0x100, 0x80); /* overlaps the next */
	made_add(made, "camlM__g_2", 0x140, 0);
	made_add(made, "camlM__h_3", 0x180, 0x20);
	made_add(made, "wide", 0x200, 0x100); /* C may contain entries of others */
	made_add(made, "inner", 0x240, 0x10);
	made_add(made, "alias", 0x240, 0x10);
	made_add(made, "camlM__last_4", 0xf00, UINT64_MAX);
	made_read_well(made);
	assert_int_equal(made_function(made, "camlM__f_1")->bytes, 0x40);
	assert_int_equal(made_function(made, "camlM__g_2")->bytes, 0x40);
	assert_int_equal(made_function(made, "camlM__h_3")->bytes, 0x20);
	assert_int_equal(made_function(made, "wide")->bytes, 0x100);
	assert_int_equal(made_function(made, "camlM__last_4")->bytes, 0x100);
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
TEST(where_functions_begin)
{
	struct made *made = *state;
	const uint64_t *entries;
	size_t n;

	made_add(made, "f", 0x200, 0x10);
	made_add(made, "alias", 0x200, 0x10);
	made_add(made, "f.cold", 0x300, 0x10);
	made_add(made, "f.part.0.cold.1", 0x310, 0x10);
	made_add(made, "f.isra.0", 0x320, 0x10);
	made_add(made, "camlM.cold_1", 0x100, 0x10);
	made_read_well(made);
	entries = functions_entries(made->functions, &n);
	assert_int_equal(n, 3);
	assert_int_equal(entries[0], CODE_VA + 0x100);
	assert_int_equal(entries[1], CODE_VA + 0x200);
	assert_int_equal(entries[2], CODE_VA + 0x320);
}

TEST(what_is_no_function)
{
	struct made *made = *state;
	size_t n;

	made_add(made, "camlM__f_1", 0x100, 0x20);
	made_add(made, "camlM__f_1", 0x100, 0x20); /* once */
	made_add_symbol(made, "camlM__data_2", DATA_VA, 8, STT_FUNC);
	made_add_symbol(made, "camlM__nowhere_3", 8, 8, STT_FUNC);
	made_add_symbol(made, "camlM__object_4", CODE_VA, 8, STT_OBJECT);
	made_add_symbol(made, "camlM__label_5", CODE_VA, 8, STT_NOTYPE);
	made_add(made, "camlM__undefined_6", 0x200, 8);
	made_symbol_at(made, made->n_symbols - 1)->st_shndx = SHN_UNDEF;
	made_add_symbol(made, "chosen", CODE_VA + 0x300, 8, STT_GNU_IFUNC);
	made_read_well(made);
	functions_list(made->functions, &n);
	assert_int_equal(n, 2);
	assert_true(made_function(made, "chosen")->is_chosen &&
		    !made_function(made, "camlM__f_1")->is_chosen);
}
