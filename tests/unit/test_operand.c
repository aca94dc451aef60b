// SPDX-License-Identifier: MIT
/* The operands of notes, as read into specs; test_args_bpf.c tests what reads the specs. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "measure/args/operand.h"
#include "unit.h"

/* In the order of the fields. */
#define REGISTER(base, size, is_signed, is_value, shift)                                           \
	{                                                                                          \
		ARG_REGISTER, base, ARG_NO_REGISTER, 0, size, is_signed, is_value, shift, 0,       \
			{ 0 }, 0,                                                                  \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
#define MEMORY(number, base, index, shift)                                                         \
	{                                                                                          \
		ARG_MEMORY, base, index, shift, 8, 0, 1, 0, number, { 0 }, 0,                      \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}

static void assert_spec(const char *text, const struct arg_spec *expected)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct site_args args;
	int err = operand_parse(ctx, text, &args);

	if (err || memcmp(&args.args[0], expected, sizeof(*expected)) != 0)
		print_message("%s: %s\n", text, ocp_error(ctx));
	assert_int_equal(err, 0);
	assert_int_equal(args.n, 1);
	assert_int_equal(args.n_left_out, 0);
	assert_memory_equal(&args.args[0], expected, sizeof(*expected));
	ocp_ctx_free(ctx);
}

TEST(registers_are_understood)
{
	static const struct {
		const char *text;
		struct arg_spec spec;
	} cases[] = {
		{ "8@%rax", REGISTER(ARG_RAX, 8, 0, 1, 0) },
		{ "-8@%r15", REGISTER(ARG_R15, 8, 1, 0, 0) },
		{ "4@%eax", REGISTER(ARG_RAX, 4, 0, 0, 0) },
		{ "-4@%r8d", REGISTER(ARG_R8, 4, 1, 0, 0) },
		{ "2@%si", REGISTER(ARG_RSI, 2, 0, 0, 0) },
		{ "1@%bpl", REGISTER(ARG_RBP, 1, 0, 0, 0) },
		{ "1@%dh", REGISTER(ARG_RDX, 1, 0, 0, 8) },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_spec(cases[i].text, &cases[i].spec);
}

/* Each register by each of its names. */
TEST(all_registers_are_known)
{
	static const char *const whole[ARG_REGISTERS] = {
		"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10",
		"r9",  "r8",  "rax", "rcx", "rdx", "rsi", "rdi", "rsp",
	};
	static const char suffixes[] = { 'd', 'w', 'b' };

	for (unsigned int i = 0; i < ARG_RIP; i++) {
		const char *name = whole[i] + 1;
		bool is_numbered = *name >= '0' && *name <= '9';
		bool is_letter = name[1] == 'x';
		char text[4][16];

		snprintf(text[0], sizeof(text[0]), "8@%%%s", whole[i]);
		for (int part = 1; part <= 3 && is_numbered; part++)
			snprintf(text[part], sizeof(text[0]), "%d@%%%s%c", 8 >> part, whole[i],
				 suffixes[part - 1]);
		if (!is_numbered) {
			snprintf(text[1], sizeof(text[0]), "4@%%e%s", name);
			snprintf(text[2], sizeof(text[0]), "2@%%%s", name);
			snprintf(text[3], sizeof(text[0]), "1@%%%.*sl", is_letter ? 1 : 2, name);
		}
		for (int part = 0; part <= 3; part++) {
			struct arg_spec spec =
				REGISTER((__u8)i, (__u8)(8 >> part), 0, part == 0, 0);

			assert_spec(text[part], &spec);
		}
	}
}

TEST(memory_is_understood)
{
	static const struct {
		const char *text;
		struct arg_spec spec;
	} cases[] = {
		{ "8@(%rsp)", MEMORY(0, ARG_RSP, ARG_NO_REGISTER, 0) },
		{ "8@16(%rsp)", MEMORY(16, ARG_RSP, ARG_NO_REGISTER, 0) },
		{ "8@-0x10(%r9)", MEMORY(-16, ARG_R9, ARG_NO_REGISTER, 0) },
		{ "8@+4(%rdi)", MEMORY(4, ARG_RDI, ARG_NO_REGISTER, 0) },
		{ "8@8(%rbx,%rcx,8)", MEMORY(8, ARG_RBX, ARG_RCX, 3) },
		{ "8@(%rbx,%rcx)", MEMORY(0, ARG_RBX, ARG_RCX, 0) },
		{ "8@(%rbx,%rcx,2)", MEMORY(0, ARG_RBX, ARG_RCX, 1) },
		{ "8@64(,%rcx,4)", MEMORY(64, ARG_NO_REGISTER, ARG_RCX, 2) },
		{ "8@96(%rip)", MEMORY(96, ARG_RIP, ARG_NO_REGISTER, 0) },
		{ "8f@16(%rsp)",
		  { ARG_MEMORY,
		    ARG_RSP,
		    ARG_NO_REGISTER,
		    0,
		    8,
		    0,
		    ARG_FLOAT,
		    0,
		    16,
		    { 0 },
		    0,
		    { 0 } } },
		{ "8@4198400", MEMORY(4198400, ARG_NO_REGISTER, ARG_NO_REGISTER, 0) },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_spec(cases[i].text, &cases[i].spec);
}

/* What is read first stands innermost. */
TEST(memory_in_memory_is_understood)
{
	static const struct {
		const char *text;
		__s64 number;
		__s32 then[ARG_MAX_THEN];
		__u8 n_then;
	} cases[] = {
		{ "8@24(16(%rsp))", 16, { 24 }, 1 },
		{ "8@((%rsp))", 0, { 0 }, 1 },
		{ "8@(-8(+16(%rsp)))", 16, { -8, 0 }, 2 },
		{ "8@1(2(3(4(%rsp))))", 4, { 3, 2, 1 }, 3 },
		{ "8@-2147483648(2147483647((0x10(%rsp))))", 16, { 0, INT32_MAX, INT32_MIN }, 3 },
	};
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "8@1(2(3(4(5(%rsp)))))", "too many addresses in memory" },
		{ "8@24(16(%rsp)", ") is expected" },
		{ "8@24(16(%rsp)))", "unexpected text after the operand" },
		{ "8@24(16(%rsp)8)", ") is expected" },
		{ "8@24(16)", "unexpected text after the operand" },
		{ "8@2147483648(16(%rsp))", "the number does not fit into 32 bits" },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct site_args args;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arg_spec spec = MEMORY(cases[i].number, ARG_RSP, ARG_NO_REGISTER, 0);

		memcpy(spec.then, cases[i].then, sizeof(spec.then));
		spec.n_then = cases[i].n_then;
		assert_spec(cases[i].text, &spec);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(operand_parse(ctx, bad[i].text, &args), -EINVAL);
		if (!strstr(ocp_error(ctx), bad[i].why))
			fail_msg("%s: %s", bad[i].text, ocp_error(ctx));
	}
	ocp_ctx_free(ctx);
}

