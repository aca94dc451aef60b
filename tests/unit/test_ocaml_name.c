// SPDX-License-Identifier: MIT
/* Names of OCaml functions: symbols of the compilers, symbols that lie, and what people type. */
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"
#include "code/ocaml_name.h"
#include "ocaml_probes.h"
#include "unit.h"

struct example {
	const char *symbol, *unit, *text; /* the text is NULL if it is no function's symbol */
	uint32_t stamp;
	enum ocaml_name_kind kind;
	const char *name; /* what people write, if it is not the text */
};

static void check(const struct example *example)
{
	struct ocaml_name name;
	const bool is_function = ocaml_name_decode(example->symbol, example->unit, &name);

	if (is_function != (example->text != NULL))
		fail_msg("%s: %s", example->symbol, is_function ? name.text : "no function");
	if (!is_function)
		return;
	assert_string_equal(name.text, example->text);
	assert_string_equal(name.text + name.short_at,
			    example->name ? example->name : example->text);
	assert_int_equal(name.stamp, example->stamp);
	assert_int_equal(name.kind, example->kind);
	assert_true(name.text[name.path_bytes] == '.' && name.short_at < name.path_bytes);
}

#define NAMED(symbol, unit, text, stamp)                                                           \
	{                                                                                          \
		symbol, unit, text, stamp, OCAML_NAMED, NULL                                       \
	}
#define OMITTED(symbol, unit, text, stamp, name)                                                   \
	{                                                                                          \
		symbol, unit, text, stamp, OCAML_NAMED, name                                       \
	}
#define KIND(symbol, unit, text, stamp, kind)                                                      \
	{                                                                                          \
		symbol, unit, text, stamp, kind, NULL                                              \
	}
#define NONE(symbol, unit)                                                                         \
	{                                                                                          \
		symbol, unit, NULL, 0, OCAML_NAMED, NULL                                           \
	}

#define CHECK_ALL(...)                                                                             \
	do {                                                                                       \
		const struct example all[] = { __VA_ARGS__ };                                      \
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)                          \
			check(&all[i]);                                                            \
	} while (0)

/* As ocamlopt 4.13 wrote them. */
TEST(symbols_of_version_4)
{
	CHECK_ALL(NAMED("camlService__find_531", NULL, "Service.find", 531),
		  OMITTED("camlDune__exe__Service__find_531", NULL, "Dune__exe.Service.find", 531,
			  "Service.find"),
		  OMITTED("camlStdlib__List__map_236", NULL, "Stdlib.List.map", 236, "List.map"),
		  NAMED("camlMylib__Sub__Service__find_1", NULL, "Mylib.Sub.Service.find", 1),
		  NAMED("camlStdlib__failwith_7", NULL, "Stdlib.failwith", 7),
		  NAMED("camlStdlib__$40_197", NULL, "Stdlib.(@)", 197),
		  OMITTED("camlStdlib__Bytes__$2b$2b_127", NULL, "Stdlib.Bytes.(++)", 127,
			  "Bytes.(++)"),
		  NAMED("camlDiffing__let$2a$21_104", NULL, "Diffing.(let*!)", 104),
		  NAMED("camlCompilenv__symbol_for_global$27_1787", NULL,
			"Compilenv.symbol_for_global'", 1787),
		  KIND("camlService__fun_1257", NULL, "Service.fun_1257", 1257, OCAML_ANONYMOUS),
		  KIND("camlService__entry", NULL, "Service.entry", 0, OCAML_INITIALISER),
		  NAMED("camlService__entry_12", NULL, "Service.entry", 12),
		  OMITTED("camlStdlib__Hashtbl__MakeSeeded_866", NULL, "Stdlib.Hashtbl.MakeSeeded",
			  866, "Hashtbl.MakeSeeded"),
		  NAMED("camlStdlib__Make_866", NULL, "Stdlib.Make", 866),
		  NAMED("camlService__x_1_57", NULL, "Service.x_1", 57),
		  NAMED("camlTypecore__type_expect__3612", NULL, "Typecore.type_expect_", 3612));
}

/* In 4.x "__" also is a part of identifiers. */
TEST(two_underscores)
{
	CHECK_ALL(NAMED("camlM__foo__bar_12", NULL, "M.foo__bar", 12),
		  NAMED("camlM___f_1", NULL, "M._f", 1), NAMED("camlM____f_1", NULL, "M.__f", 1),
		  NAMED("camlMylib____f_1", "camlMylib__", "Mylib__.f", 1),
		  NAMED("camlA__B__f_1", NULL, "A.B.f", 1),
		  NAMED("camlA__B__f_1", "camlA", "A.B__f", 1),
		  NAMED("camlA__B__f_1", "camlA__B", "A.B.f", 1),
		  NAMED("camlA__b__C__f_1", NULL, "A.b__C__f", 1),
		  NAMED("camlA__b__C__f_1", "camlA__b__C", "A__b.C.f", 1),
		  KIND("camlDune__exe__entry", "camlDune__exe", "Dune__exe.entry", 0,
		       OCAML_INITIALISER),
		  NAMED("camlDune__exe__f_1", NULL, "Dune.exe__f", 1),
		  NAMED("camlDune_rules__dir__load_1", NULL, "Dune_rules.dir__load", 1),
		  NAMED("camlDune_rules__dir__load_1", "camlDune_rules__dir",
			"Dune_rules__dir.load", 1),
		  KIND("camlDune_rules__dir__entry", NULL, "Dune_rules__dir.entry", 0,
		       OCAML_INITIALISER));
}

