// SPDX-License-Identifier: MIT
/* The records that bpf/args.bpf.h makes of OCaml values, in the kernel, as values and as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "args_hit.h"
#include "measure/args/value.h"
#include "ocaml_heap.h"
#include "unit.h"

ALONE;

static void assert_int(uint64_t value, int64_t number, const char *text)
{
	assert_string_equal(hit_value(value), text);
	assert_int_equal(hit_results()->number_type, FILTER_TYPE_INT);
	assert_int_equal(hit_results()->number, number);
}

static void assert_no_int(uint64_t value, const char *text)
{
	assert_string_equal(hit_value(value), text);
	assert_int_equal(hit_results()->number_type, FILTER_TYPE_OTHER);
}

static void assert_float(double number, const char *text)
{
	int64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	assert_string_equal(hit_value(of_double(number)), text);
	assert_int_equal(hit_results()->number_type, FILTER_TYPE_FLOAT);
	assert_int_equal(hit_results()->number, bits);
}

ALL_TESTS(args_hit_set_up, args_hit_tear_down);

TEST(integers_are_decoded)
{
	hit_or_skip();
	assert_int(of_int(42), 42, " 42");
	assert_int(of_int(-1), -1, " -1");
	assert_int(of_int('A'), 65, " 65");
	assert_int(of_int(INT64_MAX / 2), INT64_MAX / 2, " 4611686018427387903");
	assert_int(of_int(INT64_MIN / 2), INT64_MIN / 2, " -4611686018427387904");
	assert_int(of_custom("_j", 7), 7, " 7L");
	assert_int(of_custom("_j", (uint64_t)INT64_MIN), INT64_MIN, " -9223372036854775808L");
	assert_int(of_custom("_n", (uint64_t)-7), -7, " -7n");
	assert_int(of_custom("_i", 7), 7, " 7l");
	/* The upper half of an int32's word is not its own. */
	assert_int(of_custom("_i", 0x12345678ffffffffULL), -1, " -1l");
}

TEST(strings_are_decoded)
{
	char text[300], expected[320];

	hit_or_skip();
	assert_no_int(of_string(""), " \"\"");
	assert_no_int(of_string("seven77"), " \"seven77\"");
	assert_no_int(of_string("eight888"), " \"eight888\"");
	assert_no_int(of_bytes("a\0b\"\\\n\x01\xff", 8), " \"a\\000b\\\"\\\\\\n\\001\\255\"");
	memset(text, 'x', sizeof(text));
	snprintf(expected, sizeof(expected), " \"%.*s\"", RECORD_STRING, text);
	assert_string_equal(hit_value(of_bytes(text, RECORD_STRING)), expected);
	snprintf(expected, sizeof(expected), " \"%.*s\"... (300 bytes)", RECORD_STRING, text);
	assert_string_equal(hit_value(of_bytes(text, 300)), expected);
}

/* However long the others are, each of the most arguments gets some bytes. */
TEST(every_string_gets_some_bytes)
{
	char text[200], operands[ARGS_MAX * 32] = "";

	hit_or_skip();
	memset(text, 'y', sizeof(text));
	for (int i = 0; i < ARGS_MAX; i++)
		snprintf(operands + strlen(operands), 32, "8@$%" PRIu64 " ",
			 of_bytes(text, sizeof(text)));
	hit(operands);
	assert_int_equal(args_hit.record.n_args, ARGS_MAX);
	for (unsigned int i = 0; i < ARGS_MAX; i++) {
		struct value value = value_of_arg(&args_hit.record, i);

		assert_int_equal(value.kind, OCP_STRING);
		assert_int_equal(value.size, 200);
		assert_true(value.is_cut);
		assert_int_equal(value.n_bytes, i < 5 ? RECORD_STRING : RECORD_SHORT_STRING);
		assert_memory_equal(value.bytes, text, value.n_bytes);
	}
}

