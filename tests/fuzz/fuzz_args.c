// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: the argument strings of notes, which stand in other people's files; filters;
 * and records of hits. The first byte says which.
 */
#include <stdlib.h>
#include <string.h>

#include "measure/args/filter.h"
#include "measure/args/operand.h"
#include "measure/args/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void parse_operands(const char *text)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct site_args args;
	int err;

	require(ctx != NULL);
	err = operand_parse(ctx, text, &args);
	require(err ? *ocp_error(ctx) != '\0' : args.n <= ARGS_MAX);
	for (__u32 i = 0; !err && i < ARGS_MAX; i++) {
		const struct arg_spec *spec = &args.args[i];

		require((spec->kind == ARG_NONE) == (i >= args.n));
		if (spec->kind == ARG_NONE || spec->kind == ARG_UNSUPPORTED)
			continue;
		require(spec->size == 1 || spec->size == 2 || spec->size == 4 || spec->size == 8);
		require(spec->type != ARG_VALUE || (spec->size == 8 && !spec->is_signed));
		require(spec->type != ARG_FLOAT || (spec->size == 8 && spec->kind == ARG_MEMORY));
		require(spec->index_shift <= 3);
		require(spec->n_then <= ARG_MAX_THEN &&
			(spec->kind == ARG_MEMORY || spec->n_then == 0));
		require(spec->base < ARG_REGISTERS ||
			(spec->base == ARG_NO_REGISTER && spec->kind != ARG_REGISTER));
		require(spec->index < ARG_REGISTERS || spec->index == ARG_NO_REGISTER);
	}
	ocp_ctx_free(ctx);
}

static void check_filter(const struct filter *filter, const struct asked_names *asked,
			 __u32 args_used)
{
	unsigned int depth = 0;

	require(filter->n_ops > 0 && filter->n_ops <= FILTER_OPS_MAX);
	for (__u32 i = 0; i < filter->n_ops; i++) {
		const struct filter_op *op = &filter->ops[i];

		if (op->kind == FILTER_NUMBER || op->kind == FILTER_STRING) {
			require(op->arg < ARGS_MAX + asked->n && (args_used >> op->arg & 1));
			depth++;
		} else {
			require(depth >= (op->kind == FILTER_NOT ? 1 : 2));
			depth -= op->kind != FILTER_NOT;
		}
		if (op->kind == FILTER_STRING)
			require(op->string < filter->n_strings);
		/*
		 * Of numbers there is no starts-with, and ordered is never beyond the infinities.
		 */
		if (op->kind == FILTER_NUMBER)
			require(op->comparison <= FILTER_GE && op->int_comparison <= FILTER_GE &&
				op->ordered <= (__s64)FILTER_INFINITY_BITS &&
				op->ordered >= -(__s64)FILTER_INFINITY_BITS);
	}
	require(depth == 1);
	require(filter->n_strings <= FILTER_STRINGS_MAX);
	for (__u32 i = 0; i < filter->n_strings; i++)
		require(filter->strings[i].n_bytes <= FILTER_STRING_BYTES);
}

static void parse_filter(const char *text)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct asked_names asked = { .n = 0 };
	struct filter filter;
	__u32 args_used;

	require(ctx != NULL);
	if (filter_parse(ctx, text, &asked, &filter, &args_used))
		require(*ocp_error(ctx) != '\0');
	else
		check_filter(&filter, &asked, args_used);
	filter_parse_arg(ctx, text, &asked);
	ocp_ctx_free(ctx);
}

static void write_record(const uint8_t *bytes, size_t n)
{
	/* What is missing are zeros: most inputs are shorter than a record. */
	struct hit_record *record = calloc(1, sizeof(*record));
	char *text = NULL;
	size_t length;
	FILE *out;

	require(record != NULL);
	memcpy(record, bytes, n < sizeof(*record) ? n : sizeof(*record));
	if (value_record_is_sound(record, sizeof(*record))) {
		out = open_memstream(&text, &length);
		require(out != NULL);
		value_write_args(out, record, "");
		fclose(out);
		require(length < 64 * 1024);
		for (size_t i = 0; i < length; i++)
			require((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
		free(text);
	}
	free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	char *text;

	if (n == 0)
		return 0;
	if (*bytes == 'r') {
		write_record(bytes + 1, n - 1);
		return 0;
	}
	/* A buffer of exactly that size, so that the sanitizer sees a step beyond it. */
	text = malloc(n);
	require(text != NULL);
	memcpy(text, bytes + 1, n - 1);
	text[n - 1] = '\0';
	if (*bytes == 'o')
		parse_operands(text);
	else
		parse_filter(text);
	free(text);
	return 0;
}
