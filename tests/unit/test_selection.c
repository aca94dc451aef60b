// SPDX-License-Identifier: MIT
/* Which probes a request means, and what is said of requests that mean none. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include "program/selection.h"
#include "unit.h"

static const char *const names[] = { "cache_hit", "cache_miss", "request" };
enum { N_NAMES = 3 };

static int add(struct ocp_ctx *ctx, struct selection *selection, enum item_kind kind,
	       const char *text)
{
	const struct item item = { kind, text };

	return selection_add(ctx, selection, &item);
}

TEST(names_and_expressions)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct selection selection = { 0 };

	assert_true(selection_is_empty(&selection));
	assert_false(selection_takes(&selection, "request"));
	assert_int_equal(add(ctx, &selection, ITEM_PROBE_REGEXP, "cache_.*"), 0);
	assert_int_equal(add(ctx, &selection, ITEM_PROBE, "request"), 0);
	assert_true(selection_takes(&selection, "cache_hit"));
	assert_true(selection_takes(&selection, "request"));
	assert_false(selection_takes(&selection, "requests"));
	assert_false(selection_takes(&selection, "my_cache_hit"));
	assert_int_equal(selection_check_used(ctx, &selection, names, N_NAMES, "it"), 0);
	assert_int_equal(add(ctx, &selection, ITEM_PROBE, "request"), -EINVAL);
	assert_string_equal(ocp_error(ctx), "probe 'request': named twice");
	assert_int_equal(add(ctx, &selection, ITEM_PROBE_REGEXP, "\\("), -EINVAL);
	selection_free(&selection);
	ocp_ctx_free(ctx);
}

TEST(what_means_nothing_is_said)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct selection selection = { 0 };

	assert_int_equal(add(ctx, &selection, ITEM_PROBE, "cache_mis"), 0);
	for (int i = 0; i < N_NAMES; i++)
		assert_false(selection_takes(&selection, names[i]));
	assert_int_equal(selection_check_used(ctx, &selection, names, N_NAMES, "/bin/x"), -ENOENT);
	assert_string_equal(ocp_error(ctx), "probe 'cache_mis': no such probe in /bin/x");
	assert_string_equal(ocp_hint(ctx), "did you mean 'cache_miss'?");
	assert_int_equal(selection_check_used(ctx, &selection, names, 0, "/bin/x"), -ENOENT);
	assert_string_equal(ocp_error(ctx), "probe 'cache_mis': /bin/x has no OCaml probes");
	selection_free(&selection);
	assert_int_equal(add(ctx, &selection, ITEM_PROBE_REGEXP, "x+"), 0);
	assert_false(selection_takes(&selection, "request"));
	assert_int_equal(selection_check_used(ctx, &selection, names, N_NAMES, "/bin/x"), -ENOENT);
	assert_string_equal(ocp_error(ctx), "regular expression 'x+': matches no probe of /bin/x");
	selection_free(&selection);
	assert_int_equal(add(ctx, &selection, ITEM_ALL_PROBES, NULL), 0);
	assert_true(selection_takes(&selection, "anything"));
	selection_free(&selection);
	ocp_ctx_free(ctx);
}

struct chosen {
	char order[64]; /* the names, in their order */
	int err;	/* what is returned with the next */
};

static int take(void *data, size_t probe)
{
	struct chosen *chosen = data;

	strcat(strcat(chosen->order, " "), names[probe]);
	return chosen->err;
}

TEST(probes_are_chosen_item_by_item)
{
	const struct probe_names among = { names, N_NAMES, "/bin/x" },
				 none = { names, 0, "/bin/x" };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct selection selection = { 0 };
	struct chosen chosen = { 0 };

	assert_int_equal(add(ctx, &selection, ITEM_PROBE, "request"), 0);
	assert_int_equal(add(ctx, &selection, ITEM_PROBE_REGEXP, "cache_.*"), 0);
	assert_int_equal(selection_choose(ctx, &selection, &among, take, &chosen), 0);
	assert_string_equal(chosen.order, " request cache_hit cache_miss");
	chosen = (struct chosen){ .err = -EBUSY };
	assert_int_equal(selection_choose(ctx, &selection, &among, take, &chosen), -EBUSY);
	assert_string_equal(chosen.order, " request");
	assert_int_equal(selection_choose(ctx, &selection, &none, take, &chosen), -ENOENT);
	assert_string_equal(ocp_error(ctx), "probe 'request': /bin/x has no OCaml probes");
	selection_free(&selection);
	assert_int_equal(add(ctx, &selection, ITEM_PROBE_REGEXP, "x+"), 0);
	assert_int_equal(selection_choose(ctx, &selection, &among, take, &chosen), -ENOENT);
	assert_string_equal(ocp_error(ctx), "regular expression 'x+': matches no probe of /bin/x");
	selection_free(&selection);
	ocp_ctx_free(ctx);
}

TEST(names_and_expressions_are_written_in_one_way)
{
	struct items items = { 0 }, copy = { 0 };

	assert_int_equal(items_add_text(&items, "a,b_1,"), 0);
	assert_int_equal(items_add_text(&items, "a.*,b"), 0);
	assert_int_equal(items.n, 4);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(items.list[i].kind, ITEM_PROBE);
	assert_string_equal(items.list[1].text, "b_1");
	assert_string_equal(items.list[2].text, "");
	assert_int_equal(items.list[3].kind, ITEM_PROBE_REGEXP);
	assert_string_equal(items.list[3].text, "a.*,b");
	assert_int_equal(items_copy(&copy, &items), 0);
	assert_true(items_equal(&copy, &items));
	copy.list[3].kind = ITEM_PROBE;
	assert_false(items_equal(&copy, &items));
	items_free(&copy);
	assert_false(items_equal(&copy, &items));
	items_free(&items);
	assert_true(items_equal(&copy, &items));
}