TEST(floats_are_decoded)
{
	uint64_t doubles = of_block(DOUBLE_ARRAY, 10);

	hit_or_skip();
	assert_float(3.14, " 3.14");
	assert_float(-2, " -2.");
	assert_float(0.1 + 0.2, " 0.30000000000000004");
	for (int i = 0; i < 10; i++)
		memcpy(words_of(doubles) + i, &(double){ i + 0.5 }, 8);
	assert_no_int(doubles, " [|0.5; 1.5; 2.5; 3.5; 4.5; 5.5; 6.5; 7.5; ... of 10|]");
	words_of(doubles)[-1] = 2 << 10 | DOUBLE_ARRAY;
	assert_no_int(doubles, " [|0.5; 1.5|]");
}

TEST(blocks_are_decoded)
{
	uint64_t inner;

	hit_or_skip();
	assert_no_int(of_fields(0, 2, of_int(1), of_string("x")), " (1, \"x\")");
	assert_no_int(of_fields(3, 2, of_int(1), of_int('B')), " tag3(1, 66)");
	assert_no_int(of_fields(0, 1, of_int(5)), " (5)");
	assert_no_int(of_block(0, 0), " [||]");
	assert_no_int(of_fields(0, 9, of_int(1), of_int(2), of_int(3), of_int(4), of_int(5),
				of_int(6), of_int(7), of_int(8), of_int(9)),
		      " (1, 2, 3, 4, 5, 6, 7, 8, ... of 9)");
	inner = of_fields(1, 1, of_int(4));
	inner = of_fields(1, 2, of_int(3), inner);
	inner = of_fields(1, 2, of_int(2), inner);
	inner = of_fields(1, 2, of_int(1), inner);
	assert_no_int(inner, " tag1(1, tag1(2, tag1(3, tag1(... of 1))))");
	assert_no_int(of_fields(0, 2, of_int(1), of_nowhere()), " (1, <unreadable>)");
	/* What is after it is read all the same. */
	assert_no_int(of_fields(0, 3, of_nowhere(), of_string("x"), of_int(1)),
		      " (<unreadable>, \"x\", 1)");
	assert_no_int(of_fields(0, 2, of_double(1.5), of_custom("_j", 3)), " (1.5, 3L)");
	/* Above its 46 bits of size a header may hold anything. */
	inner = of_fields(0, 2, of_int(1), of_int(2));
	words_of(inner)[-1] |= 0xffULL << 56;
	assert_no_int(inner, " (1, 2)");
}

TEST(lists_are_followed)
{
	uint64_t ints = of_list(3), list;

	hit_or_skip();
	assert_no_int(ints, " [1; 2; 3]");
	list = of_fields(0, 2, of_string("b"), of_int(0));
	list = of_fields(0, 2, of_string("a"), list);
	assert_no_int(list, " [\"a\"; \"b\"]");
	list = of_fields(0, 2, ints, of_fields(0, 2, ints, of_int(0)));
	assert_no_int(list, " [[1; 2; 3]; [1; 2; 3]]");
	assert_no_int(of_fields(0, 2, of_int(1), of_fields(0, 2, of_int(2), of_int(3))),
		      " (1, (2, 3))");
	/* 64 nodes: the first cell and two for each that follows, the last time one. */
	assert_no_int(of_list(100), " [1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15; 16; 17; "
				    "18; 19; 20; 21; 22; 23; 24; 25; 26; 27; 28; 29; 30; 31; 32; "
				    "...]");
	assert_no_int(of_list(31), " [1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15; 16; 17; "
				   "18; 19; 20; 21; 22; 23; 24; 25; 26; 27; 28; 29; 30; 31]");
}

TEST(a_cycle_ends)
{
	uint64_t cell = of_fields(0, 2, of_int(1), of_int(0)), knot;

	hit_or_skip();
	words_of(cell)[1] = cell;
	hit_value(cell);
	assert_int_equal(value_of_arg(&args_hit.record, 0).kind, OCP_LIST);
	assert_int_equal(args_hit.record.n_nodes, RECORD_NODES);
	knot = of_fields(1, 2, of_int(1), of_int(0));
	words_of(knot)[1] = knot;
	assert_no_int(knot, " tag1(1, tag1(1, tag1(1, tag1(... of 2))))");
}

