/* SPDX-License-Identifier: MIT */
/*
 * Evaluates filters in BPF programs. src/measure/args/filter.c compiles the filters; args.h defines
 * the compiled form.
 */
#ifndef FILTER_BPF_H
#define FILTER_BPF_H

#include "args.bpf.h"

/* Return 1 if the first literal->n_bytes bytes at ADDR are those of LITERAL. */
static __within_stacks int filter_same_bytes(__u64 addr, const struct filter_string *literal)
{
	__u64 words[FILTER_STRING_BYTES / 8] = {}, differences = 0;
	__u64 n = literal->n_bytes;

	args_keep(n);
	if (n > sizeof(words) || args_copy(words, n, addr))
		return 0;
#pragma unroll
	for (int i = 0; i < FILTER_STRING_BYTES / 8; i++)
		differences |= words[i] ^ ((const __u64 *)literal->bytes)[i];
	return differences == 0;
}

struct filter_found {
	__u64 value; /* the int, the double's bits, or the string's address */
	__u64 length;
};

static __always_inline int filter_find_custom(struct filter_found *found)
{
	__u64 identifier;
	int kind = ocaml_read_custom(found->value, &identifier, &found->value);

	if (kind == NODE_INT64 || kind == NODE_INT32 || kind == NODE_NATIVEINT)
		return FILTER_TYPE_INT;
	return kind == NODE_UNREADABLE ? FILTER_TYPE_UNREADABLE : FILTER_TYPE_OTHER;
}

static __always_inline int filter_find_string(struct filter_found *found, __u64 words)
{
	__s64 length = ocaml_string_length(found->value, words);

	found->length = (__u64)length;
	return length < 0 ? FILTER_TYPE_UNREADABLE : FILTER_TYPE_STRING;
}

/*
 * Read the argument that SPEC describes into FOUND. Returns the type of the argument (enum
 * filter_type).
 */
static __within_stacks int filter_find(struct pt_regs *regs, const struct arg_spec *spec,
				       struct filter_found *found)
{
	struct ocaml_block block;

	if (!arg_read(regs, spec, &found->value))
		return FILTER_TYPE_UNREADABLE;
	if (spec->type == ARG_FLOAT)
		return FILTER_TYPE_FLOAT;
	if (spec->type != ARG_VALUE)
		return FILTER_TYPE_INT;
	if (found->value & 1) {
		found->value = (__u64)((__s64)found->value >> 1);
		return FILTER_TYPE_INT;
	}
	if (!ocaml_read_block(found->value, &block))
		return FILTER_TYPE_UNREADABLE;
	switch (block.tag) {
	case TAG_CUSTOM:
		return filter_find_custom(found);
	case TAG_DOUBLE:
		return args_read_word(found->value, &found->value) ? FILTER_TYPE_FLOAT
								   : FILTER_TYPE_UNREADABLE;
	case TAG_STRING:
		return filter_find_string(found, block.words);
	}
	return FILTER_TYPE_OTHER;
}

static __always_inline int filter_string_matches(const struct filter_found *found,
						 const struct filter_string *literal,
						 __u8 comparison)
{
	int same = comparison == FILTER_STARTS ? found->length >= literal->n_bytes
					       : found->length == literal->n_bytes;

	same = same && filter_same_bytes(found->value, literal);
	return comparison == FILTER_NE ? !same : same;
}

/*
 * Return 1 if the comparison OP is true for the float with BITS. As in OCaml, only != is true for
 * nan.
 */
static __always_inline int filter_float_matches(__u64 bits, const struct filter_op *op)
{
	if (filter_is_nan(bits))
		return op->comparison == FILTER_NE;
	return filter_compare(filter_order(bits), op->comparison, op->ordered);
}

struct args_filtering {
	struct pt_regs *regs;
	const struct site_args *args;
	const struct filter *filter;
	__u64 stack; /* one bit per result; the lowest bit is the newest result */
	/*
	 * One bit per result, as in `stack`: whether the result could be true (may), or false
	 * (may_not), if the comparisons without an answer had one.
	 */
	__u64 may, may_not;
	__u32 mismatch; /* filter_mismatch() of a comparison without an answer, or 0 */
};

