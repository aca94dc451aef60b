// SPDX-License-Identifier: MIT
/*
 * Records as text and as trees, on hand-made records; test_args_bpf.c makes them in the kernel.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/args/value.h"
#include "unit.h"

/* A record under construction. Children follow later, in the order of their parents. */
static struct hit_record record;

static void begin(unsigned int n_args)
{
	memset(&record, 0, sizeof(record));
	record.n_args = (__u16)n_args;
}

static struct value_node *put(enum node_kind kind, __u64 value)
{
	struct value_node *node = &record.nodes[record.n_nodes++];

	assert_true(record.n_nodes <= RECORD_NODES);
	*node = (struct value_node){ .kind = (__u8)kind, .value = value };
	return node;
}

static void put_bytes(enum node_kind kind, const char *bytes, size_t n, __u64 size)
{
	struct value_node *node = put(kind, 0);

	node->size = size;
	node->at = record.n_text;
	node->n = (__u16)n;
	memcpy(record.text + record.n_text, bytes, n);
	record.n_text = (__u16)(record.n_text + n);
}

/* With N fields of SIZE, which stand from AT on. */
static void put_parent(enum node_kind kind, unsigned int tag, __u64 size, unsigned int at,
		       unsigned int n)
{
	struct value_node *node = put(kind, 0);

	node->tag = (__u8)tag;
	node->size = size;
	node->at = (__u16)at;
	node->n = (__u16)n;
}

static void put_double(double number)
{
	__u64 bits;

	memcpy(&bits, &number, sizeof(bits));
	put(NODE_DOUBLE, bits);
}

