// SPDX-License-Identifier: MIT
/*
 * A filter is a tree: the leaves are comparisons, the other nodes are &&, || and !. The code of a
 * node jumps to one label if the node is true, and to another one if it is false. A node that does
 * not depend on its right side jumps past it.
 *
 * A comparison without an answer leads to a slow path, which evaluates the tree up to three more
 * times. There a comparison without an answer takes the value that makes the whole filter
 *	1. true, if that is possible. If the filter is false, the hit is rejected for sure.
 *	2. false, if that is possible. If the filter is true, the hit matches for sure.
 * Otherwise the hit is counted as a mismatch, and
 *	3. comparisons without an answer are false.
 */
#include "change/inside/filter_code.h"

#include <string.h>
#include "change/inside/block.h"

enum {
	/* Register numbers of the processor. */
	RAX,
	RSP = 4,
	R11 = 11,
	LAST_REGISTER = 15,
	/* The distance from rsp to rsp at a site: rax, and the return address. */
	SAVED_BYTES = 16,
	JMP = 0xe9,
	JE = 0x84,
	JNE = 0x85,
	/* Each comparison is in the code once for each pass, and once for its report. */
	MAX_LABELS = 8 + 4 * INSIDE_FILTER_OPS + INSIDE_FILTER_OPS,
	MAX_JUMPS = 8 + 3 * 4 * INSIDE_FILTER_OPS + 2 * INSIDE_FILTER_OPS,
};

/* How comparisons without an answer are treated. */
enum pass {
	PASS_SURE, /* they lead to the next pass */
	PASS_MAY,
	PASS_MUST,
	PASS_VERDICT,
};

struct assembler {
	const struct filter_code *what;
	uint8_t *code; /* NULL: only the size is wanted */
	size_t n;      /* the size so far */
	bool is_sound;
	/* For each operation of the filter: the first operation of its tree, which ends with it. */
	uint8_t first[INSIDE_FILTER_OPS];
	int64_t labels[MAX_LABELS]; /* offsets from the code */
	size_t n_labels;
	size_t unsure; /* the label for comparisons without an answer in PASS_SURE */
	struct {
		size_t at, label;
	} jumps[MAX_JUMPS]; /* the distance at offset `at` leads to a label */
	size_t n_jumps;
};

/* ---- code and labels ------------------------------------------------------------------------ */

static void put(struct assembler *as, const void *bytes, size_t n)
{
	if (as->code)
		memcpy(as->code + as->n, bytes, n);
	as->n += n;
}

#define PUT(as, ...) put(as, (const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static void put_int32(struct assembler *as, int32_t number)
{
	put(as, &number, sizeof(number));
}

static size_t new_label(struct assembler *as)
{
	return as->n_labels++;
}

static void put_label(struct assembler *as, size_t label)
{
	as->labels[label] = (int64_t)as->n;
}

/* Return a label for the address ADDR in the process. */
static size_t label_of(struct assembler *as, uint64_t addr)
{
	const size_t label = new_label(as);

	as->labels[label] = (int64_t)(addr - as->what->addr);
	return label;
}

static void put_distance(struct assembler *as, size_t label)
{
	as->jumps[as->n_jumps].at = as->n;
	as->jumps[as->n_jumps++].label = label;
	put_int32(as, 0);
}

static void put_jmp(struct assembler *as, size_t label)
{
	PUT(as, JMP);
	put_distance(as, label);
}

static void put_jcc(struct assembler *as, uint8_t condition, size_t label)
{
	PUT(as, 0x0f, condition);
	put_distance(as, label);
}

/* Append the distance to ADDR, in an instruction that has AFTER bytes behind the distance. */
static void put_distance_to(struct assembler *as, uint64_t addr, size_t after)
{
	const uint64_t end = as->what->addr + as->n + sizeof(int32_t) + after;
	const int64_t distance = (int64_t)(addr - end);

	as->is_sound &= (int32_t)distance == distance;
	put_int32(as, (int32_t)distance);
}

static void fill_jumps(struct assembler *as)
{
	for (size_t i = 0; as->code && i < as->n_jumps; i++) {
		const size_t at = as->jumps[i].at;
		const int64_t distance =
			as->labels[as->jumps[i].label] - (int64_t)(at + sizeof(int32_t));
		const int32_t near = (int32_t)distance;

		as->is_sound &= near == distance;
		memcpy(as->code + at, &near, sizeof(near));
	}
}

/* ---- comparisons ---------------------------------------------------------------------------- */

