// SPDX-License-Identifier: MIT
/* What bpf/args.bpf.h makes of operands, keys and filters, in the kernel. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "args_hit.h"
#include "measure/args/value.h"
#include "ocaml_heap.h"
#include "unit.h"

ALONE;

/* ---- operands ------------------------------------------------------------------------------- */

static void assert_reads(const char *operands, uint64_t word)
{
	hit(operands);
	if (!hit_results()->read_ok || hit_results()->word != word)
		print_message("%s: %d, 0x%llx\n", operands, (int)hit_results()->read_ok,
			      hit_results()->word);
	assert_int_equal(hit_results()->read_ok, 1);
	assert_int_equal(hit_results()->word, word);
}

ALL_TESTS(args_hit_set_up, args_hit_tear_down);

TEST(registers_are_read)
{
	static const char *const names[ARG_RIP] = {
		"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10",
		"r9",  "r8",  "rax", "rcx", "rdx", "rsi", "rdi", "rsp",
	};
	char operand[16];

	hit_or_skip();
	for (unsigned int i = 0; i < ARG_RIP; i++)
		args_hit.registers[i] = 0x8070605040302010ULL + i * 0x0101010101010101ULL;
	/* Some virtual machines cannot return to a program whose rsp is not canonical: SIGSEGV. */
	args_hit.registers[ARG_RSP] &= 0x7fffffffffffULL;
	for (unsigned int i = 0; i < ARG_RIP; i++) {
		snprintf(operand, sizeof(operand), "8@%%%s", names[i]);
		assert_reads(operand, args_hit.registers[i]);
	}
}

TEST(parts_of_registers_are_extended)
{
	hit_or_skip();
	args_hit.registers[ARG_RDX] = 0xf1e2d3c4b5a69788ULL;
	assert_reads("4@%edx", 0xb5a69788ULL);
	assert_reads("-4@%edx", 0xffffffffb5a69788ULL);
	assert_reads("2@%dx", 0x9788);
	assert_reads("-2@%dx", 0xffffffffffff9788ULL);
	assert_reads("1@%dl", 0x88);
	assert_reads("-1@%dl", 0xffffffffffffff88ULL);
	assert_reads("1@%dh", 0x97);
	assert_reads("-1@%dh", 0xffffffffffffff97ULL);
	assert_reads("-8@%rdx", 0xf1e2d3c4b5a69788ULL);
	assert_reads("4@%rdx", 0xb5a69788ULL);
	args_hit.registers[ARG_RDX] = 0x7f;
	assert_reads("-1@%dl", 0x7f);
}

TEST(memory_is_read)
{
	static const uint64_t words[8] = { 0x1111111111111111, 0xf222222222222222,
					   0x3333333333333333, 0x4444444444444444,
					   0x5555555555555555, 0x6666666666666666,
					   0x7777777777777777, 0x8888888888888888 };
	static const uint64_t fixed = 0x123456789abcdef1;
	static const double two_and_a_half = 2.5;
	char operand[64];

	hit_or_skip();
	args_hit.registers[ARG_RSP] = args_hit.registers[ARG_RBX] = (uint64_t)(uintptr_t)&words[2];
	args_hit.registers[ARG_RCX] = 2;
	args_hit.registers[ARG_R9] = (uint64_t)-8;
	assert_reads("8@(%rsp)", words[2]);
	assert_reads("8@16(%rsp)", words[4]);
	assert_reads("8@-16(%rbx)", words[0]);
	assert_reads("8@0x10(%rsp,%rcx,8)", words[6]);
	assert_reads("8@(%rbx,%r9)", words[1]);
	assert_reads("8@8(%rbx,%r9,2)", words[1]);
	/* Static data, by its distance from the site; and a float as it is in memory. */
	snprintf(operand, sizeof(operand), "8@%td(%%rip)", (const char *)&fixed - args_hit_nop);
	assert_reads(operand, fixed);
	args_hit.registers[ARG_RBX] = (uint64_t)(uintptr_t)&two_and_a_half - 24;
	assert_string_equal(hit("8f@24(%rbx)"), " 2.5");
	args_hit.registers[ARG_RBX] = (uint64_t)(uintptr_t)&words[2];
	assert_reads("-4@-8(%rbx)", 0x22222222);
	assert_reads("-4@-4(%rbx)", 0xfffffffff2222222ULL);
	assert_reads("2@-2(%rbx)", 0xf222);
	assert_reads("-1@-1(%rbx)", 0xfffffffffffffff2ULL);
	snprintf(operand, sizeof(operand), "8@%#lx(,%%rcx,8)", (unsigned long)&words[1]);
	assert_reads(operand, words[3]);
	snprintf(operand, sizeof(operand), "8@%lu", (unsigned long)&words[5]);
	assert_reads(operand, words[5]);
}