/* As ocamlopt 5.1 to 5.3 writes them, with and without Flambda. */
TEST(symbols_of_version_5)
{
	CHECK_ALL(NAMED("camlService.find_531", NULL, "Service.find", 531),
		  OMITTED("camlDune__exe__Service.find_531", NULL, "Dune__exe.Service.find", 531,
			  "Service.find"),
		  OMITTED("camlStdlib__List.map_236", "camlStdlib__List", "Stdlib.List.map", 236,
			  "List.map"),
		  NAMED("camlStdlib.$40_197", NULL, "Stdlib.(@)", 197),
		  NAMED("camlM.foo__Bar__baz_3", NULL, "M.foo__Bar__baz", 3),
		  NAMED("camlM..$25$28$29_12", NULL, "M.(.%())", 12),
		  KIND("camlService.fun_1257", NULL, "Service.fun_1257", 1257, OCAML_ANONYMOUS),
		  KIND("camlService.entry", NULL, "Service.entry", 0, OCAML_INITIALISER),
		  NAMED("camlMylib__.f_1", NULL, "Mylib__.f", 1),
		  NAMED("camlM.$c3$a9t$c3$a9_4", NULL, "M.\xc3\xa9t\xc3\xa9", 4));
}

TEST(symbols_of_flambda)
{
	CHECK_ALL(KIND("camlM__anon_fn$5bm$2eml$3a12$2c3$2d$2d10$5d_77", NULL, "M.fun_77", 77,
		       OCAML_ANONYMOUS),
		  NAMED("camlM__anon_fn_77", NULL, "M.anon_fn", 77),
		  KIND("camlM__fn$5bm.ml$3a12$2c3$2d$2d10$5d_2_3_code", NULL, "M.fun_3", 3,
		       OCAML_ANONYMOUS),
		  NAMED("camlM__add_0_1_code", NULL, "M.add", 1),
		  NAMED("camlM__my_code", NULL, "M.my_code", 0),
		  NAMED("camlM__my_code_5", NULL, "M.my_code", 5));
}

/* As OxCaml writes flat names: the separator is that of 4.x, and dots are not escaped. */
TEST(flat_symbols_of_oxcaml)
{
	CHECK_ALL(NAMED("camlService__find_2_531_code", NULL, "Service.find", 531),
		  NAMED("camlIndexing__.$25$28$29_2_14_code", NULL, "Indexing.(.%())", 14),
		  NAMED("camlMylib__Index__.$25$5b$5d$3c$2d_2_14_code", NULL,
			"Mylib.Index.(.%[]<-)", 14),
		  NAMED("camlM__.$25$28$29_12", "camlM", "M.(.%())", 12),
		  NAMED("camlMylib__.$25$25_1", NULL, "Mylib__.(%%)", 1),
		  KIND("camlService__entry", NULL, "Service.entry", 0, OCAML_INITIALISER));
}