static void assert_text(const char *expected)
{
	size_t n;
	char *text = NULL;
	FILE *out = open_memstream(&text, &n);

	assert_non_null(out);
	assert_true(value_record_is_sound(&record, sizeof(record)));
	value_write_args(out, &record, "");
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

TEST(numbers_are_written)
{
	begin(8);
	put(NODE_INT, 42);
	put(NODE_INT, (__u64)-42);
	put(NODE_INT, 'z');
	put(NODE_INT, '[');
	put(NODE_C_INT, 'z');
	put(NODE_INT64, 7);
	put(NODE_INT32, (__u64)-7);
	put(NODE_NATIVEINT, 'A');
	assert_text(" 42 -42 122 91 122 7L -7l 65n");
}

TEST(floats_are_written)
{
	static const struct {
		double number;
		const char *text;
	} cases[] = {
		{ 0, " 0." },
		{ -0.0, " -0." },
		{ 3.14, " 3.14" },
		{ 1e22, " 1e+22" },
		{ 1e300, " 1e+300" },
		{ 123456789, " 123456789." },
		{ 0.1, " 0.1" },
		{ 1.0 / 3, " 0.3333333333333333" },
		{ 5e-324, " 4.94065645841e-324" },
		{ INFINITY, " inf" },
		{ -INFINITY, " -inf" },
		{ NAN, " nan" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(1);
		put_double(cases[i].number);
		assert_text(cases[i].text);
	}
}

static void assert_string_text(const char *bytes, size_t n, const char *expected)
{
	begin(1);
	put_bytes(NODE_STRING, bytes, n, n);
	assert_text(expected);
}

TEST(strings_never_reach_a_terminal_raw)
{
	assert_string_text("", 0, " \"\"");
	assert_string_text("it's", 4, " \"it's\"");
	assert_string_text("a\"b\\c", 5, " \"a\\\"b\\\\c\"");
	assert_string_text("\n\t\r\b\0\033[2J\177", 10, " \"\\n\\t\\r\\b\\000\\027[2J\\127\"");
	assert_string_text("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xab", 10,
			   " \"h\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xab\"");
	/* A character cut, a lone continuation, Latin-1. */
	assert_string_text("\xe2\x82", 2, " \"\\226\\130\"");
	assert_string_text("\x80\xff", 2, " \"\\128\\255\"");
	assert_string_text("\xe9t", 2, " \"\\233t\"");
	/* Longer than need be, a surrogate, beyond Unicode, C1 controls, right-to-left override. */
	assert_string_text("\xc0\xaf", 2, " \"\\192\\175\"");
	assert_string_text("\xed\xa0\x80", 3, " \"\\237\\160\\128\"");
	assert_string_text("\xf4\x90\x80\x80", 4, " \"\\244\\144\\128\\128\"");
	assert_string_text("\xc2\x9b", 2, " \"\\194\\155\"");
	assert_string_text("\xe2\x80\xae", 3, " \"\\226\\128\\174\"");
}

TEST(cut_strings_tell_their_length)
{
	begin(3);
	put_bytes(NODE_STRING, "abc", 3, 1234);
	put_bytes(NODE_STRING, "", 0, 5);
	put_bytes(NODE_STRING, "xyz", 3, 3);
	assert_text(" \"abc\"... (1234 bytes) \"\"... (5 bytes) \"xyz\"");
}

TEST(blocks_are_written)
{
	begin(6);
	put_parent(NODE_BLOCK, 0, 2, 6, 2);
	put_parent(NODE_BLOCK, 3, 9, 8, 1);
	put_parent(NODE_BLOCK, 200, 4, 0, 0);
	put_parent(NODE_BLOCK, 0, 0, 0, 0);
	put_parent(NODE_DOUBLES, 254, 2, 9, 2);
	put_parent(NODE_FORWARD, 250, 1, 11, 1);
	put(NODE_INT, 1);
	put_bytes(NODE_STRING, "x", 1, 1);
	put(NODE_INT, 'A');
	put_double(1);
	put_double(2.5);
	put(NODE_INT, 9);
	assert_text(" (1, \"x\") tag3(65, ... of 9) tag200(... of 4) [||] [|1.; 2.5|] lazy 9");
}

TEST(the_rest_is_named)
{
	begin(10);
	put(NODE_CLOSURE, 0);
	put(NODE_LAZY, 0);
	put(NODE_FORWARD, 0);
	put(NODE_OBJECT, 0);
	put(NODE_ABSTRACT, 0);
	put(NODE_UNREADABLE, 0);
	put(NODE_UNSUPPORTED, 0);
	put_bytes(NODE_CUSTOM, "_chan\0secret", 12, 2);
	put_bytes(NODE_CUSTOM, "", 0, 2);
	put_bytes(NODE_CUSTOM, "a\nb", 3, 2);
	assert_text(" <closure> <lazy> <lazy> <object> <abstract> <unreadable> ? "
		    "<custom _chan> <custom> <custom a\\nb>");
	record.n_left_out = 3;
	record.n_args = record.n_nodes = 1;
	assert_text(" <closure> ... and 3 more");
}

TEST(what_looks_like_a_list_is_one)
{
	struct value list, item;

	begin(1);
	put_parent(NODE_BLOCK, 0, 2, 1, 2);
	put(NODE_INT, 'A');
	put_parent(NODE_BLOCK, 0, 2, 3, 2);
	put_bytes(NODE_STRING, "b", 1, 1);
	put(NODE_INT, 0);
	assert_text(" [65; \"b\"]");
	list = value_of_arg(&record, 0);
	assert_int_equal(list.kind, OCP_LIST);
	assert_int_equal(list.n_items, 2);
	assert_false(list.is_cut);
	item = value_item(&list, 0);
	assert_int_equal(item.kind, OCP_INT);
	assert_int_equal(item.number, 'A');
	item = value_item(&list, 1);
	assert_int_equal(item.kind, OCP_STRING);
	assert_int_equal(item.n_bytes, 1);

	record.nodes[4].value = 1;
	assert_text(" (65, (\"b\", 1))");
	record.nodes[4].kind = NODE_UNREADABLE;
	assert_text(" (65, (\"b\", <unreadable>))");
	record.nodes[2].tag = 1;
	assert_text(" (65, tag1(\"b\", <unreadable>))");
}

TEST(cut_lists_say_so)
{
	begin(1);
	put_parent(NODE_BLOCK, 0, 2, 1, 2);
	put(NODE_INT, 1);
	put_parent(NODE_BLOCK, 0, 2, 3, 1);
	put(NODE_INT, 2);
	assert_text(" [1; 2; ...]");
	record.nodes[2].n = 0;
	record.n_nodes = 3;
	assert_text(" [1; ...]");
	record.nodes[0].n = 0;
	record.n_nodes = 1;
	assert_text(" (... of 2)");
}

TEST(trees_are_walked)
{
	struct value block, item;

	begin(2);
	put_parent(NODE_BLOCK, 3, 9, 2, 2);
	put_parent(NODE_DOUBLES, 254, 2, 4, 2);
	put(NODE_INT64, 5);
	put_bytes(NODE_CUSTOM, "_chan\0xx", 8, 2);
	put_double(1);
	put_double(2.5);
	assert_true(value_record_is_sound(&record, sizeof(record)));
	block = value_of_arg(&record, 0);
	assert_int_equal(block.kind, OCP_BLOCK);
	assert_int_equal(block.tag, 3);
	assert_int_equal(block.size, 9);
	assert_int_equal(block.n_items, 2);
	assert_true(block.is_cut);
	item = value_item(&block, 0);
	assert_int_equal(item.kind, OCP_INT64);
	assert_int_equal(item.number, 5);
	item = value_item(&block, 1);
	assert_int_equal(item.kind, OCP_CUSTOM);
	assert_int_equal(item.n_bytes, 5);
	assert_false(item.is_cut);
	block = value_of_arg(&record, 1);
	assert_int_equal(block.kind, OCP_FLOATS);
	assert_false(block.is_cut);
	item = value_item(&block, 1);
	assert_int_equal(item.kind, OCP_FLOAT);
	assert_true(item.real == 2.5);
	assert_string_equal(ocp_value_kind_name(item.kind), "float");
	assert_string_equal(ocp_value_kind_name(OCP_UNSUPPORTED), "unsupported");
}

static void assert_unsound(void)
{
	assert_false(value_record_is_sound(&record, sizeof(record)));
}

/* (1, "x") */
static void begin_pair(void)
{
	begin(1);
	put_parent(NODE_BLOCK, 0, 2, 1, 2);
	put(NODE_INT, 1);
	put_bytes(NODE_STRING, "x", 1, 1);
}

TEST(unsound_records_are_told)
{
	begin_pair();
	assert_true(value_record_is_sound(&record, sizeof(record)));
	assert_false(value_record_is_sound(&record, sizeof(record) - 1));
	record.n_args = ARGS_MAX + 1;
	assert_unsound();
	begin_pair();
	record.n_args = 4;
	assert_unsound();
	begin_pair();
	record.n_nodes = RECORD_NODES + 1;
	assert_unsound();
	begin_pair();
	record.n_text = RECORD_TEXT + 1;
	assert_unsound();
	begin_pair();
	record.n_text = 0;
	assert_unsound();
	begin_pair();
	record.nodes[2].at = 65535;
	assert_unsound();
	begin_pair();
	record.nodes[2].size = 0;
	assert_unsound();
	begin_pair();
	record.nodes[1].kind = NODE_PENDING;
	assert_unsound();
	begin_pair();
	record.nodes[1].kind = NODE_KINDS;
	assert_unsound();
	begin_pair();
	record.nodes[1].n = 1;
	assert_unsound();
	begin_pair();
	record.nodes[0].at = 0;
	assert_unsound();
	begin_pair();
	record.nodes[0].at = 2;
	assert_unsound();
	begin_pair();
	record.nodes[0].n = record.nodes[0].size = 3;
	assert_unsound();
	begin_pair();
	record.nodes[0].n = 1;
	assert_unsound();
	begin_pair();
	record.nodes[0].size = 1;
	assert_unsound();
	/* A child of two. */
	begin(2);
	put_parent(NODE_BLOCK, 0, 1, 2, 1);
	put_parent(NODE_BLOCK, 0, 1, 2, 1);
	put(NODE_INT, 1);
	assert_unsound();
	record.nodes[1].at = 3;
	put(NODE_INT, 2);
	assert_true(value_record_is_sound(&record, sizeof(record)));
}