TEST(constants_are_read)
{
	hit_or_skip();
	assert_reads("8@$3", 3);
	assert_reads("-4@$-5", (uint64_t)-5);
	assert_reads("4@$-5", 0xfffffffbU);
	assert_string_equal(hit("8@$3 8@$-1 -4@$-5 1@$200"), " 1 -1 -5 200");
}

TEST(what_cannot_be_read_is_said)
{
	struct site_args none = { .n = 2 };

	hit_or_skip();
	args_hit.registers[ARG_RAX] = of_nowhere();
	assert_string_equal(hit("8@(%rax) 8f@%xmm3 8@global(%rip) 8@%rax"),
			    " <unreadable> ? ? <unreadable>");
	assert_int_equal(hit_results()->read_ok, 0);
	assert_int_equal(hit_results()->number_type, FILTER_TYPE_OTHER);
	assert_int_equal(hit_results()->key_ok, 0);
	assert_string_equal(hit(""), "");
	assert_int_equal(hit_results()->read_ok, 0);
	assert_string_equal(hit_args(&none), " <unreadable> <unreadable>");
}

TEST(sixteen_arguments_are_recorded)
{
	hit_or_skip();
	assert_string_equal(hit("8@$1 8@$3 8@$5 8@$7 8@$9 8@$11 8@$13 8@$15 8@$17 8@$19 8@$21 "
				"8@$23 8@$25 8@$27 8@$29 8@$31 8@$33 8@$35"),
			    " 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ... and 2 more");
}

/* ---- keys ----------------------------------------------------------------------------------- */

static uint64_t key_of(uint64_t value)
{
	hit_value(value);
	assert_int_equal(hit_results()->key_ok, 1);
	return hit_results()->key;
}

static void keys_tell_values_apart(void **state)
{
	char text[100];
	uint64_t keys[] = {
		key_of(of_int(0)),
		key_of(of_int(1)),
		key_of(of_int(-1)),
		key_of(of_string("")),
		key_of(of_bytes("\0", 1)),
		key_of(of_string("a")),
		key_of(of_bytes("a\0", 2)),
		key_of(of_string("b")),
		key_of(of_string("a string of more than one word")),
		key_of(of_string("a string of more than one Word")),
	};

	uint64_t long_key;

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(keys[i], keys[j]);
	assert_int_equal(key_of(of_string("a")), keys[5]);
	assert_int_equal(key_of(of_custom("_j", 1)), keys[1]);
	memset(text, 'z', sizeof(text));
	assert_int_not_equal(key_of(of_bytes(text, 99)), key_of(of_bytes(text, 100)));
	long_key = key_of(of_bytes(text, 100));
	text[64] = 'y';
	assert_int_equal(key_of(of_bytes(text, 100)), long_key);
	text[63] = 'y';
	assert_int_not_equal(key_of(of_bytes(text, 100)), long_key);
	hit_value(of_double(1));
	assert_int_equal(hit_results()->key_ok, 0);
	hit_value(of_nowhere());
	assert_int_equal(hit_results()->key_ok, 0);
}

TEST(keys_need_bpf)
{
	hit_or_skip();
	keys_tell_values_apart(state);
}