/* The examples in the description and in the tests of OxCaml, and such names. */
TEST(structured_symbols)
{
	CHECK_ALL(NAMED("_CamlU3FooM3BarF3baz", NULL, "Foo.Bar.baz", 0),
		  NAMED("_CamlU3FooM3BarF3bazD0_D3_", NULL, "Foo.Bar.baz", 3),
		  NAMED("_CamlU3FooM3BarF3bazD3_", NULL, "Foo.Bar.baz", 3),
		  NAMED("_CamlU3FooM3BarF3bazD0_D3_", "camlFoo", "Foo.Bar.baz", 3),
		  NAMED("_CamlU6StdlibF3map", NULL, "Stdlib.map", 0),
		  OMITTED("_CamlU12Stdlib__ListF3mapD15_D113_", NULL, "Stdlib.List.map", 113,
			  "List.map"),
		  OMITTED("_CamlU18Dune__exe__ServiceM5CacheF4findD1_D2_", NULL,
			  "Dune__exe.Service.Cache.find", 2, "Service.Cache.find"),
		  NAMED("_CamlU6StdlibM4ListF3mapD1_D2_", NULL, "Stdlib.List.map", 2),
		  NAMED("_CamlU3FooO5MyObj", NULL, "Foo.MyObj", 0),
		  NAMED("_CamlU3FooM3BarO5ShapeF4area", NULL, "Foo.Bar.Shape.area", 0),
		  NAMED("_CamlU3FooFu8A3e3e3d_", NULL, "Foo.(>>=)", 0),
		  NAMED("_CamlU3FooFu7D2a_letD1_D2_", NULL, "Foo.(let*)", 2),
		  NAMED("_CamlU3FooFu14E27D27_funcsub", NULL, "Foo.func'sub'", 0),
		  NAMED("_CamlU3FooFu7D2a_letF2goD1_D2_", NULL, "Foo.(let*).go", 2),
		  NAMED("_CamlU3FooFu5_0foo", NULL, "Foo.0foo", 0),
		  NAMED("_CamlU3FooM8IndexingFu14A2e2528293c2d_D4_D5_", NULL,
			"Foo.Indexing.(.%()<-)", 5),
		  NAMED("_CamlU3FooFu11Ac3a9_toile", NULL, "Foo.\xc3\xa9toile", 0),
		  NAMED("_CamlU3FooFu33BAc3a9_abcdefghijklmnopqrstuvwxyz", NULL,
			"Foo.abcdefghijklmnopqrstuvwxyz\xc3\xa9", 0),
		  KIND("_CamlU3FooF3barL0_D1_D7_", NULL, "Foo.bar.fun_7", 7, OCAML_ANONYMOUS),
		  KIND("_CamlU3FooF3barL0_L12_D7_", NULL, "Foo.bar.fun_7", 7, OCAML_ANONYMOUS),
		  KIND("_CamlU3FooF3barZ0_D1_D7_", NULL, "Foo.bar.fun_7", 7, OCAML_ANONYMOUS),
		  KIND("_CamlU3FooL0_", NULL, "Foo.fun_0", 0, OCAML_ANONYMOUS),
		  NAMED("_CamlU3FooM3BarL2_F3bazD1_D2_", NULL, "Foo.Bar.baz", 2),
		  NAMED("_CamlU3FooS0_F4initD5_D6_", NULL, "Foo.init", 6),
		  KIND("_CamlU3FooF3barP2_M5InnerF3addD1_D2_", NULL, "Foo.bar.fun_2", 2,
		       OCAML_ANONYMOUS),
		  KIND("_CamlU3FooF3barP0_D1_D2_", NULL, "Foo.bar.fun_2", 2, OCAML_ANONYMOUS),
		  KIND("_CamlU3FooF3barP3_P2_F1aF1bM1MF1cD1_D2_", NULL, "Foo.bar.fun_2", 2,
		       OCAML_ANONYMOUS),
		  NAMED("_CamlU3FooF3barP2_U3LibF1fF1gD1_D2_", NULL, "Foo.bar.g", 2),
		  NAMED("_CamlU3FooIU3BarF3quxD1_D8_", NULL, "Foo.(specialization_of).Bar.qux", 8),
		  NAMED("_CamlU3FooM3BarIU10Mylib__BazF3qux", NULL,
			"Foo.Bar.(specialization_of).Mylib.Baz.qux", 0));
}

/* The earlier form: places instead of numbers, and stamps that are not items. */
TEST(early_structured_symbols)
{
	CHECK_ALL(
		NAMED("_CamlU4MainF11say_hello_0_5_code", NULL, "Main.say_hello", 5),
		NAMED("_CamlU4MainM4TestF5foo_1_6_code", NULL, "Main.Test.foo", 6),
		OMITTED("_CamlU12Stdlib__ListF6map_15_113_code", NULL, "Stdlib.List.map", 113,
			"List.map"),
		NONE("_CamlU3FooFu10A3e3e3d__12_13_code", NULL),
		NAMED("_CamlU3FooFu11A3e3e3d__12_13_code", NULL, "Foo.(>>=)", 13),
		KIND("_CamlU4MainSu15E2e_testml_5_15_300", NULL, "Main.fun_300", 300,
		     OCAML_ANONYMOUS),
		NAMED("_CamlU4MainF4mainLu15E2e_mainml_7_32F4fn_4_9_code", NULL, "Main.main.fn", 9),
		KIND("_CamlU3FooLu14D2e_fooml_32_2_33_code", NULL, "Foo.fun_33", 33,
		     OCAML_ANONYMOUS),
		KIND("_CamlU6StdlibLu18G2e_stdlibml_334_0", NULL, "Stdlib.fun_0", 0,
		     OCAML_ANONYMOUS),
		KIND("_CamlU3FooS5_42_7", NULL, "Foo.fun_0", 0, OCAML_ANONYMOUS),
		KIND("_CamlU3FooF3barPu14D2e_fooml_9_15", NULL, "Foo.bar.fun_0", 0,
		     OCAML_ANONYMOUS),
		NAMED("_CamlU3FooSu14D2e_fooml_2_10F4initF4fn_5_6_code", NULL, "Foo.init.fn", 6),
		NAMED("_CamlU3FooF5f_1_2", NULL, "Foo.f_1_2", 0));
}

