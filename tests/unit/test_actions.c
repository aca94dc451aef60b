// SPDX-License-Identifier: MIT
/* Actions: what may be asked for, and which probes are meant by it, in which order. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change/switch/plan.h"
#include "unit.h"

static struct live_probe probes[] = {
	{ .name = "a_done" },  { .name = "a_start" }, { .name = "b_done" },
	{ .name = "b_start" }, { .name = "other" },
};
static const struct image_list images = { .exe_path = (char *)"/bin/prog" };
static const struct live live = { .images = &images, .probes = probes, .n_probes = 5 };

struct fixture {
	struct ocp_ctx *ctx;
	struct ocp_actions *actions;
	char order[256]; /* what actions_resolve gave, as "+enabled -disabled ..." */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->ctx = ocp_ctx_new();
	f->actions = ocp_actions_new(f->ctx);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ocp_actions_free(f->actions);
	ocp_ctx_free(f->ctx);
	free(f);
	return 0;
}

EACH_TEST(set_up, tear_down);

/* A probe that may be off already is shown in parentheses. */
static int resolve(struct fixture *f, const struct ocp_actions *actions)
{
	struct plan_step *chosen;
	size_t n, used = 0;
	int err = actions_resolve(f->ctx, &live, actions, &chosen, &n);

	if (err)
		assert_null(chosen);
	f->order[0] = '\0';
	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(f->order + used, sizeof(f->order) - used,
					 chosen[i].leave_disabled ? "%s%c(%s)" : "%s%c%s",
					 i ? " " : "", chosen[i].verb == ACTION_ENABLE ? '+' : '-',
					 probes[chosen[i].probe].name);
	free(chosen);
	return err;
}

TEST(names_stay_in_their_order)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable(f->actions, "other"), 0);
	assert_int_equal(ocp_actions_disable(f->actions, "b_done"), 0);
	assert_int_equal(ocp_actions_enable(f->actions, "a_done"), 0);
	assert_int_equal(resolve(f, f->actions), 0);
	assert_string_equal(f->order, "+other -b_done +a_done");
}

TEST(nothing_begins_that_is_not_seen_to_end)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable_pair(f->actions, "a_start", "a_done"), 0);
	assert_int_equal(ocp_actions_disable_pair(f->actions, "b_start", "b_done"), 0);
	assert_int_equal(resolve(f, f->actions), 0);
	assert_string_equal(f->order, "+a_done +a_start -b_start -b_done");
}

TEST(expressions_choose_by_the_start_of_the_name)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable_regexp(f->actions, "[ab]_s"), 0);
	assert_int_equal(ocp_actions_disable_regexp(f->actions, "other\\|done"), 0);
	assert_int_equal(resolve(f, f->actions), 0);
	assert_string_equal(f->order, "+(a_start) +(b_start) -(other)");
}

static bool ends_in(void *data, const char *name)
{
	const char *end = data;

	return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

TEST(kinds_may_be_mixed_and_a_probe_counts_once)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable(f->actions, "b_done"), 0);
	assert_int_equal(ocp_actions_enable_if(f->actions, ends_in, (char *)"_done"), 0);
	assert_int_equal(ocp_actions_enable_regexp(f->actions, "a"), 0);
	assert_int_equal(ocp_actions_enable_regexp(f->actions, "a_d"), 0);
	assert_int_equal(ocp_actions_disable_if(f->actions, ends_in, (char *)"other"), 0);
	assert_int_equal(ocp_actions_disable_if(f->actions, ends_in, (char *)"nothing"), 0);
	assert_int_equal(resolve(f, f->actions), 0);
	assert_string_equal(f->order, "+b_done +(a_done) +(a_start) -(other)");
}

TEST(all_in_the_order_of_names)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_disable_all(f->actions), 0);
	assert_int_equal(resolve(f, f->actions), 0);
	assert_string_equal(f->order, "-(a_done) -(a_start) -(b_done) -(b_start) -(other)");
}