/* ---- filters -------------------------------------------------------------------------------- */

TEST(filters_compare_integers)
{
	static const struct {
		const char *filter;
		bool expected[3]; /* of 99, 100, 101 */
	} cases[] = {
		{ "arg0 == 100", { false, true, false } }, { "arg0 = 100", { false, true, false } },
		{ "arg0 != 100", { true, false, true } },  { "arg0 < 100", { true, false, false } },
		{ "arg0 <= 100", { true, true, false } },  { "arg0 > 100", { false, false, true } },
		{ "arg0 >= 100", { false, true, true } },  { "arg0 > -1", { true, true, true } },
		{ "arg0 < 0x65", { true, true, false } },  { "arg1 == 0", { false, false, false } },
		{ "arg1 != 0", { false, false, false } },
	};

	hit_or_skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int j = 0; j < 3; j++) {
			args_hit.registers[ARG_RAX] = of_int(99 + j);
			assert_int_equal(hit_matches("8@%rax", cases[i].filter),
					 cases[i].expected[j]);
			args_hit.registers[ARG_RAX] = of_custom("_j", (uint64_t)(99 + j));
			assert_int_equal(hit_matches("8@%rax", cases[i].filter),
					 cases[i].expected[j]);
		}
	args_hit.registers[ARG_RAX] = of_string("100");
	assert_false(hit_matches("8@%rax", "arg0 == 100"));
	assert_false(hit_matches("8@%rax", "arg0 != 100"));
	assert_true(hit_matches("8@%rax", "!(arg0 == 100)"));
	assert_false(hit_matches("8@$1 8f@%xmm0", "arg1 != 0"));
}

/* Boxed and in memory, in the kernel; what the numbers of filter.c mean is test_filter.c's. */
TEST(filters_compare_floats)
{
	static const double reals[] = { -INFINITY, -1e300, -2,	  -0.0,	    0,
					0.25,	   2,	   1e300, INFINITY, NAN };
	static const struct {
		const char *filter;
		const char *expected; /* of each of them */
	} cases[] = {
		{ "arg0 == 0", "0001100000" },
		{ "arg0 == -0.0", "0001100000" },
		{ "arg0 != 0", "1110011111" },
		{ "arg0 < 0.25", "1111100000" },
		{ "arg0 <= 0.25", "1111110000" },
		{ "arg0 > -2", "0001111110" },
		{ "arg0 >= -2.", "0011111110" },
		{ "arg0 > 1e300", "0000000010" },
		{ "arg0 == inf", "0000000010" },
		{ "arg0 <= -1e300", "1100000000" },
		{ "!(arg0 <= inf)", "0000000001" },
		{ "arg0 >= -inf", "1111111110" },
		{ "arg0 > 0 && arg0 < 5", "0000011000" },
	};

	hit_or_skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t j = 0; j < sizeof(reals) / sizeof(reals[0]); j++) {
			const bool expected = cases[i].expected[j] == '1';

			args_hit.registers[ARG_RAX] = of_double(reals[j]);
			args_hit.registers[ARG_RBX] = (uint64_t)(uintptr_t)&reals[j] - 8;
			if (hit_matches("8@%rax", cases[i].filter) != expected ||
			    hit_results()->mismatch ||
			    hit_matches("8f@8(%rbx)", cases[i].filter) != expected ||
			    hit_results()->mismatch)
				fail_msg("%s is wrong of %g", cases[i].filter, reals[j]);
		}
	args_hit.registers[ARG_RAX] = of_int(1);
	assert_true(hit_matches("8@%rax", "arg0 < 1.5"));
	assert_true(hit_matches("8@%rax", "arg0 == 1."));
	assert_false(hit_matches("8@%rax", "arg0 > 1.5"));
	assert_true(hit_matches("-4@$-5", "arg0 > -5.5"));
}