TEST(one_prefix_makes_a_list)
{
	static const enum item_kind kinds[] = { ITEM_PROBE, ITEM_FUNCTION, ITEM_FUNCTION_REGEXP,
						ITEM_C_FUNCTION };
	struct items items = { 0 };

	assert_int_equal(items_add_text(&items, "a,fn:M.f,fn:M.*,c:malloc"), 0);
	assert_int_equal(items.n, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(items.list[i].kind, kinds[i]);
	assert_string_equal(items.list[3].text, "c:malloc");
	items_free(&items);
	/* Not at the beginning of a name. */
	assert_int_equal(items_add_text(&items, "a.fn:x"), 0);
	assert_int_equal(items.n, 1);
	assert_int_equal(items.list[0].kind, ITEM_PROBE_REGEXP);
	items_free(&items);
}

/* Names that are printed are names, whatever they contain; they are not regular expressions. */
TEST(names_of_functions)
{
	static const struct {
		const char *text;
		enum item_kind kind;
		bool is_line;
	} all[] = {
		{ "fn:M.find", ITEM_FUNCTION, false },
		{ "fn:M.find/531", ITEM_FUNCTION, false },
		{ "fn:M.find.(fun)", ITEM_FUNCTION, false },
		{ "fn:M.find.(fun)/531", ITEM_FUNCTION, false },
		{ "fn:M.find.(fun).go", ITEM_FUNCTION, false },
		{ "fn:M.cache#find", ITEM_FUNCTION, false },
		{ "fn:M.cache#find.(fun)", ITEM_FUNCTION, false },
		{ "fn:M.(>>=).(fun)", ITEM_FUNCTION, false },
		{ "fn:M.(.%()<-)/7", ITEM_FUNCTION, false },
		{ "fn:(@)", ITEM_FUNCTION, false },
		{ "fn:M.(specialization_of).N.map", ITEM_FUNCTION, false },
		{ "fn:m.ml:12", ITEM_FUNCTION, true },
		{ "fn:src/a-b/m.ml:12", ITEM_FUNCTION, true },
		{ "fn:M.*", ITEM_FUNCTION_REGEXP, false },
		{ "fn:M\\.(fun)", ITEM_FUNCTION_REGEXP, false },
		{ "fn:M.(fun).*", ITEM_FUNCTION_REGEXP, false },
		{ "fn:M(fun)", ITEM_FUNCTION_REGEXP, false },
		{ "fn:M.(fun", ITEM_FUNCTION_REGEXP, false },
		{ "fn:m.ml:", ITEM_FUNCTION_REGEXP, false },
		{ "line:m.ml:12", ITEM_LINE, false },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_equal(item_kind_of(all[i].text), all[i].kind);
		assert_int_equal(item_is_function_line(all[i].text), all[i].is_line);
	}
}

/* line:FILE describes each of its lines, and no other file's. */
TEST(lines_of_a_file)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct selection selection = { 0 };

	assert_int_equal(add(ctx, &selection, ITEM_FILE_LINES, "line:a.ml"), 0);
	assert_false(selection_takes(&selection, "line:b.ml:3"));
	assert_false(selection_takes(&selection, "line:src/a.ml:3"));
	assert_false(selection_takes(&selection, "line:a.ml:b:3"));
	assert_false(selection_takes(&selection, "a.ml:3"));
	assert_false(selection_was_used(&selection, 0));
	assert_true(selection_takes(&selection, "line:a.ml:3"));
	assert_true(selection_was_used(&selection, 0));
	assert_int_equal(add(ctx, &selection, ITEM_LINE, "line:b.ml:3"), 0);
	assert_true(selection_takes(&selection, "line:b.ml:3"));
	assert_false(selection_takes(&selection, "line:b.ml:33"));
	assert_int_equal(add(ctx, &selection, ITEM_LINE, "line:b.ml:3"), -EINVAL);
	assert_string_equal(ocp_error(ctx), "'line:b.ml:3': named twice");
	selection_free(&selection);
	ocp_ctx_free(ctx);
}

TEST(texts_of_lines)
{
	static const struct {
		const char *text;
		enum item_kind kind;
		int line;
		size_t file_bytes;
	} cases[] = {
		{ "line:a.ml:12", ITEM_LINE, 12, 9 },
		{ "line:a.ml", ITEM_FILE_LINES, 0, 9 },
		{ "line:a.ml:", ITEM_FILE_LINES, 0, 10 },
		{ "line:a.ml:1x", ITEM_FILE_LINES, 0, 12 },
		{ "line:a.ml:-1", ITEM_FILE_LINES, 0, 12 },
		{ "line:C:a.ml:0", ITEM_LINE, 0, 11 },
		{ "line:a:99999999999999999999", ITEM_LINE, INT_MAX, 6 },
		{ "line:12", ITEM_FILE_LINES, 0, 7 },
		{ "line:", ITEM_FILE_LINES, 0, 5 },
	};
	int line;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(item_kind_of(cases[i].text), cases[i].kind);
		assert_int_equal(item_line_file(cases[i].text, &line), cases[i].file_bytes);
		assert_int_equal(line, cases[i].line);
	}
	assert_int_equal(item_kind_of("lines"), ITEM_PROBE);
}