TEST(room_is_shared)
{
	char operands[64];
	uint64_t pair = of_fields(0, 2, of_string("x"), of_int(2));

	hit_or_skip();
	snprintf(operands, sizeof(operands), "8@$%" PRIu64 " 8@$%" PRIu64, of_list(1000), pair);
	hit(operands);
	assert_non_null(strstr(args_hit.text, "; ...] (\"x\", 2)"));
}

TEST(other_blocks_are_named)
{
	hit_or_skip();
	assert_no_int(of_fields(CLOSURE, 2, of_int(1), of_int(1)), " <closure>");
	assert_no_int(of_fields(INFIX, 1, of_int(1)), " <closure>");
	assert_no_int(of_fields(LAZY, 1, of_int(1)), " <lazy>");
	assert_no_int(of_fields(FORWARD, 1, of_string("x")), " lazy \"x\"");
	assert_no_int(of_fields(OBJECT, 2, of_int(1), of_int(1)), " <object>");
	assert_no_int(of_fields(ABSTRACT, 1, of_int(1)), " <abstract>");
	assert_no_int(of_custom("_bigarr02\0and then some other bytes, 32", 0),
		      " <custom _bigarr02>");
	assert_no_int(of_custom("_jx\0and then some other bytes ......", 0), " <custom _jx>");
	assert_no_int(of_custom((const char *)(uintptr_t)of_nowhere(), 0), " <unreadable>");
	assert_no_int(0, " <unreadable>");
	assert_no_int(of_fields(0, 2, of_int(1), of_int(2)) + 2, " <unreadable>");
	assert_no_int(of_nowhere() + 8, " <unreadable>");
	/* Strings whose padding is no padding; of no words. */
	assert_no_int(of_fields(STRING, 1, 0x0800000000000000ULL), " <unreadable>");
	assert_no_int(of_block(STRING, 0), " <unreadable>");
	assert_no_int(of_header_only(0, 1), " <unreadable>");
	assert_no_int(of_header_only(STRING, 1), " <unreadable>");
	assert_no_int(of_header_only(DOUBLE, 1), " <unreadable>");
	assert_no_int(of_header_only(CUSTOM, 2), " <unreadable>");
	assert_no_int(of_header_only(0, 0), " [||]");
}

/* A string in a file, mapped but never touched: its page comes when it is read here. */
TEST(pages_are_fetched)
{
	const size_t page = 4096;
	uint64_t words[512] = { 0 };
	char *pages;
	FILE *f = tmpfile();

	hit_or_skip();
	assert_non_null(f);
	memcpy(words, words_of(of_string("from a file")) - 1, 3 * sizeof(words[0]));
	assert_int_equal(fwrite(words, sizeof(words), 1, f), 1);
	assert_int_equal(fflush(f), 0);
	pages = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(f), 0);
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_string_equal(hit_value((uint64_t)(uintptr_t)(pages + 8)), " \"from a file\"");
	assert_int_equal(munmap(pages, page), 0);
	fclose(f);
}

TEST(c_integers_are_no_values)
{
	hit_or_skip();
	args_hit.registers[ARG_RAX] = of_string("text");
	args_hit.registers[ARG_RBX] = 0xffffffff00000007ULL;
	hit("-8@%rax");
	assert_int_equal(hit_results()->number_type, FILTER_TYPE_INT);
	assert_int_equal(hit_results()->number, args_hit.registers[ARG_RAX]);
	assert_string_equal(hit("4@%ebx -4@%ebx 8@%rax -1@$65"), " 7 7 \"text\" 65");
	assert_int_equal(value_of_arg(&args_hit.record, 0).kind, OCP_C_INT);
}
