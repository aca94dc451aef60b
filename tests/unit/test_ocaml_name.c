// SPDX-License-Identifier: MIT
/* Names of OCaml functions: symbols of the compilers, symbols that lie, and what people type. */
#include <stdlib.h>
#include <string.h>

#include "base/sanitize.h"
#include "code/ocaml_name.h"
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
		  NAMED("camlDune__exe__f_1", NULL, "Dune.exe__f", 1));
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

TEST(other_symbols)
{
	CHECK_ALL(NONE("main", NULL), NONE("", NULL), NONE("caml", NULL),
		  NONE("caml_alloc_shr", NULL), NONE("camlidl_x__f_1", NULL),
		  NONE("camlService", NULL), NONE("camlService__", NULL),
		  NONE("camlService.", NULL), NONE("camlService__code_begin", NULL),
		  NONE("camlService__code_end", NULL), NONE("camlService.code_begin", NULL),
		  NONE("camlService__data_begin", NULL), NONE("camlService__frametable", NULL),
		  NONE("camlService__gc_roots", NULL), NONE("camlB__f_1", "camlA"),
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
		{ "camlM__go_5", "M.find.(fun).go", "M.find.go", 2 },
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