/* Damaged structured names, those that nobody describes, and those that lie about lengths. */
TEST(hostile_structured_symbols)
{
	CHECK_ALL(NONE("_Caml", NULL), NONE("_CamlU", NULL), NONE("_CamlU3Foo", NULL),
		  NONE("_CamlU3FooD1_", NULL), NONE("_CamlU3Foo_5_code", NULL),
		  NONE("_CamlF3foo", NULL), NONE("_CamlM3FooF3bar", NULL),
		  NONE("_CamlU3fooF3bar", NULL), NONE("_CamlU3F.oF3bar", NULL),
		  NONE("_CamlU3FooF3barU3Lib", NULL), NONE("_CamlU3FooU3BarF1f", NULL),
		  NONE("_CamlU3FooIF1f", NULL), NONE("_CamlU3FooI", NULL),
		  NONE("_CamlU3FooIU3Bar", NULL), NONE("_CamlU3FooXXX", NULL),
		  NONE("_CamlUFoo", NULL), NONE("_CamlU0F1f", NULL), NONE("_CamlU3FooF0", NULL),
		  NONE("_CamlU3FooF01f", NULL), NONE("__CamlU3FooF3bar", NULL),
		  NONE("_camlU3FooF3bar", NULL), NONE("_CamlU3FooF3barL0", NULL),
		  NONE("_CamlU3FooF3barL00_", NULL), NONE("_CamlU3FooF3barL0_x", NULL),
		  NONE("_CamlU3FooF3barD0_D5", NULL), NONE("_CamlU3FooF3barD0_D5_x", NULL),
		  NONE("_CamlU3FooF3barD0_F1f", NULL), NONE("_CamlU3FooF3bar_", NULL),
		  NONE("_CamlU3FooF3bar_code", NULL), NONE("_CamlU3FooF3bar_5_cod", NULL),
		  NONE("_CamlU3FooF3bar_5_code_", NULL), NONE("_CamlU3FooF3barx", NULL),
		  NONE("_CamlU3FooLu6E2e_ab", NULL), NONE("_CamlU3FooL7foo_1_x", NULL),
		  NONE("_CamlU3FooL4_1_", NULL), NONE("_CamlU3FooF3barP3_F1f", NULL),
		  NONE("_CamlU3FooF3barP1_P1_P1_", NULL));
	/* lengths */
	CHECK_ALL(NONE("_CamlU99Foo", NULL), NONE("_CamlU3FooF4bar", NULL),
		  NONE("_CamlU3FooF4294967299bar", NULL),
		  NONE("_CamlU3FooF18446744073709551619bar", NULL),
		  NONE("_CamlU18446744073709551619FooF3bar", NULL),
		  NONE("_CamlU3FooFu99A3e_", NULL), NONE("_CamlU3FooFu", NULL),
		  NONE("_CamlU3FooF3barD4294967296_", NULL),
		  NONE("_CamlU3FooF3barP18446744073709551615_", NULL),
		  NAMED("_CamlU3FooF3barD4294967295_", NULL, "Foo.bar", UINT32_MAX));
	/* runs of other characters */
	CHECK_ALL(NONE("_CamlU3FooFu6G1234_funcsub", NULL), NONE("_CamlU3FooFu11G2g_funcsub", NULL),
		  NONE("_CamlU3FooFu11G2A_funcsub", NULL), NONE("_CamlU3FooFu6Z2a_let", NULL),
		  NONE("_CamlU3FooFu31ZZZZZZZZZZZZZZZZZZZZZZZZZ2a_l", NULL),
		  NONE("_CamlU3FooFu5D_let", NULL), NONE("_CamlU3FooFu6D2_let", NULL),
		  NONE("_CamlU3FooFu6D2alet", NULL), NONE("_CamlU3FooFu62a_let", NULL),
		  NONE("_CamlU3FooFu7D61_let", NULL), NONE("_CamlU3FooFu1_", NULL));
	/* what a terminal would obey, and what is not UTF-8 */
	CHECK_ALL(NONE("_CamlU3FooFu7D00_let", NULL), NONE("_CamlU3FooFu7D1b_let", NULL),
		  NONE("_CamlU3FooFu7D20_let", NULL), NONE("_CamlU3FooFu7D7f_let", NULL),
		  NONE("_CamlU3FooFu7Dff_let", NULL), NONE("_CamlU3FooFu7Dc3_let", NULL),
		  NONE("_CamlU3FooFu9Dc29b_let", NULL), NONE("_CamlU3FooFu11De280ae_let", NULL),
		  NONE("_CamlU3FooF3b\033r", NULL), NONE("_CamlU3FooF3b\xc3\xa9", NULL),
		  NONE("_CamlU3FooF3b-r", NULL), NONE("_CamlU3FooF3b r", NULL));
}

