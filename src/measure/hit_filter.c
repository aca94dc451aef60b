// SPDX-License-Identifier: MIT
/* The rules are those of bpf/filter.bpf.h, which evaluates a filter at the hit itself. */
#include "measure/hit_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/args/filter.h"
#include "measure/args/value.h"
#include "measure/meter.h"

struct hit_filter {
	struct filter ops;
	struct asked_names asked;
	__u32 args_used; /* see filter_parse() */
};

int hit_filter_parse(struct ocp_ctx *ctx, const char *text, struct hit_filter **out)
{
	struct hit_filter *filter = calloc(1, sizeof(*filter));
	int err;

	*out = NULL;
	if (!filter)
		return ctx_no_memory(ctx);
	err = filter_parse(ctx, text, &filter->asked, &filter->ops, &filter->args_used);
	if (err)
		free(filter);
	else
		*out = filter;
	return err;
}

void hit_filter_free(struct hit_filter *filter)
{
	free(filter);
}

/*
 * Return the position of argument ARG, which is numbered as by filter_parse(), among N arguments
 * that have the names NAMES. Return N if there is no such argument.
 */
static size_t find_position(const struct hit_filter *filter, unsigned int arg, size_t n,
			    const char *names)
{
	char name[OCP_ARG_NAME_BYTES];
	size_t i = 0;

	if (arg < ARGS_MAX)
		return arg < n ? arg : n;
	for (; i < n; i++) {
		ocp_arg_name(names, i, name);
		if (strcmp(name, filter->asked.names[arg - ARGS_MAX]) == 0)
			break;
	}
	return i;
}

int hit_filter_check(const struct hit_filter *filter, const struct ocp_meter *meter,
		     const char *probe)
{
	const struct site_table *table = &meter->table;
	const struct arg_table *args = &meter->arg_requests.table;

	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];
		const size_t n = site->args < args->n ? args->entries[site->args].n : 0;

		if (site->file == NO_FILE ||
		    strcmp(table->probes[site->probe_index].name, probe) != 0)
			continue;
		for (unsigned int arg = 0; arg < ARGS_ALL; arg++) {
			if (!(filter->args_used >> arg & 1) ||
			    find_position(filter, arg, n, arg_table_names(args, site->args)) < n)
				continue;
			if (arg < ARGS_MAX)
				return ctx_error(meter->ctx, -EINVAL,
						 "probe '%s': it has %zu argument%s, and no arg%u",
						 probe, n, n == 1 ? "" : "s", arg);
			return ctx_error(meter->ctx, -EINVAL, "probe '%s': it has no argument '%s'",
					 probe, filter->asked.names[arg - ARGS_MAX]);
		}
	}
	return 0;
}

/* ---- evaluation ----------------------------------------------------------------------------- */

enum answer { IS_FALSE, IS_TRUE, IS_UNKNOWN };

static enum answer compare_real(double real, const struct filter_op *op)
{
	__u64 bits;

	memcpy(&bits, &real, sizeof(bits));
	if (filter_is_nan(bits))
		return op->comparison == FILTER_NE ? IS_TRUE : IS_FALSE;
	return filter_compare(filter_order(bits), op->comparison, op->ordered) ? IS_TRUE : IS_FALSE;
}

static enum answer compare_string(const struct value *value, const struct filter_string *literal,
				  __u8 comparison)
{
	bool is_same = comparison == FILTER_STARTS ? value->size >= literal->n_bytes
						   : value->size == literal->n_bytes;

	if (is_same && value->n_bytes < literal->n_bytes)
		return IS_UNKNOWN;
	is_same = is_same && memcmp(value->bytes, literal->bytes, literal->n_bytes) == 0;
	return is_same == (comparison != FILTER_NE) ? IS_TRUE : IS_FALSE;
}

static enum answer compare_arg(const struct hit_filter *filter, const struct filter_op *op,
			       const struct ocp_hit *hit)
{
	const size_t i = find_position(filter, op->arg, hit->n_args, hit->arg_names);
	struct value value;

	if (i == hit->n_args)
		return IS_UNKNOWN;
	value = value_of_arg(hit->record, (unsigned int)i);
	if (op->kind == FILTER_STRING)
		return value.kind == OCP_STRING
			       ? compare_string(&value, &filter->ops.strings[op->string],
						op->comparison)
			       : IS_UNKNOWN;
	if (value.kind == OCP_FLOAT)
		return compare_real(value.real, op);
	if (value.kind > OCP_NATIVEINT)
		return IS_UNKNOWN;
	return filter_compare(value.number, op->int_comparison, op->number) ? IS_TRUE : IS_FALSE;
}

/* A result: as it counts, and what it could be if the comparisons without an answer had one. */
struct outcome {
	bool is_true, may, may_not;
};

static struct outcome combine(const struct outcome *a, const struct outcome *b, bool is_and)
{
	if (is_and)
		return (struct outcome){ a->is_true && b->is_true, a->may && b->may,
					 a->may_not || b->may_not };
	return (struct outcome){ a->is_true || b->is_true, a->may || b->may,
				 a->may_not && b->may_not };
}

bool hit_filter_matches(const struct hit_filter *filter, const struct ocp_hit *hit, bool *is_unsure)
{
	struct outcome stack[FILTER_OPS_MAX + 1] = { { .is_true = true, .may = true } };
	size_t n = 1;

	for (__u32 i = 0; i < filter->ops.n_ops; i++) {
		const struct filter_op *op = &filter->ops.ops[i];
		struct outcome *top = &stack[n - 1];
		enum answer answer;

		switch (op->kind) {
		case FILTER_AND:
		case FILTER_OR:
			n--;
			stack[n - 1] = combine(&stack[n - 1], top, op->kind == FILTER_AND);
			break;
		case FILTER_NOT:
			*top = (struct outcome){ !top->is_true, top->may_not, top->may };
			break;
		default:
			answer = compare_arg(filter, op, hit);
			stack[n++] = (struct outcome){ answer == IS_TRUE, answer != IS_FALSE,
						       answer != IS_TRUE };
		}
	}
	*is_unsure |= stack[n - 1].may && stack[n - 1].may_not;
	return stack[n - 1].is_true;
}
