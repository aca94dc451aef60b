// SPDX-License-Identifier: MIT
/*
 * The code of filters: for random filters and values, its verdicts are those of hit_filter.c, which
 * has the rules of the BPF programs.
 */
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inside_code.h"
#include "measure/args/filter.h"
#include "measure/engine/inside_filters.h"
#include "measure/hit_filter.h"
#include "unit.h"

enum { N_REGS = 15, N_ARGS = 6, N_FILTERS = 600, N_VALUES = 40, RBX = 1, R11 = 10 };

/*
 * filter_hit(trampoline, registers, results, word): call the trampoline with all registers but rsp,
 * and with WORD on top of the stack. The registers are in the order of `numbers`.
 */
void filter_hit(uint64_t trampoline, const uint64_t *registers, uint64_t *results, uint64_t word);
extern uint64_t filter_target;
uint64_t filter_target;

__asm__(".pushsection .text\n"
	".globl filter_hit\n"
	"filter_hit:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	push %rdx\n"
	"	push %rcx\n"
	"	mov %rdi, filter_target(%rip)\n"
	"	mov 0(%rsi), %rax\n	mov 8(%rsi), %rbx\n	mov 16(%rsi), %rcx\n"
	"	mov 24(%rsi), %rdx\n	mov 40(%rsi), %rdi\n	mov 48(%rsi), %rbp\n"
	"	mov 56(%rsi), %r8\n	mov 64(%rsi), %r9\n	mov 72(%rsi), %r10\n"
	"	mov 80(%rsi), %r11\n	mov 88(%rsi), %r12\n	mov 96(%rsi), %r13\n"
	"	mov 104(%rsi), %r14\n	mov 112(%rsi), %r15\n	mov 32(%rsi), %rsi\n"
	"	call *filter_target(%rip)\n"
	"	push %rax\n"
	"	mov 16(%rsp), %rax\n"
	"	mov %rbx, 8(%rax)\n	mov %rcx, 16(%rax)\n	mov %rdx, 24(%rax)\n"
	"	mov %rsi, 32(%rax)\n	mov %rdi, 40(%rax)\n	mov %rbp, 48(%rax)\n"
	"	mov %r8, 56(%rax)\n	mov %r9, 64(%rax)\n	mov %r10, 72(%rax)\n"
	"	mov %r11, 80(%rax)\n	mov %r12, 88(%rax)\n	mov %r13, 96(%rax)\n"
	"	mov %r14, 104(%rax)\n	mov %r15, 112(%rax)\n"
	"	pop %rbx\n"
	"	mov %rbx, (%rax)\n"
	"	add $16, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
	"	ret\n"
	".popsection\n");

/* By the place in what filter_hit() takes: the register. */
static const enum arg_register numbers[N_REGS] = {
	ARG_RAX, ARG_RBX, ARG_RCX, ARG_RDX, ARG_RSI, ARG_RDI, ARG_RBP, ARG_R8,
	ARG_R9,	 ARG_R10, ARG_R11, ARG_R12, ARG_R13, ARG_R14, ARG_R15,
};

/* ---- random filters and values --------------------------------------------------------------- */

static const int64_t edges[] = { 0,
				 1,
				 -1,
				 7,
				 1LL << 29,
				 (1LL << 30) - 1,
				 1LL << 30,
				 -(1LL << 30),
				 -(1LL << 30) - 1,
				 1LL << 31,
				 -(1LL << 31),
				 1LL << 40,
				 INT64_MAX >> 1,
				 INT64_MIN >> 1 };
enum { N_EDGES = sizeof(edges) / sizeof(edges[0]) };

static int64_t random_int(void)
{
	return edges[rand() % N_EDGES] + rand() % 3 - 1;
}

/* A literal: an int, also one that no int of OCaml equals, a float, or a name. */
static void put_literal(FILE *out)
{
	switch (rand() % 10) {
	case 0:
		fprintf(out, "%.1f", (double)(rand() % 5) - 2.5);
		break;
	case 1:
		fputs(rand() % 2 ? "inf" : "-1e30", out);
		break;
	case 2:
		fputs(rand() % 2 ? "9223372036854775807" : "-9223372036854775808", out);
		break;
	case 3:
		fputs(rand() % 2 ? "4611686018427387904" : "-4611686018427387905", out);
		break;
	case 4:
		fprintf(out, "'%c'", 'a' + rand() % 26);
		break;
	default:
		fprintf(out, "%lld", (long long)random_int());
	}
}