static void assert_mismatch(const char *operands, const char *filter, unsigned int arg,
			    enum filter_type type, bool with_string)
{
	hit_matches(operands, filter);
	if (hit_results()->mismatch != filter_mismatch(arg, type, with_string))
		fail_msg("%s of %s: %#x", filter, operands, hit_results()->mismatch);
}

TEST(what_has_no_answer_is_told)
{
	/* arg0 is a string, arg1 is 100: arg0 == 1 has no answer. */
	static const struct {
		const char *filter;
		bool matches, is_told;
	} combined[] = {
		{ "arg1 == 100 || arg0 == 1", true, false },
		{ "arg0 == 1 || arg1 == 100", true, false },
		{ "arg1 == 99 || arg0 == 1", false, true },
		{ "arg0 == 1 || arg1 == 99", false, true },
		{ "arg1 == 99 && arg0 == 1", false, false },
		{ "arg0 == 1 && arg1 == 99", false, false },
		{ "arg1 == 100 && arg0 == 1", false, true },
		{ "!(arg1 == 99 && arg0 == 1)", true, false },
		{ "!(arg1 == 100 && arg0 == 1)", true, true },
		{ "!(arg0 == 1) && arg1 == 99", false, false },
		{ "!!(arg0 == 1) || arg1 == 99", false, true },
		{ "(arg0 == 1 || arg1 == 99) && arg1 == 98", false, false },
		{ "arg0 == 1 || arg0 == \"100\"", true, false },
	};

	hit_or_skip();
	args_hit.registers[ARG_RAX] = of_string("100");
	args_hit.registers[ARG_RBX] = of_int(100);
	args_hit.registers[ARG_RCX] = of_double(100);
	args_hit.registers[ARG_RDX] = of_fields(0, 1, of_int(1));
	args_hit.registers[ARG_RSI] = of_nowhere();
	args_hit.registers[ARG_RDI] = of_custom("_chan", 1);
	assert_mismatch("8@%rax", "arg0 == 100", 0, FILTER_TYPE_STRING, false);
	assert_mismatch("8@%rax", "arg0 != 100", 0, FILTER_TYPE_STRING, false);
	assert_mismatch("8@%rax", "arg0 != 1.5", 0, FILTER_TYPE_STRING, false);
	assert_mismatch("8@%rax 8@%rbx", "arg1 == \"a\"", 1, FILTER_TYPE_INT, true);
	assert_mismatch("8@%rax 8@%rbx", "arg1 ^= \"\"", 1, FILTER_TYPE_INT, true);
	assert_mismatch("4@%ebx", "arg0 == \"a\"", 0, FILTER_TYPE_INT, true);
	assert_mismatch("8@%rcx", "arg0 == \"a\"", 0, FILTER_TYPE_FLOAT, true);
	assert_mismatch("8@%rdx", "arg0 == 0", 0, FILTER_TYPE_OTHER, false);
	assert_mismatch("8@%rdx", "arg0 == \"a\"", 0, FILTER_TYPE_OTHER, true);
	assert_mismatch("8@%rdi", "arg0 == 0", 0, FILTER_TYPE_OTHER, false);
	assert_mismatch("8@%rsi", "arg0 == 0", 0, FILTER_TYPE_UNREADABLE, false);
	assert_mismatch("8@$1 8f@%xmm0", "arg1 != 0", 1, FILTER_TYPE_UNREADABLE, false);
	assert_mismatch("8@$1", "arg3 != 0", 3, FILTER_TYPE_UNREADABLE, false);
	/* Only where an answer could change the verdict. */
	for (size_t i = 0; i < sizeof(combined) / sizeof(combined[0]); i++) {
		hit_matches("8@%rax 8@%rbx", combined[i].filter);
		if ((hit_results()->mismatch != 0) != combined[i].is_told ||
		    hit_results()->matches != combined[i].matches)
			fail_msg("%s: %#x, %d", combined[i].filter, hit_results()->mismatch,
				 (int)hit_results()->matches);
	}
	assert_mismatch("8@%rax", "arg0 == 1 && arg0 == \"100\"", 0, FILTER_TYPE_STRING, false);
	assert_mismatch("8@%rax", "!(arg0 == 100)", 0, FILTER_TYPE_STRING, false);
	assert_true(hit_results()->matches);
	hit_matches("8@%rax 8@%rbx 8@%rcx", "arg0 == \"a\" && arg1 > 1.5 && arg2 < 7");
	assert_int_equal(hit_results()->mismatch, 0);
}