static bool is_readable(const struct inside_place *place, bool is_window)
{
	switch (place->kind) {
	case INSIDE_REGISTER:
		return place->number >= RAX && place->number <= LAST_REGISTER &&
		       place->number != RSP && !(is_window && place->number == R11);
	case INSIDE_STACK:
		return !is_window && place->number >= 0 && place->number <= INSIDE_STACK_MAX;
	case INSIDE_CONSTANT:
		return true;
	default:
		return false;
	}
}

/* Load the value at PLACE to rax of a site, or r11 of a window. */
static void put_load(struct assembler *as, const struct inside_place *place)
{
	const bool is_window = as->what->is_window;
	const uint8_t r = (uint8_t)place->number;

	as->is_sound &= is_readable(place, is_window);
	switch (place->kind) {
	case INSIDE_REGISTER:
		if (is_window)
			PUT(as, 0x49 | (r >> 3 << 2), 0x89, 0xc0 | (r & 7) << 3 | (R11 & 7));
		else if (r == RAX)
			PUT(as, 0x48, 0x8b, 0x04, 0x24); /* mov (%rsp), %rax */
		else
			PUT(as, 0x48 | (r >> 3 << 2), 0x89, 0xc0 | (r & 7) << 3);
		break;
	case INSIDE_STACK:
		PUT(as, 0x48, 0x8b, 0x84, 0x24); /* mov OFF(%rsp), %rax */
		put_int32(as, (int32_t)place->number + SAVED_BYTES);
		break;
	default:
		if (is_window)
			PUT(as, 0x49, 0xbb); /* movabs $NUMBER, %r11 */
		else
			PUT(as, 0x48, 0xb8);
		put(as, &place->number, sizeof(place->number));
	}
}

/* Compare the loaded value: set the zero flag if it is not an int, which would be odd. */
static void put_test(struct assembler *as)
{
	if (as->what->is_window)
		PUT(as, 0x41, 0xf6, 0xc3, 1); /* test $1, %r11b */
	else
		PUT(as, 0xa8, 1); /* test $1, %al */
}

/* Return the condition of a jump that is taken if COMPARISON is true. */
static uint8_t condition_of(uint8_t comparison)
{
	enum { JL = 0x8c, JGE, JLE, JG };
	static const uint8_t conditions[] = {
		[INSIDE_EQ] = JE,  [INSIDE_NE] = JNE, [INSIDE_LT] = JL,
		[INSIDE_LE] = JLE, [INSIDE_GT] = JG,  [INSIDE_GE] = JGE,
	};

	return conditions[comparison];
}

/* Jump to YES or NO, according to how the loaded int compares with a number. */
static void put_compare(struct assembler *as, const struct inside_filter_op *op, size_t yes,
			size_t no)
{
	/* the ints of OCaml, which are 2 * N + 1 in memory */
	const int64_t max = INT64_MAX >> 1, min = INT64_MIN >> 1;
	const bool is_above = op->number > max, is_below = op->number < min;
	const uint64_t value = (uint64_t)op->number * 2 + 1;
	const int32_t near = (int32_t)value;
	const bool is_near = near == (int64_t)value;

	if (is_above || is_below) {
		const bool is_true =
			op->comparison == INSIDE_NE ||
			(is_above ? op->comparison == INSIDE_LT || op->comparison == INSIDE_LE
				  : op->comparison == INSIDE_GT || op->comparison == INSIDE_GE);

		put_jmp(as, is_true ? yes : no);
		return;
	}
	if (as->what->is_window)
		PUT(as, is_near ? 0x49 : 0x4c, is_near ? 0x81 : 0x3b, is_near ? 0xfb : 0x1d);
	else
		PUT(as, 0x48, is_near ? 0x81 : 0x3b, is_near ? 0xf8 : 0x05);
	/* A number of 64 bits is behind the jumps, which have 6 and 5 bytes. */
	put_int32(as, is_near ? near : 6 + 5);
	put_jcc(as, condition_of(op->comparison), yes);
	put_jmp(as, no);
	if (!is_near)
		put(as, &value, sizeof(value));
}

/*
 * Return where a comparison without an answer leads, if YES and NO are the labels for true and
 * false. IS_NEGATED: it is below an odd number of !.
 */
static size_t unanswered(const struct assembler *as, enum pass pass, bool is_negated, size_t yes,
			 size_t no)
{
	switch (pass) {
	case PASS_SURE:
		return as->unsure;
	case PASS_MAY:
		return is_negated ? no : yes;
	case PASS_MUST:
		return is_negated ? yes : no;
	default:
		return no;
	}
}