static void put_expression(FILE *out, int n_comparisons)
{
	static const char *const comparisons[] = { "==", "!=", "<", "<=", ">", ">=" };
	const int left = n_comparisons / 2;

	if (rand() % 4 == 0) {
		fputs("!(", out);
		put_expression(out, n_comparisons);
		fputc(')', out);
	} else if (n_comparisons > 1) {
		fputc('(', out);
		put_expression(out, left);
		fputs(rand() % 2 ? " && " : " || ", out);
		put_expression(out, n_comparisons - left);
		fputc(')', out);
	} else {
		fprintf(out, "arg%d %s ", rand() % N_ARGS, comparisons[rand() % 6]);
		put_literal(out);
	}
}

static char *random_text(void)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	put_expression(out, 1 + rand() % 9);
	fclose(out);
	return text;
}

/* ---- one filter ------------------------------------------------------------------------------ */

enum { SITE, WINDOW_SITE };

static struct tested {
	struct ocp_ctx *ctx;
	struct filter ops;
	struct hit_filter *model;
	struct site_args args;
	struct inside_filter code;
	struct code_block *block;
	int regs[N_ARGS]; /* where each argument is in what filter_hit() takes; -1: on the stack */
} t;

/* Put the arguments at random places; two may be at the same. */
static void choose_places(bool is_window)
{
	t.args = (struct site_args){ .n = N_ARGS };
	for (int i = 0; i < N_ARGS; i++) {
		do
			t.regs[i] = rand() % (N_REGS + 1) - 1;
		while (is_window && (t.regs[i] < 0 || t.regs[i] == R11));
		t.args.args[i] = (struct arg_spec){ .type = ARG_VALUE, .size = 8 };
		t.args.args[i].index = ARG_NO_REGISTER;
		t.args.args[i].kind = t.regs[i] < 0 ? ARG_MEMORY : ARG_REGISTER;
		t.args.args[i].base = (__u8)(t.regs[i] < 0 ? ARG_RSP : numbers[t.regs[i]]);
	}
}

static void make_filter(const char *text, bool is_window, uint32_t n_shards)
{
	struct inside_filters filters = { .filter = &t.ops };
	struct asked_names asked = { .n = 0 };
	struct code_spec spec = { .n_sites = 1,
				  .n_shards = n_shards,
				  .filters = { &t.code },
				  .is_window = { is_window } };
	const struct inside_filter *made;
	__u32 used;

	assert_int_equal(filter_parse(t.ctx, text, &asked, &t.ops, &used), 0);
	assert_int_equal(hit_filter_parse(t.ctx, text, &t.model), 0);
	choose_places(is_window);
	made = inside_filters_get(&filters, 0, 1, &t.args);
	assert_non_null(made);
	t.code = *made;
	inside_filters_free(&filters);
	t.block = code_block_new(&spec);
}

static void free_filter(void)
{
	hit_filter_free(t.model);
	code_block_free(t.block);
}

/* The last comparison of the filter whose argument is not an int, as it reports mismatches. */
static uint32_t last_unanswered(const uint64_t *values)
{
	uint32_t arg = 0;

	for (__u32 i = 0; i < t.ops.n_ops; i++)
		if (t.ops.ops[i].kind == FILTER_NUMBER && !(values[t.ops.ops[i].arg] & 1))
			arg = t.ops.ops[i].arg;
	return arg;
}