TEST(long_structured_symbols)
{
	char symbol[8000];
	struct ocaml_name name;

	/* "Foo." and up to 1019 letters */
	for (int bytes = 1010; bytes < 1030; bytes++) {
		char letters[1100];

		memset(letters, 'x', sizeof(letters));
		snprintf(symbol, sizeof(symbol), "_CamlU3FooF%d%.*s", bytes, bytes, letters);
		assert_int_equal(ocaml_name_decode(symbol, NULL, &name), bytes <= 1019);
	}
	/* many items, and partial applications in each other */
	strcpy(symbol, "_CamlU3Foo");
	for (int i = 0; i < 1000; i++)
		strcat(symbol, "M1M");
	assert_false(ocaml_name_decode(symbol, NULL, &name));
	strcpy(symbol, "_CamlU3Foo");
	for (int i = 0; i < 2000; i++)
		strcat(symbol, "P1_");
	strcat(symbol, "F1f");
	assert_true(ocaml_name_decode(symbol, NULL, &name));
	assert_string_equal(name.text, "Foo.fun_0");
}

TEST(units_of_structured_symbols)
{
	char unit[OCAML_NAME_BYTES];

	assert_true(ocaml_name_unit("_CamlU3FooM3BarF3baz", unit));
	assert_string_equal(unit, "camlFoo");
	assert_true(ocaml_name_unit("_CamlU12Stdlib__ListF3mapD15_D113_", unit));
	assert_string_equal(unit, "camlStdlib__List");
	assert_true(ocaml_name_unit("_CamlUu11Ac389_toileF1f", unit));
	assert_string_equal(unit, "caml$c3$89toile");
	assert_true(ocaml_name_unit("_CamlU3FooIU3BarF3qux", unit));
	assert_string_equal(unit, "camlFoo");
	assert_false(ocaml_name_unit("camlFoo__bar_1", unit));
	assert_false(ocaml_name_unit("_CamlU9Foo", unit));
}

TEST(other_symbols)
{
	CHECK_ALL(NONE("main", NULL), NONE("", NULL), NONE("caml", NULL),
		  NONE("caml_alloc_shr", NULL), NONE("camlidl_x__f_1", NULL),
		  NONE("camlService", NULL), NONE("camlService__", NULL),
		  NONE("camlService.", NULL), NONE("camlService__code_begin", NULL),
		  NONE("camlService__code_end", NULL), NONE("camlService.code_begin", NULL),
		  NONE("camlService__data_begin", NULL), NONE("camlService__frametable", NULL),
		  NONE("camlService__gc_roots", NULL),
		  NONE("camlDune_rules__dir__code_begin", NULL), NONE("camlB__f_1", "camlA"),
		  NONE("camlAB__f_1", "camlA"), NONE("xcamlA__f_1", NULL));
}

/* What no compiler writes stays as it is, and nothing reaches a terminal. */
TEST(hostile_symbols)
{
	char symbol[3000];
	struct ocaml_name name;

	CHECK_ALL(NAMED("camlM__$1b$5b2J_1", NULL, "M.($1b[2J)", 1),
		  NAMED("camlM__$00_1", NULL, "M.($00)", 1), NAMED("camlM__$", NULL, "M.($)", 0),
		  NAMED("camlM__$4", NULL, "M.($4)", 0), NAMED("camlM__$zz_1", NULL, "M.($zz)", 1),
		  NAMED("camlM__$ff$fe_1", NULL, "M.($ff$fe)", 1),
		  NAMED("camlM__$c3_1", NULL, "M.($c3)", 1),
		  NAMED("camlM__$c3x$a9_1", NULL, "M.($c3x$a9)", 1),
		  NAMED("camlM__$c2$9b31m_1", NULL, "M.($c2$9b31m)", 1),
		  NAMED("camlM__$e2$80$ae_1", NULL, "M.($e2$80$ae)", 1),
		  NAMED("camlM__$ed$a0$80_1", NULL, "M.($ed$a0$80)", 1),
		  NAMED("camlM__$c0$80_1", NULL, "M.($c0$80)", 1),
		  NAMED("camlM__a\033b_1", NULL, "M.(a?b)", 1),
		  NAMED("camlM__f_99999999999", NULL, "M.f_99999999999", 0),
		  NAMED("camlM__f_4294967296", NULL, "M.f_4294967296", 0),
		  NAMED("camlM__f_4294967295", NULL, "M.f", UINT32_MAX),
		  NAMED("camlM___1", NULL, "M._1", 0), NAMED("camlM__1", NULL, "M.1", 0),
		  NAMED("camlM__code", NULL, "M.code", 0),
		  NAMED("camlM___code", NULL, "M._code", 0));
	memset(symbol, 'x', sizeof(symbol));
	memcpy(symbol, "camlM__", 7);
	for (size_t bytes = 1000; bytes < 1060; bytes++) {
		symbol[bytes] = '\0';
		/* "M." in the place of "camlM__" */
		assert_int_equal(ocaml_name_decode(symbol, NULL, &name),
				 bytes - 5 < OCAML_NAME_BYTES);
		symbol[bytes] = 'x';
	}
}