TEST(contradictions_are_refused_at_once)
{
	struct fixture *f = *state;
	struct ocp_actions *a = f->actions;

	assert_int_equal(ocp_actions_enable(a, "x"), 0);
	assert_int_equal(ocp_actions_enable_pair(a, "y", "z"), 0);
	assert_int_equal(ocp_actions_enable(a, "x"), -EINVAL);
	assert_string_equal(ocp_error(f->ctx), "probe 'x': named twice");
	assert_int_equal(ocp_actions_enable(a, "z"), -EINVAL);
	assert_int_equal(ocp_actions_enable_pair(a, "w", "x"), -EINVAL);
	assert_int_equal(ocp_actions_enable_pair(a, "w", "y"), -EINVAL);
	assert_int_equal(ocp_actions_disable(a, "y"), -EINVAL);
	assert_string_equal(ocp_error(f->ctx), "probe 'y': cannot be enabled and disabled at once");
	assert_int_equal(ocp_actions_disable_pair(a, "z", "w"), -EINVAL);
	assert_int_equal(ocp_actions_enable_pair(a, "w", "w"), -EINVAL);
	assert_int_equal(ocp_actions_enable_regexp(a, "\\("), -EINVAL);
	assert_int_equal(ocp_actions_enable_all(a), -EINVAL);
	/* What was refused left nothing behind. */
	assert_int_equal(ocp_actions_disable(a, "w"), 0);
}

TEST(all_stands_alone)
{
	struct fixture *f = *state;
	struct ocp_actions *a = f->actions;

	assert_int_equal(ocp_actions_enable_all(a), 0);
	assert_int_equal(ocp_actions_enable_all(a), -EINVAL);
	assert_int_equal(ocp_actions_disable_all(a), -EINVAL);
	assert_int_equal(ocp_actions_enable(a, "x"), -EINVAL);
	assert_int_equal(ocp_actions_enable_pair(a, "x", "y"), -EINVAL);
	assert_int_equal(ocp_actions_disable_regexp(a, "x"), -EINVAL);
	assert_int_equal(ocp_actions_disable_if(a, ends_in, (char *)"x"), -EINVAL);
}

TEST(contradictions_that_only_the_probes_show)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable_regexp(f->actions, "a"), 0);
	assert_int_equal(ocp_actions_disable(f->actions, "a_start"), 0);
	assert_int_equal(resolve(f, f->actions), -EINVAL);
	assert_string_equal(ocp_error(f->ctx),
			    "probe 'a_start': cannot be enabled and disabled at once");
}

TEST(unknown_names_and_what_was_meant)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable(f->actions, "a_strat"), 0);
	assert_int_equal(resolve(f, f->actions), -ENOENT);
	assert_string_equal(ocp_error(f->ctx), "probe 'a_strat': no such probe in /bin/prog");
	assert_string_equal(ocp_hint(f->ctx), "did you mean 'a_start'?");
}

TEST(expressions_that_match_nothing)
{
	struct fixture *f = *state;

	assert_int_equal(ocp_actions_enable_regexp(f->actions, "start"), 0);
	assert_int_equal(resolve(f, f->actions), -ENOENT);
	assert_string_equal(ocp_error(f->ctx),
			    "regular expression 'start': matches no probe of /bin/prog");
}

TEST(enabling_keeps_the_enable_actions_only)
{
	struct fixture *f = *state;
	struct ocp_actions *kept;

	assert_int_equal(ocp_actions_disable_pair(f->actions, "nosuch1", "nosuch2"), 0);
	assert_int_equal(ocp_actions_enable_pair(f->actions, "a_start", "a_done"), 0);
	assert_int_equal(ocp_actions_disable_regexp(f->actions, "nosuch"), 0);
	assert_int_equal(ocp_actions_enable_regexp(f->actions, "b_s"), 0);
	assert_int_equal(ocp_actions_enable_if(f->actions, ends_in, (char *)"r"), 0);
	kept = actions_enabling(f->actions);
	assert_non_null(kept);
	assert_int_equal(resolve(f, kept), 0);
	assert_string_equal(f->order, "+a_done +a_start +(b_start) +(other)");
	ocp_actions_free(kept);
}