TEST(filters_compare_strings)
{
	char text[80];

	hit_or_skip();
	args_hit.registers[ARG_RAX] = of_string("/api/users");
	assert_true(hit_matches("8@%rax", "arg0 == \"/api/users\""));
	assert_false(hit_matches("8@%rax", "arg0 == \"/api/user\""));
	assert_false(hit_matches("8@%rax", "arg0 == \"/api/userz\""));
	assert_false(hit_matches("8@%rax", "arg0 == \"/api/users2\""));
	assert_false(hit_matches("8@%rax", "arg0 == \"\""));
	assert_false(hit_matches("8@%rax", "arg0 != \"/api/users\""));
	assert_true(hit_matches("8@%rax", "arg0 != \"/api/user\""));
	assert_true(hit_matches("8@%rax", "arg0 ^= \"/api/\""));
	assert_true(hit_matches("8@%rax", "arg0 ^= \"\""));
	assert_true(hit_matches("8@%rax", "arg0 ^= \"/api/users\""));
	assert_false(hit_matches("8@%rax", "arg0 ^= \"/api/users2\""));
	assert_false(hit_matches("8@%rax", "arg0 ^= \"/bpi/\""));
	args_hit.registers[ARG_RAX] = of_bytes("a\0", 2);
	assert_false(hit_matches("8@%rax", "arg0 == \"a\""));
	assert_true(hit_matches("8@%rax", "arg0 == \"a\\000\""));
	args_hit.registers[ARG_RAX] = of_int(5);
	assert_false(hit_matches("8@%rax", "arg0 != \"a\""));
	memset(text, 'q', sizeof(text));
	args_hit.registers[ARG_RAX] = of_bytes(text, 80);
	memcpy(text, "arg0 ^= \"", 9);
	text[9 + 64] = '"';
	text[9 + 65] = '\0';
	assert_true(hit_matches("8@%rax", text));
	text[9 + 63] = 'p';
	assert_false(hit_matches("8@%rax", text));
}

/* Every combination of three truths. */
TEST(filters_combine)
{
	hit_or_skip();
	for (int bits = 0; bits < 8; bits++) {
		bool a = bits & 1, b = bits & 2, c = bits & 4;

		args_hit.registers[ARG_RAX] = of_int(a);
		args_hit.registers[ARG_RBX] = of_int(b);
		args_hit.registers[ARG_RCX] = of_int(c);
#define TRUE_OF(n) "arg" #n " == 1"
		assert_int_equal(hit_matches("8@%rax 8@%rbx 8@%rcx",
					     TRUE_OF(0) " && " TRUE_OF(1) " || " TRUE_OF(2)),
				 (a && b) || c);
		assert_int_equal(hit_matches("8@%rax 8@%rbx 8@%rcx",
					     TRUE_OF(0) " || " TRUE_OF(1) " && " TRUE_OF(2)),
				 a || (b && c));
		assert_int_equal(hit_matches("8@%rax 8@%rbx 8@%rcx",
					     "!(" TRUE_OF(0) " || " TRUE_OF(1) ") && !" TRUE_OF(2)),
				 !(a || b) && !c);
		assert_int_equal(hit_matches("8@%rax 8@%rbx 8@%rcx",
					     TRUE_OF(0) " && (" TRUE_OF(1) " || !!" TRUE_OF(2) ")"),
				 a && (b || c));
	}
	args_hit.filter = (struct filter){ 0 };
	hit("8@%rax");
	assert_int_equal(hit_results()->matches, 1);
}