/* ---- the tree ------------------------------------------------------------------------------- */

static void find_trees(struct assembler *as)
{
	const struct inside_filter *filter = as->what->filter;

	for (size_t i = 0; i < filter->n_ops; i++)
		switch (filter->ops[i].kind) {
		case INSIDE_COMPARE:
			as->first[i] = (uint8_t)i;
			break;
		case INSIDE_NOT:
			as->first[i] = as->first[i - 1];
			break;
		default:
			as->first[i] = as->first[as->first[i - 1] - 1];
		}
}

/* Append the code of the tree that ends with operation I. */
static void put_tree(struct assembler *as, size_t i, enum pass pass, bool is_negated, size_t yes,
		     size_t no)
{
	const struct inside_filter_op *op = &as->what->filter->ops[i];
	size_t right;

	switch (op->kind) {
	case INSIDE_COMPARE:
		put_load(as, &op->place);
		put_test(as);
		put_jcc(as, JE, unanswered(as, pass, is_negated, yes, no));
		put_compare(as, op, yes, no);
		return;
	case INSIDE_NOT:
		put_tree(as, i - 1, pass, !is_negated, no, yes);
		return;
	default:
		right = new_label(as);
		if (op->kind == INSIDE_AND)
			put_tree(as, as->first[i - 1] - 1U, pass, is_negated, right, no);
		else
			put_tree(as, as->first[i - 1] - 1U, pass, is_negated, yes, right);
		put_label(as, right);
		put_tree(as, i - 1, pass, is_negated, yes, no);
	}
}

static void put_pass(struct assembler *as, enum pass pass, size_t yes, size_t no)
{
	put_tree(as, as->what->filter->n_ops - 1, pass, false, yes, no);
}

/* ---- hits that cannot be judged -------------------------------------------------------------- */

/* Count a mismatch, and note the last comparison of the filter that has no answer. */
static void put_report(struct assembler *as)
{
	const struct inside_filter *filter = as->what->filter;
	const uint64_t last = as->what->mismatches + offsetof(struct block_mismatches, last);
	const size_t end = new_label(as);

	PUT(as, 0xf0, 0x48, 0xff, 0x05); /* lock incq N(%rip) */
	put_distance_to(as, as->what->mismatches + offsetof(struct block_mismatches, n), 0);
	for (size_t i = filter->n_ops; i--;) {
		const struct inside_filter_op *op = &filter->ops[i];
		size_t next;

		if (op->kind != INSIDE_COMPARE)
			continue;
		next = new_label(as);
		put_load(as, &op->place);
		put_test(as);
		put_jcc(as, JNE, next);
		PUT(as, 0x48, 0xc7, 0x05); /* movq $NUMBER, LAST(%rip) */
		put_distance_to(as, last, sizeof(int32_t));
		put_int32(as, (int32_t)block_mismatch(as->what->number, op->arg));
		put_jmp(as, end);
		put_label(as, next);
	}
	put_label(as, end);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Append the end of the code of a site at LABEL: restore rax, and continue at the label BODY. */
static void put_exit(struct assembler *as, size_t label, size_t body)
{
	put_label(as, label);
	PUT(as, 0x58); /* pop %rax */
	put_jmp(as, body);
}

size_t filter_code_make(const struct filter_code *what, uint8_t *code, bool *is_sound)
{
	struct assembler as = { .what = what, .code = code, .is_sound = true };
	const size_t must = new_label(&as), report = new_label(&as);
	const size_t matched = label_of(&as, what->matched);
	const size_t rejected = label_of(&as, what->rejected);
	const size_t yes = what->is_window ? matched : new_label(&as);
	const size_t no = what->is_window ? rejected : new_label(&as);

	find_trees(&as);
	as.unsure = new_label(&as);
	if (!what->is_window)
		PUT(&as, 0x50); /* push %rax */
	put_pass(&as, PASS_SURE, yes, no);
	put_label(&as, as.unsure);
	put_pass(&as, PASS_MAY, must, no);
	put_label(&as, must);
	put_pass(&as, PASS_MUST, yes, report);
	put_label(&as, report);
	put_report(&as);
	put_pass(&as, PASS_VERDICT, yes, no);
	if (!what->is_window) {
		put_exit(&as, yes, matched);
		put_exit(&as, no, rejected);
	}
	fill_jumps(&as);
	if (is_sound)
		*is_sound = as.is_sound;
	return as.n;
}