TEST(constants_are_cut_to_their_size)
{
	static const struct {
		const char *text;
		__s64 number;
	} cases[] = {
		{ "8@$3", 3 },
		{ "8@$-9223372036854775808", INT64_MIN },
		{ "8@$18446744073709551615", -1 },
		{ "8@$0xffffffffffffffff", -1 },
		{ "-4@$-5", -5 },
		{ "4@$-5", 0xfffffffb },
		{ "-4@$4294967295", -1 },
		{ "1@$300", 44 },
		{ "-1@$200", -56 },
		{ "-2@$0x7fff", 0x7fff },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct site_args args;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(operand_parse(ctx, cases[i].text, &args), 0);
		assert_int_equal(args.args[0].kind, ARG_CONSTANT);
		assert_int_equal(args.args[0].number, cases[i].number);
	}
	ocp_ctx_free(ctx);
}

TEST(what_is_not_read_is_unsupported)
{
	static const struct arg_spec unsupported = { .kind = ARG_UNSUPPORTED };
	static const char *const texts[] = {
		"8f@%xmm3",	  "-4f@%xmm0",
		"4f@16(%rsp)",	  "16@%xmm1",
		"8f@$3",	  "8@%fs:16",
		"8@$0",		  "8f@%rax",
		"8@%st",	  "8@sym(%rip)",
		"8@sym+4(%rip)",  "4@nums+8(%rax,%rax)",
		"8@sym",	  "8@.L4+16",
		"8@-8+sym(%rip)", "8@8+sym(%rip)",
		"8@(%eax)",	  "8@8(%rax,%ecx,8)",
		"8@$global",	  "8@$-global+8",
		"3@%eax",	  "8@_GLOBAL_OFFSET_TABLE_@x(%rip)",
		"8@-sym(%rax)",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_spec(texts[i], &unsupported);
}

TEST(malformed_operands_are_named)
{
	static const char *const cases[][2] = {
		{ "8", "operand 8: @ is expected after the size" },
		{ "8@", "operand 8@: a register, constant or address is expected" },
		{ "@%rax", "operand @%rax: it must begin with its size" },
		{ "%rax", "operand %rax: it must begin with its size" },
		{ "0@%rax", "operand 0@%rax: the size is wrong" },
		{ "65@%rax", "operand 65@%rax: the size is wrong" },
		{ "-9223372036854775808@%rax",
		  "operand -9223372036854775808@%rax: the size is wrong" },
		{ "8@%", "operand 8@%: a register is expected after %" },
		{ "8@%averylongname", "operand 8@%averylongname: a register is expected after %" },
		{ "8@%rax)", "operand 8@%rax): unexpected text after the operand" },
		{ "8@$", "operand 8@$: a number is expected" },
		{ "8@$-", "operand 8@$-: a number is expected" },
		{ "8@$18446744073709551616",
		  "operand 8@$18446744073709551616: the number does not fit into 64 bits" },
		{ "8@$-9223372036854775809",
		  "operand 8@$-9223372036854775809: the number does not fit into 64 bits" },
		{ "8@16x", "operand 8@16x: unexpected text after the operand" },
		{ "8@(rax)", "operand 8@(rax): a register is expected" },
		{ "8@()", "operand 8@(): a register is expected" },
		{ "8@(%rax", "operand 8@(%rax: ) is expected" },
		{ "8@(%rax,)", "operand 8@(%rax,): a register is expected" },
		{ "8@(%rax,%rcx,3)", "operand 8@(%rax,%rcx,3): the scale must be 1, 2, 4 or 8" },
		{ "8@(%rax,%rcx,16)", "operand 8@(%rax,%rcx,16): the scale must be 1, 2, 4 or 8" },
		{ "8@(%rax,%rcx,)", "operand 8@(%rax,%rcx,): the scale must be 1, 2, 4 or 8" },
		{ "8@4(%rax)5", "operand 8@4(%rax)5: unexpected text after the operand" },
		{ "8@%rax 4@", "operand 4@: a register, constant or address is expected" },
	};
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct site_args args;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = operand_parse(ctx, cases[i][0], &args);

		if (!err)
			print_message("%s\n", cases[i][0]);
		assert_int_equal(err, -EINVAL);
		assert_string_equal(ocp_error(ctx), cases[i][1]);
	}
	ocp_ctx_free(ctx);
}