/* Any bytes that are a C string. */
TEST(noise)
{
	static const char letters[] = "__..$$0123456789abcdefMX_\x1b\xff";
	unsigned int seed = 1;
	struct ocaml_name name;
	size_t n_functions = 0;

	for (int round = 0; round < 20000; round++) {
		char symbol[40] = "camlM";
		size_t bytes = 5 + (size_t)rand_r(&seed) % 34;

		for (size_t i = 5; i < bytes; i++)
			symbol[i] = letters[(size_t)rand_r(&seed) % (sizeof(letters) - 1)];
		if (!ocaml_name_decode(symbol, NULL, &name))
			continue;
		n_functions++;
		assert_true(strlen(name.text) < OCAML_NAME_BYTES);
		for (const char *at = name.text; *at; at++)
			assert_int_equal(unsafe_bytes(at), 0);
	}
	assert_true(n_functions > 1000);
}

/* The bytes of a structured name, in any order. */
TEST(structured_noise)
{
	static const char *const pieces[] = { "U3Foo", "M1M",	 "F1f",	    "Fu8A3e3e3d_", "L0_",
					      "P2_",   "D12_",	 "_5_code", "IU1B",	   "Lu",
					      "u5",    "7x_1_2", "O1c",	    "99",	   "A1b_",
					      "_",     "c3",	 "Z",	    "S5_42_7",	   "\x1b" };
	unsigned int seed = 1;
	struct ocaml_name name;
	size_t n_functions = 0;

	for (int round = 0; round < 100000; round++) {
		char symbol[200] = "_CamlU3Foo";

		for (int n = rand_r(&seed) % 8; n >= 0; n--)
			strcat(symbol, pieces[(size_t)rand_r(&seed) %
					      (sizeof(pieces) / sizeof(pieces[0]))]);
		if (!ocaml_name_decode(symbol, NULL, &name))
			continue;
		n_functions++;
		assert_int_equal(strncmp(name.text, "Foo.", 4), 0);
		assert_int_equal(name.path_bytes, 3);
		for (const char *at = name.text; *at; at++)
			assert_int_equal(unsafe_bytes(at), 0);
	}
	assert_true(n_functions > 1000);
}

/* ---- the public interface ---- */

TEST(names_for_users_of_the_library)
{
	static const struct {
		const char *symbol, *name;
	} all[] = {
		{ "camlService__find_531", "Service.find" },
		{ "camlMylib__Service.find_531", "Mylib.Service.find" },
		{ "camlStdlib__$40_197", "Stdlib.(@)" },
		{ "camlStdlib__List__map_94", "List.map" },
		{ "camlDune__exe__Service.find_531", "Service.find" },
		{ "camlService__fun_1257", "Service.fun_1257" },
		{ "camlService__entry", "Service.entry" },
		{ "_CamlU3FooM3BarF3bazD1_D6_", "Foo.Bar.baz" },
		{ "_CamlU3FooF3barL0_D1_D7_", "Foo.bar.fun_7" },
		{ "_CamlU3FooIU3BarF3quxD1_D8_", "Foo.(specialization_of).Bar.qux" },
		{ "camlM__$1b$5b2J_1", "M.($1b[2J)" },
		{ "camlService__frametable", "" },
		{ "caml_alloc_shr", "" },
		{ "_ZN4testE", "" },
		{ "main", "" },
		{ "", "" },
	};
	char name[100];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_equal(ocp_demangle(all[i].symbol, name, sizeof(name)),
				 strlen(all[i].name));
		assert_string_equal(name, all[i].name);
	}
}

TEST(names_for_small_buffers)
{
	static const char symbol[] = "camlService__find_531", wide[] = "camlM.$c3$a9$e2$82$ac_4";
	char name[16];

	assert_int_equal(ocp_demangle(symbol, NULL, 0), 12);
	assert_int_equal(ocp_demangle("main", NULL, 0), 0);
	for (size_t bytes = 1; bytes <= sizeof(name); bytes++) {
		memset(name, '#', sizeof(name));
		assert_int_equal(ocp_demangle(symbol, name, bytes), 12);
		assert_int_equal(strlen(name), bytes < 13 ? bytes - 1 : 12);
		assert_memory_equal(name, "Service.find", strlen(name));
		for (size_t i = strlen(name) + 1; i < sizeof(name); i++)
			assert_int_equal(name[i], '#');
	}
	/* no part of a character: M . 2 bytes, 3 bytes */
	for (size_t bytes = 1; bytes <= 8; bytes++) {
		static const size_t whole[] = { 0, 1, 2, 2, 4, 4, 4, 7 };

		assert_int_equal(ocp_demangle(wide, name, bytes), 7);
		assert_int_equal(strlen(name), whole[bytes - 1]);
	}
}