/* One hit with random values. Returns 1 if it matches. */
static int hit_once(bool is_window)
{
	uint64_t regs[N_REGS], after[N_REGS], values[N_ARGS], word = 0;
	const struct inside_filtered before = code_filtered(t.block);
	const uint64_t hits = code_hits(t.block, 0);
	static struct hit_record record;
	struct ocp_hit hit = { .record = &record, .n_args = N_ARGS, .arg_names = "" };
	struct inside_filtered now;
	bool is_unsure = false, matches;

	for (int i = 0; i < N_REGS; i++)
		regs[i] = (uint64_t)rand() << 32 | (uint32_t)rand();
	for (int i = 0; i < N_ARGS; i++) {
		/* One of six is not an int. */
		const uint64_t value =
			rand() % 6 ? (uint64_t)random_int() << 1 | 1 : (uint64_t)rand() << 4;

		*(t.regs[i] < 0 ? &word : &regs[t.regs[i]]) = value;
	}
	memset(&record, 0, sizeof(record));
	record.n_args = record.n_nodes = N_ARGS;
	for (int i = 0; i < N_ARGS; i++) {
		values[i] = t.regs[i] < 0 ? word : regs[t.regs[i]];
		record.nodes[i].kind = values[i] & 1 ? NODE_INT : NODE_CLOSURE;
		record.nodes[i].value = (uint64_t)((int64_t)values[i] >> 1);
	}
	matches = hit_filter_matches(t.model, &hit, &is_unsure);
	filter_hit(t.block->trampolines[0], regs, after, word);
	if (is_window)
		after[R11] = regs[R11];
	assert_memory_equal(regs, after, sizeof(regs));
	now = code_filtered(t.block);
	assert_int_equal(code_hits(t.block, 0), hits + matches);
	assert_int_equal(now.rejected, before.rejected + !matches);
	assert_int_equal(now.mismatches, before.mismatches + is_unsure);
	if (is_unsure)
		assert_int_equal(now.arg, last_unanswered(values));
	return matches;
}

static int test_filters(bool is_window)
{
	int n_matches = 0;

	t.ctx = ocp_ctx_new();
	for (int i = 0; i < N_FILTERS; i++) {
		char *text = random_text();

		make_filter(text, is_window, 1 + (uint32_t)i % 2);
		for (int j = 0; j < N_VALUES; j++)
			n_matches += hit_once(is_window);
		free_filter();
		free(text);
	}
	ocp_ctx_free(t.ctx);
	return n_matches;
}

TEST(verdicts_at_sites_are_those_of_the_kernel)
{
	srand(30);
	assert_in_range(test_filters(false), N_FILTERS * N_VALUES / 5,
			N_FILTERS * N_VALUES * 4 / 5);
}

TEST(verdicts_at_windows_are_those_of_the_kernel)
{
	srand(31);
	assert_in_range(test_filters(true), N_FILTERS * N_VALUES / 5, N_FILTERS * N_VALUES * 4 / 5);
}

/* The largest filter, and the deepest one, fit. */
TEST(large_filters_work)
{
	char wide[1024] = "arg0 == 1", deep[64];
	size_t n = strlen(wide);

	for (int i = 0; i < 15; i++)
		n += (size_t)snprintf(wide + n, sizeof(wide) - n, "%s",
				      i % 2 ? " && arg1 > 1099511627776"
					    : " || arg5 != 1099511627776");
	memset(deep, '!', 31);
	snprintf(deep + 31, sizeof(deep) - 31, "(arg2 > 5)");
	srand(32);
	t.ctx = ocp_ctx_new();
	for (int i = 0; i < 4; i++) {
		make_filter(i / 2 ? deep : wide, i % 2, 2);
		for (int j = 0; j < 200; j++)
			hit_once(i % 2);
		free_filter();
	}
	ocp_ctx_free(t.ctx);
}

/* The handler runs whether or not the hit matches: the filter is about what is measured. */
TEST(the_handler_does_not_depend_on_the_filter)
{
	struct code_spec spec = { .n_sites = 1, .n_shards = 2, .filters = { &code_rejects_all } };
	struct code_block *block = code_block_new(&spec);

	code_wrapper_runs = 0;
	assert_true(code_hit_checked(block->trampolines[0], 0));
	assert_int_equal(code_wrapper_runs, 0);
	*code_gate(block, 0) = 1;
	assert_true(code_hit_checked(block->trampolines[0], 0));
	assert_int_equal(code_wrapper_runs, 1);
	assert_int_equal(code_hits(block, 0), 0);
	assert_int_equal(code_filtered(block).rejected, 2);
	assert_true(code_hit_vectors(block->trampolines[0]));
	code_block_free(block);
}