TEST(a_list_is_read_in_order)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	char many[256] = "", huge[400];
	struct site_args args;

	assert_int_equal(operand_parse(ctx, "", &args), 0);
	assert_int_equal(args.n, 0);
	assert_int_equal(operand_parse(ctx, "  8@%rax\t-4@16(%rsp)  8@$3 ", &args), 0);
	assert_int_equal(args.n, 3);
	assert_int_equal(args.args[0].kind, ARG_REGISTER);
	assert_int_equal(args.args[1].kind, ARG_MEMORY);
	assert_int_equal(args.args[2].kind, ARG_CONSTANT);
	assert_int_equal(args.args[3].kind, ARG_NONE);
	for (int i = 0; i < 20; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "8@$%d ", i);
	assert_int_equal(operand_parse(ctx, many, &args), 0);
	assert_int_equal(args.n, ARGS_MAX);
	assert_int_equal(args.n_left_out, 4);
	assert_int_equal(args.args[ARGS_MAX - 1].number, ARGS_MAX - 1);
	memset(huge, '1', sizeof(huge));
	huge[sizeof(huge) - 1] = '\0';
	assert_int_equal(operand_parse(ctx, huge, &args), -EINVAL);
	assert_non_null(strstr(ocp_error(ctx), "...: too long"));
	ocp_ctx_free(ctx);
}
