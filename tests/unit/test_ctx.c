// SPDX-License-Identifier: MIT
/* The ctx: sentences, hints, log lines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "unit.h"

static int new_ctx(void **state)
{
	*state = ocp_ctx_new();
	return *state ? 0 : -1;
}

static int free_ctx(void **state)
{
	ocp_ctx_free(*state);
	return 0;
}

EACH_TEST(new_ctx, free_ctx);

TEST(error_returns_its_code_and_keeps_the_sentence)
{
	struct ocp_ctx *ctx = *state;

	assert_string_equal(ocp_error(ctx), "");
	assert_int_equal(ctx_error(ctx, -EPERM, "%s: %d", "file", 7), -EPERM);
	assert_string_equal(ocp_error(ctx), "file: 7");
	assert_null(ocp_hint(ctx));
}

TEST(hint_is_forgotten_with_the_next_error)
{
	struct ocp_ctx *ctx = *state;

	ctx_error(ctx, -EPERM, "first");
	ctx_hint(ctx, "do %s", "this");
	assert_string_equal(ocp_hint(ctx), "do this");
	ctx_error(ctx, -EPERM, "second");
	assert_null(ocp_hint(ctx));
}

TEST(prefix_goes_before_the_sentence)
{
	struct ocp_ctx *ctx = *state;

	ctx_error(ctx, -EIO, "cannot read");
	ctx_error_prefix(ctx, "%s", "a.out");
	assert_string_equal(ocp_error(ctx), "a.out: cannot read");
}

TEST(control_characters_never_come_out)
{
	struct ocp_ctx *ctx = *state;

	ctx_error(ctx, -EIO, "%s", "a\x1b[2Jb\nc\x7f");
	assert_string_equal(ocp_error(ctx), "a?[2Jb?c?");
	/* ESC [ as one character, and what turns the line round. */
	ctx_error(ctx, -EIO, "%s",
		  "a\xc2\x9b"
		  "2Jb\xe2\x80\xae"
		  "c\xe2\x81\xa6\xc3\xa9\xe2\x82\xac");
	assert_string_equal(ocp_error(ctx), "a?2Jb?c?\xc3\xa9\xe2\x82\xac");
	ctx_hint(ctx, "%s", "x\ty");
	assert_string_equal(ocp_hint(ctx), "x?y");
}

TEST(overlong_operands_are_cut)
{
	struct ocp_ctx *ctx = *state;
	char operand[5000];

	memset(operand, 'x', sizeof(operand) - 1);
	operand[sizeof(operand) - 1] = '\0';
	assert_int_equal(ctx_error(ctx, -EIO, "%s", operand), -EIO);
	assert_in_range(strlen(ocp_error(ctx)), 500, sizeof(operand) - 2);
	ctx_error_prefix(ctx, "%s", "name");
	assert_memory_equal(ocp_error(ctx), "name: xxx", 9);
	ctx_error_prefix(ctx, "%s", operand);
	assert_memory_equal(ocp_error(ctx), "name: xxx", 9);
}

struct log_sink {
	int lines;
	char last[200];
};

static void take_line(void *data, enum ocp_log_level level, const char *line)
{
	struct log_sink *sink = data;

	sink->lines++;
	snprintf(sink->last, sizeof(sink->last), "%d %s", (int)level, line);
}

TEST(log_passes_what_the_level_asks_for)
{
	struct ocp_ctx *ctx = *state;
	struct log_sink sink = { 0 };

	ctx_log(ctx, OCP_LOG_WARN, "nobody listens");
	ocp_ctx_set_log(ctx, take_line, &sink, OCP_LOG_INFO);
	ctx_log(ctx, OCP_LOG_DEBUG, "too fine");
	assert_int_equal(sink.lines, 0);
	ctx_log(ctx, OCP_LOG_INFO, "%s\n", "step");
	assert_int_equal(sink.lines, 1);
	assert_string_equal(sink.last, "1 step?");
	ocp_ctx_set_log(ctx, NULL, NULL, OCP_LOG_DEBUG);
	ctx_log(ctx, OCP_LOG_WARN, "nobody listens");
	assert_int_equal(sink.lines, 1);
}