static __always_inline __u64 filter_and(__u64 stack)
{
	return stack >> 1 & (stack | ~1ULL);
}

static __always_inline __u64 filter_or(__u64 stack)
{
	return stack >> 1 | (stack & 1);
}

/*
 * The result of a comparison: bit 0 is set if it is true, bit 1 if it could be true, bit 2 if it
 * could be false. It is computed without branches, since every branch here doubles the paths of the
 * verifier.
 */
enum { ANSWER_YES = 3, ANSWER_NO = 4, ANSWER_NONE = 6 };

/*
 * Evaluate the comparison OP. Returns an ANSWER_... constant. The masks are there for the verifier,
 * which demands bounds; the numbers that filter.c has written are within these bounds.
 */
static __always_inline __u32 filter_operand(struct args_filtering *f, const struct filter_op *op)
{
	const struct arg_spec *spec = &f->args->args[op->arg & (ARGS_ALL - 1)];
	__u32 string = op->string & (FILTER_STRINGS_MAX - 1);
	struct filter_found found = {};
	int type = filter_find(f->regs, spec, &found), matches;

	if (op->kind == FILTER_STRING && type == FILTER_TYPE_STRING) {
		matches =
			filter_string_matches(&found, &f->filter->strings[string], op->comparison);
	} else if (op->kind == FILTER_NUMBER && type == FILTER_TYPE_INT) {
		matches = filter_compare((__s64)found.value, op->int_comparison, op->number);
	} else if (op->kind == FILTER_NUMBER && type == FILTER_TYPE_FLOAT) {
		matches = filter_float_matches(found.value, op);
	} else {
		f->mismatch = filter_mismatch(op->arg, (__u32)type, op->kind == FILTER_STRING);
		return ANSWER_NONE;
	}
	return ANSWER_NO - (__u32)(matches & 1);
}

static __always_inline void filter_push(struct args_filtering *f, __u32 answer)
{
	args_keep(answer);
	f->stack = f->stack << 1 | (answer & 1);
	f->may = f->may << 1 | (answer >> 1 & 1);
	f->may_not = f->may_not << 1 | (answer >> 2 & 1);
}

/* The body of a loop: evaluate operation I of the filter. */
static long filter_step(__u32 i, void *context)
{
	struct args_filtering *f = context;
	const struct filter_op *op = &f->filter->ops[i & (FILTER_OPS_MAX - 1)];
	const __u64 may = f->may, may_not = f->may_not;

	switch (op->kind) {
	case FILTER_AND:
		f->stack = filter_and(f->stack);
		f->may = filter_and(may);
		f->may_not = filter_or(may_not);
		break;
	case FILTER_OR:
		f->stack = filter_or(f->stack);
		f->may = filter_or(may);
		f->may_not = filter_and(may_not);
		break;
	case FILTER_NOT:
		f->stack ^= 1;
		f->may = (may & ~1ULL) | (may_not & 1);
		f->may_not = (may_not & ~1ULL) | (may & 1);
		break;
	default:
		filter_push(f, filter_operand(f, op));
	}
	return 0;
}

/*
 * Evaluate FILTER for a hit. Returns 1 if the hit matches. ARGS are the arguments of the site. If a
 * comparison without an answer could have changed the result, set *MISMATCH to filter_mismatch() of
 * such a comparison, else to 0.
 */
static __within_stacks int filter_matches(struct pt_regs *regs, const struct site_args *args,
					  const struct filter *filter, __u32 *mismatch)
{
	struct args_filtering f = {
		.regs = regs, .args = args, .filter = filter, .stack = 1, .may = 1
	};

	bpf_loop(filter->n_ops, filter_step, &f, 0);
	/*
	 * Compute *MISMATCH without a branch: with a branch, the verifier would follow every
	 * bpf_loop() to its end.
	 */
	*mismatch = f.mismatch & -(__u32)(f.may & f.may_not & 1);
	return f.stack & 1;
}

#endif
