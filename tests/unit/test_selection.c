// SPDX-License-Identifier: MIT
/* Which probes a request means, and what is said of requests that mean none. */
#include <errno.h>
#include <string.h>
#include "program/selection.h"
#include "unit.h"

static const char *const names[] = { "cache_hit", "cache_miss", "request" };
enum { N_NAMES = 3 };

static void names_and_expressions(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct selection selection = { 0 };

	(void)state;
	assert_true(selection_is_empty(&selection));
	assert_false(selection_takes(&selection, "request"));
	assert_int_equal(selection_add_regexp(ctx, &selection, "cache_.*"), 0);
	assert_int_equal(selection_add_name(ctx, &selection, "request"), 0);
	assert_true(selection_takes(&selection, "cache_hit"));
	assert_true(selection_takes(&selection, "request"));
	assert_false(selection_takes(&selection, "requests"));
	assert_false(selection_takes(&selection, "my_cache_hit"));
	assert_int_equal(selection_check_used(ctx, &selection, names, N_NAMES, "it"), 0);
	assert_int_equal(selection_add_name(ctx, &selection, "request"), -EINVAL);
	assert_string_equal(ocp_error(ctx), "probe 'request': named twice");
	assert_int_equal(selection_add_regexp(ctx, &selection, "\\("), -EINVAL);
	selection_free(&selection);
	ocp_ctx_free(ctx);
}

static void what_means_nothing_is_said(void **state)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct selection selection = { 0 };

	(void)state;
	assert_int_equal(selection_add_name(ctx, &selection, "cache_mis"), 0);
	for (int i = 0; i < N_NAMES; i++)
		assert_false(selection_takes(&selection, names[i]));
	assert_int_equal(selection_check_used(ctx, &selection, names, N_NAMES, "/bin/x"), -ENOENT);
	assert_string_equal(ocp_error(ctx), "probe 'cache_mis': no such probe in /bin/x");
	assert_string_equal(ocp_hint(ctx), "did you mean 'cache_miss'?");
	assert_int_equal(selection_check_used(ctx, &selection, names, 0, "/bin/x"), -ENOENT);
	assert_string_equal(ocp_error(ctx), "probe 'cache_mis': /bin/x has no OCaml probes");
	selection_free(&selection);
	assert_int_equal(selection_add_regexp(ctx, &selection, "x+"), 0);
	assert_false(selection_takes(&selection, "request"));
	assert_int_equal(selection_check_used(ctx, &selection, names, N_NAMES, "/bin/x"), -ENOENT);
	assert_string_equal(ocp_error(ctx), "regular expression 'x+': matches no probe of /bin/x");
	selection_free(&selection);
	selection.all = true;
	assert_true(selection_takes(&selection, "anything"));
	selection_free(&selection);
	ocp_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_expressions),
		cmocka_unit_test(what_means_nothing_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
