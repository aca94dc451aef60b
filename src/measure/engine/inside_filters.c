// SPDX-License-Identifier: MIT
#include "measure/engine/inside_filters.h"

#include <assert.h>
#include <stdlib.h>

static_assert((int)INSIDE_FILTER_OPS >= (int)FILTER_OPS_MAX, "there is room for each filter");
static_assert((int)INSIDE_EQ == (int)FILTER_EQ && (int)INSIDE_NE == (int)FILTER_NE &&
		      (int)INSIDE_LT == (int)FILTER_LT && (int)INSIDE_LE == (int)FILTER_LE &&
		      (int)INSIDE_GT == (int)FILTER_GT && (int)INSIDE_GE == (int)FILTER_GE,
	      "the comparisons have the same numbers");

/* ---- places of arguments --------------------------------------------------------------------- */

/* By enum arg_register: the number of the register in machine code; -1 for rip. */
static const int register_numbers[ARG_REGISTERS] = {
	[ARG_RAX] = 0,	[ARG_RCX] = 1,	[ARG_RDX] = 2,	[ARG_RBX] = 3,	[ARG_RSP] = 4,
	[ARG_RBP] = 5,	[ARG_RSI] = 6,	[ARG_RDI] = 7,	[ARG_R8] = 8,	[ARG_R9] = 9,
	[ARG_R10] = 10, [ARG_R11] = 11, [ARG_R12] = 12, [ARG_R13] = 13, [ARG_R14] = 14,
	[ARG_R15] = 15, [ARG_RIP] = -1,
};

bool inside_place_of(const struct arg_spec *spec, struct inside_place *place)
{
	*place = (struct inside_place){ INSIDE_CONSTANT, spec->number };
	if (spec->type != ARG_VALUE || spec->size != 8)
		return false;
	switch (spec->kind) {
	case ARG_CONSTANT:
		return true;
	case ARG_REGISTER:
		if (spec->base >= ARG_REGISTERS || spec->base == ARG_RSP || spec->base == ARG_RIP)
			return false;
		*place = (struct inside_place){ INSIDE_REGISTER, register_numbers[spec->base] };
		return true;
	case ARG_MEMORY:
		place->kind = INSIDE_STACK;
		return spec->base == ARG_RSP && spec->index == ARG_NO_REGISTER && !spec->n_then &&
		       spec->number >= 0 && spec->number <= INSIDE_STACK_MAX;
	default:
		return false;
	}
}

/* ---- filters --------------------------------------------------------------------------------- */

enum inside_filter_fault inside_filter_check(const struct filter_op *op,
					     const struct arg_spec *spec)
{
	struct inside_place place;

	if (op->kind == FILTER_STRING)
		return INSIDE_FILTER_STRING;
	if (op->kind != FILTER_NUMBER || inside_place_of(spec, &place))
		return INSIDE_FILTER_FINE;
	return spec->type == ARG_VALUE ? INSIDE_FILTER_PLACE : INSIDE_FILTER_FOREIGN;
}

/* Fill OUT for sites with the arguments ARGS. Return false if a comparison is not possible. */
static bool fill_filter(const struct filter *filter, const struct site_args *args,
			struct inside_filter *out)
{
	static const enum inside_filter_kind kinds[] = {
		[FILTER_NUMBER] = INSIDE_COMPARE,
		[FILTER_AND] = INSIDE_AND,
		[FILTER_OR] = INSIDE_OR,
		[FILTER_NOT] = INSIDE_NOT,
	};

	out->n_ops = filter->n_ops;
	for (__u32 i = 0; i < filter->n_ops; i++) {
		const struct filter_op *op = &filter->ops[i];
		struct inside_filter_op *to = &out->ops[i];

		if (op->kind != FILTER_NUMBER && op->kind != FILTER_STRING) {
			to->kind = (uint8_t)kinds[op->kind];
			continue;
		}
		if (inside_filter_check(op, &args->args[op->arg]) != INSIDE_FILTER_FINE)
			return false;
		*to = (struct inside_filter_op){ .kind = (uint8_t)kinds[op->kind],
						 .comparison = op->int_comparison,
						 .arg = op->arg,
						 .number = op->number };
		inside_place_of(&args->args[op->arg], &to->place);
	}
	return true;
}

const struct inside_filter *inside_filters_get(struct inside_filters *filters, size_t i, size_t n,
					       const struct site_args *args)
{
	if (!filters->list) {
		struct inside_filter **list = calloc(n + 1, sizeof(void *));

		filters->list = list;
		filters->n = list ? n : 0;
	}
	if (i >= filters->n)
		return NULL;
	if (!filters->list[i])
		filters->list[i] = calloc(1, sizeof(**filters->list));
	if (!filters->list[i])
		return NULL;
	if (!filters->list[i]->n_ops && !fill_filter(filters->filter, args, filters->list[i])) {
		filters->list[i]->n_ops = 0;
		return NULL;
	}
	return filters->list[i];
}

void inside_filters_free(struct inside_filters *filters)
{
	for (size_t i = 0; i < filters->n; i++)
		free(filters->list[i]);
	free(filters->list);
	*filters = (struct inside_filters){ 0 };
}