TEST(marks)
{
	size_t bytes = 0;

	assert_true(ocaml_name_is_mark("camlService__code_begin", "code_begin", &bytes));
	assert_int_equal(bytes, strlen("camlService"));
	assert_true(ocaml_name_is_mark("camlMylib__.code_end", "code_end", &bytes));
	assert_int_equal(bytes, strlen("camlMylib__"));
	assert_true(ocaml_name_is_mark("caml_startup__code_begin", "code_begin", &bytes));
	assert_int_equal(bytes, strlen("caml_startup"));
	assert_false(ocaml_name_is_mark("camlService__code_begin", "code_end", &bytes));
	assert_false(ocaml_name_is_mark("camlService__barcode_begin", "code_begin", &bytes));
	assert_false(ocaml_name_is_mark("code_begin", "code_begin", &bytes));
	assert_false(ocaml_name_is_mark("caml_code_begin", "code_begin", &bytes));
	assert_false(ocaml_name_is_mark("", "code_begin", &bytes));
}

TEST(typed_names)
{
	static const struct {
		const char *typed, *name;
		int64_t stamp;
	} all[] = {
		{ "Service.find", "Service.find", -1 },
		{ "Service.find/531", "Service.find", 531 },
		{ "Service.entry/0", "Service.entry", 0 },
		{ "Mylib__Service.find", "Mylib.Service.find", -1 },
		{ "Dune__exe__Service.find", "Dune__exe.Service.find", -1 },
		{ "Stdlib.@", "Stdlib.(@)", -1 },
		{ "Stdlib.(@)", "Stdlib.(@)", -1 },
		{ "Stdlib.( @ )", "Stdlib.(@)", -1 },
		{ "M./", "M.(/)", -1 },
		{ "M.//12", "M.(/)", 12 },
		{ "M.(/)/12", "M.(/)", 12 },
		{ "M.let*!", "M.(let*!)", -1 },
		{ "Hashtbl.Make", "Hashtbl.Make", -1 },
		{ "M.foo__Bar", "M.foo__Bar", -1 },
		{ "find", "find", -1 },
		{ "Service.Cache.find.go/9", "Service.Cache.find.go", 9 },
		{ "Service.find.(@@)", "Service.find.(@@)", -1 },
		{ "Service.(let*).go", "Service.(let*).go", -1 },
		{ "Service.find.@@", "Service.find.(@@)", -1 },
		{ "Service.thing#go", "Service.thing#go", -1 },
		{ "/12", "(/12)", -1 },
		{ "M.", "(M.)", -1 },
		{ "", "", -1 },
	};
	char name[OCAML_NAME_BYTES], longest[2000];
	int64_t stamp;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_true(ocaml_name_normalise(all[i].typed, name, &stamp));
		assert_string_equal(name, all[i].name);
		assert_int_equal(stamp, all[i].stamp);
	}
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_false(ocaml_name_normalise(longest, name, &stamp));
}

/* The name of an anonymous function: its own path, or what contains it and "(fun)". */
TEST(anonymous_paths)
{
	static const struct {
		const char *symbol, *path, *name; /* name NULL: none */
	} all[] = {
		{ "camlM__fun_5", "M.find.(fun)", "M.find.(fun)" },
		{ "camlM__fun_5", "M.cache#find", "M.cache#find" },
		{ "camlM__fun_inner_5", "M.cache#find", "M.cache#find" },
		{ "camlM.fun_5", "M.(>>=).(fun)", "M.(>>=).(fun)" },
		{ "camlStdlib__List__fun_5", "Stdlib__List.map.(fun)", "Stdlib.List.map.(fun)" },
		{ "camlDune__exe__M__fun_5", "Dune__exe__M.(fun)", "Dune__exe.M.(fun)" },
		{ "camlPack__M__fun_5", "M.A.(fun)", "Pack.M.A.(fun)" },
		/* All its calls are in a local function that became a part of it. */
		{ "camlM__fun_5", "M.find.(fun).go", "M.find.(fun)" },
		{ "camlM__fun_5", "M.cache#find.go.loop", "M.cache#find" },
		/* A lazy value has the path of what contains it. */
		{ "camlM__fun_5", "M.find", "M.find.(fun)" },
		{ "camlM__fun_5", "M", "M.(fun)" },
		{ "camlM__fun_5", "N.find.(fun)", NULL },
		{ "camlM__fun_5", "MM", NULL },
		{ "camlM__fun_5", "", NULL },
		{ "camlM__fun_5", "M.\033[2J.(fun)", NULL },
	};
	char longer[OCAML_NAME_BYTES], longest[2000] = "M.";
	struct ocaml_name name;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_true(ocaml_name_decode(all[i].symbol, NULL, &name));
		assert_int_equal(
			ocaml_name_of_anonymous(name.text, name.path_bytes, all[i].path, longer),
			all[i].name != NULL);
		if (all[i].name)
			assert_string_equal(longer, all[i].name);
	}
	memset(longest + 2, 'x', 1100);
	assert_false(ocaml_name_of_anonymous(name.text, name.path_bytes, longest, longer));
}