/* Return the error of a site or window whose filter compares the value at PLACE. */
static int assemble_with(struct inside_place place, bool is_window)
{
	static const uint8_t ret[] = { 0xc3 };
	const struct inside_filter filter = { .n_ops = 1, .ops = { { .place = place } } };
	const struct block_header header = { .n_shards = 1, .code_off = 1 << 20 };
	const struct templates_process process = { 0 };
	const struct inside_site site = { .window = ret, .filter = &filter };
	const struct templates_site of_site = { .filter.filter = &filter };
	const struct templates_window of_window = { .site = &site,
						    .rest = { ret, 1 },
						    .filter.filter = &filter };
	struct ocp_ctx *ctx = ocp_ctx_new();
	uint8_t code[4096];
	const int err = is_window ? templates_window(ctx, &header, &process, &of_window, code)
				  : templates_site(ctx, &header, &process, &of_site, code);

	ocp_ctx_free(ctx);
	return err;
}

TEST(places_that_a_filter_cannot_read_are_refused)
{
	static const struct {
		struct inside_place place;
		bool at_site, at_window;
	} cases[] = {
		{ { INSIDE_REGISTER, 0 }, true, true },
		{ { INSIDE_REGISTER, 15 }, true, true },
		{ { INSIDE_REGISTER, 4 }, false, false },
		{ { INSIDE_REGISTER, 16 }, false, false },
		{ { INSIDE_REGISTER, -1 }, false, false },
		{ { INSIDE_REGISTER, 11 }, true, false },
		{ { INSIDE_STACK, 0 }, true, false },
		{ { INSIDE_STACK, 65536 }, true, false },
		{ { INSIDE_STACK, 65537 }, false, false },
		{ { INSIDE_STACK, -8 }, false, false },
		{ { INSIDE_CONSTANT, -1 }, true, true },
		{ { INSIDE_FRAME, 0 }, false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(assemble_with(cases[i].place, false),
				 cases[i].at_site ? 0 : -EINVAL);
		assert_int_equal(assemble_with(cases[i].place, true),
				 cases[i].at_window ? 0 : -EINVAL);
	}
}

TEST(what_is_no_int_is_refused)
{
	const struct filter_op with_string = { .kind = FILTER_STRING };
	const struct filter_op with_number = { .kind = FILTER_NUMBER };
	const struct arg_spec value = {
		.kind = ARG_REGISTER, .type = ARG_VALUE, .size = 8, .index = ARG_NO_REGISTER
	};
	struct arg_spec spec = value;

	assert_int_equal(inside_filter_check(&with_number, &value), INSIDE_FILTER_FINE);
	assert_int_equal(inside_filter_check(&with_string, &value), INSIDE_FILTER_STRING);
	spec.type = ARG_FLOAT;
	assert_int_equal(inside_filter_check(&with_number, &spec), INSIDE_FILTER_FOREIGN);
	spec = value;
	spec.kind = ARG_MEMORY;
	spec.base = ARG_RBX;
	assert_int_equal(inside_filter_check(&with_number, &spec), INSIDE_FILTER_PLACE);
}

/* Roles of a window are those of the part that the filter chooses. */
TEST(windows_reject_starts)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block;
	struct inside_pair totals;
	uint64_t regs[N_REGS] = { 0 }, after[N_REGS];
	const struct inside_filter above_3 = {
		.n_ops = 1,
		.ops = { { .comparison = INSIDE_GT, .place = { INSIDE_REGISTER, 3 }, .number = 3 } }
	};

	spec.filters[ENTER] = &above_3;
	spec.is_window[ENTER] = spec.is_window[EXIT] = true;
	for (int site = ENTER; site <= EXIT; site++) {
		spec.roles[site][0].is_keyed = true;
		spec.roles[site][0].key = (struct inside_place){ INSIDE_FRAME, 8 };
	}
	spec.n_sites = EXIT + 1;
	block = code_block_new(&spec);
	for (uint64_t i = 0; i < 10; i++) {
		regs[RBX] = i * 2 + 1;
		filter_hit(block->trampolines[ENTER], regs, after, 0);
		filter_hit(block->trampolines[EXIT], regs, after, 0);
	}
	totals = code_pair(block, 0);
	assert_int_equal(totals.starts, 6);
	assert_int_equal(totals.count, 6);
	assert_int_equal(totals.orphan_starts + totals.orphan_stops, 0);
	assert_int_equal(code_hits(block, ENTER), 6);
	assert_int_equal(code_hits(block, EXIT), 10);
	assert_int_equal(code_filtered(block).rejected, 4);
	code_block_free(block);
}