/* Paths in debug information, as people write them. */
TEST(debuginfo)
{
	static const struct {
		const char *path, *name, *short_name;
	} all[] = {
		{ "Stdlib__List.map.(fun)", "Stdlib.List.map.(fun)", "List.map.(fun)" },
		{ "Dune__exe__M.cache#find", "Dune__exe.M.cache#find", "M.cache#find" },
		{ "Dune__exe__M", "Dune__exe.M", "M" },
		{ "Stdlib__List", "Stdlib.List", "List" },
		{ "Stdlib", "Stdlib", "Stdlib" },
		{ "Mylib__M", "Mylib.M", "Mylib.M" },
		{ "M", "M", "M" },
	};
	char name[OCAML_NAME_BYTES], longest[2000];
	size_t short_at;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_true(ocaml_name_of_debuginfo(all[i].path, name, &short_at));
		assert_string_equal(name, all[i].name);
		assert_string_equal(name + short_at, all[i].short_name);
	}
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_false(ocaml_name_of_debuginfo(longest, name, &short_at));
}

/* The debug information of a call tells where in its file a function is. */
TEST(paths)
{
	static const struct {
		const char *symbol, *path, *name;
		int found;
	} all[] = {
		{ "camlM__find_5", "M.Cache.find", "M.Cache.find", 2 },
		{ "camlM__find_5", "M.find", "M.find", 2 },
		{ "camlM__find_5", "M.Cache.find.(fun)", "M.Cache.find", 1 },
		{ "camlM__go_5", "M.find.(fun).go", "M.find.(fun).go", 2 },
		{ "camlM__find_5", "M.find.find", "M.find.find", 2 },
		{ "camlM.find_5", "M.Make.Inner.find.loop", "M.Make.Inner.find", 1 },
		{ "camlM__find_inner_5", "M.Cache.find", "M.Cache.find_inner", 2 },
		{ "camlM__go_5", "M.thing#go", "M.thing#go", 2 },
		{ "camlM__$40$40_5", "M.Cache.(@@)", "M.Cache.(@@)", 2 },
		{ "camlM__$2e$28$29_5", "M.Cache.(.()).x", "M.Cache.(.())", 1 },
		{ "camlStdlib__List__map_5", "Stdlib__List.Sub.map", "Stdlib.List.Sub.map", 2 },
		{ "camlDune__exe__M__f_5", "Dune__exe__M.A.f", "Dune__exe.M.A.f", 2 },
		{ "camlPack__M__f_5", "M.A.f", "Pack.M.A.f", 2 },
		/* Those are other functions, */
		{ "camlM__find_5", "M.Cache.finder", NULL, 0 },
		{ "camlM__find_5", "M.Cache.fin", NULL, 0 },
		{ "camlM__find_5", "N.Cache.find", NULL, 0 },
		{ "camlM__find_5", "MM.find", NULL, 0 },
		{ "camlM__find_5", "M", NULL, 0 },
		{ "camlM__find_5", "", NULL, 0 },
		{ "camlM__find_5", "M.", NULL, 0 },
		{ "camlStdlib__List__map_5", "Stdlib.List.map", NULL, 0 },
		{ "camlPack__M__f_5", "Other.M.f", NULL, 0 },
		/* and those lie. */
		{ "camlM__find_5", "M..find", NULL, 0 },
		{ "camlM__find_5", "M.\033[2J.find", NULL, 0 },
		{ "camlM__find_5", "M.\xff.find", NULL, 0 },
		{ "camlM__find_5", "M.(((.find", NULL, 0 },
		{ "camlM__find_5", "M.\xc3\x89t\xc3\xa9.find", "M.\xc3\x89t\xc3\xa9.find", 2 },
	};
	char longer[OCAML_NAME_BYTES], longest[2000] = "M.";
	struct ocaml_name name;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_true(ocaml_name_decode(all[i].symbol, NULL, &name));
		assert_int_equal(
			ocaml_name_add_path(name.text, name.path_bytes, all[i].path, longer),
			all[i].found);
		if (all[i].found)
			assert_string_equal(longer, all[i].name);
	}
	memset(longest + 2, 'x', 1100);
	strcpy(longest + 1102, ".find");
	assert_true(ocaml_name_decode("camlM__find_5", NULL, &name));
	assert_int_equal(ocaml_name_add_path(name.text, name.path_bytes, longest, longer), 0);
}
