// SPDX-License-Identifier: MIT
/* Where parameters of handlers come from, read from wrappers in machine code. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "program/dormant/x86_wrapper.h"
#include "unit.h"

enum { RBX = 3, VA = 0x401000 };

/* Two parameters: the word at 16 from the site's stack pointer, and %rbx. */
static const uint8_t good[] = {
	0x48, 0x83, 0xec, 0x28,	      /* sub $40,%rsp */
	0x48, 0x89, 0x5c, 0x24, 0x20, /* mov %rbx,32(%rsp) */
	0x4c, 0x89, 0x7c, 0x24, 0x10, /* mov %r15,16(%rsp) */
	0x4c, 0x8b, 0x7c, 0x24, 0x40, /* mov 64(%rsp),%r15 */
	0x4c, 0x89, 0x3c, 0x24,	      /* mov %r15,(%rsp) */
	0x48, 0x89, 0x5c, 0x24, 0x08, /* mov %rbx,8(%rsp) */
	0x48, 0x8b, 0x04, 0x24,	      /* mov (%rsp),%rax */
	0x48, 0x8b, 0x5c, 0x24, 0x08, /* mov 8(%rsp),%rbx */
	0x4c, 0x8b, 0x7c, 0x24, 0x10, /* mov 16(%rsp),%r15 */
	0xe8, 0x00, 0x01, 0x00, 0x00, /* call */
};

/* BYTES in memory of exactly their size, so that a read beyond them is seen. */
static const char *find(const uint8_t *bytes, size_t n_bytes, size_t n, struct x86_place *places)
{
	struct x86_code code = { .bytes = malloc(n_bytes ? n_bytes : 1), .va = VA };
	const char *fault;

	assert_non_null(code.bytes);
	memcpy(code.bytes, bytes, n_bytes);
	code.n_bytes = n_bytes;
	fault = x86_find_params(&code, 0, n, places);
	free(code.bytes);
	return fault;
}

TEST(a_wrapper_says_where_parameters_are)
{
	struct x86_place places[X86_WRAPPER_PARAMS];

	assert_null(find(good, sizeof(good), 2, places));
	assert_int_equal(places[0].kind, X86_PLACE_STACK);
	assert_int_equal(places[0].off, 16);
	assert_int_equal(places[1].kind, X86_PLACE_REGISTER);
	assert_int_equal(places[1].reg, RBX);
	/* It has no eleventh: the words at its stack pointer are not as many. */
	assert_non_null(find(good, sizeof(good), 14, places));
	assert_non_null(find(good, sizeof(good), X86_WRAPPER_PARAMS + 1, places));
}

TEST(what_is_cut_off_says_nothing)
{
	struct x86_place places[X86_WRAPPER_PARAMS];

	for (size_t n = 0; n < sizeof(good); n++)
		assert_non_null(find(good, n, 2, places));
}

/* Whatever the bytes are, the walk ends, and what it says of the stack is in the caller's frame. */
TEST(changed_wrappers_do_no_harm)
{
	struct x86_place places[X86_WRAPPER_PARAMS];
	uint8_t bytes[sizeof(good)];

	for (size_t at = 0; at < sizeof(good); at++)
		for (unsigned int value = 0; value < 256; value++) {
			memcpy(bytes, good, sizeof(good));
			bytes[at] = (uint8_t)value;
			if (find(bytes, sizeof(bytes), 2, places))
				continue;
			for (int i = 0; i < 2; i++)
				if (places[i].kind == X86_PLACE_STACK)
					assert_true(places[i].off >= 0 && places[i].off % 8 == 0);
		}
}

#define EXPECT_FAULT(...)                                                                          \
	do {                                                                                       \
		static const uint8_t bytes[] = { __VA_ARGS__ };                                    \
		assert_non_null(find(bytes, sizeof(bytes), 1, places));                            \
	} while (0)

#define CALL 0xe8, 0, 0, 0, 0

TEST(what_is_no_wrapper_says_nothing)
{
	struct x86_place places[X86_WRAPPER_PARAMS];

	EXPECT_FAULT(0xeb, 0xfe, CALL);			  /* jmp to itself */
	EXPECT_FAULT(0x90, 0xeb, 0xfd, CALL);		  /* and to before */
	EXPECT_FAULT(0x74, 0x00, CALL);			  /* je */
	EXPECT_FAULT(0x72, 0x00, CALL);			  /* jb without a test of the stack */
	EXPECT_FAULT(0xc3, CALL);			  /* ret */
	EXPECT_FAULT(0x48, 0x83, 0xc4, 0x08, CALL);	  /* the return address is dropped */
	EXPECT_FAULT(0x58, CALL);			  /* pop %rax, of it */
	EXPECT_FAULT(0x48, 0x89, 0xdc, CALL);		  /* mov %rbx,%rsp */
	EXPECT_FAULT(0x48, 0x89, 0x03, CALL);		  /* mov %rax,(%rbx) */
	EXPECT_FAULT(0x48, 0x89, 0x44, 0x24, 0x08, CALL); /* the caller's frame is changed */
	EXPECT_FAULT(0x48, 0x89, 0x44, 0x24, 0xfc, CALL); /* half of two words */
	EXPECT_FAULT(0x48, 0x81, 0xec, 0xff, 0xff, 0xff, 0x7f, 0x48, 0x81, 0xec, 0xff, 0xff, 0xff,
		     0x7f, CALL); /* sub $0x7fffffff,%rsp, twice */
}

/*
 * Nobody's word is believed to be an argument: what the wrapper has not written, its own address.
 */
TEST(other_values_are_unknown)
{
	static const uint8_t own[] = { 0x48, 0x8b, 0x04, 0x24, CALL };	       /* mov (%rsp),%rax */
	static const uint8_t below[] = { 0x48, 0x8b, 0x44, 0x24, 0xf8, CALL }; /* -8(%rsp) */
	static const uint8_t address[] = { 0x48, 0x8d, 0x44, 0x24, 0x10, CALL }; /* lea */
	static const uint8_t field[] = { 0x48, 0x8b, 0x43, 0x08, CALL };	 /* 8(%rbx) */
	struct x86_place places[X86_WRAPPER_PARAMS];

	assert_null(find(own, sizeof(own), 1, places));
	assert_int_equal(places[0].kind, X86_PLACE_UNKNOWN);
	assert_null(find(below, sizeof(below), 1, places));
	assert_int_equal(places[0].kind, X86_PLACE_UNKNOWN);
	assert_null(find(address, sizeof(address), 1, places));
	assert_int_equal(places[0].kind, X86_PLACE_UNKNOWN);
	assert_null(find(field, sizeof(field), 1, places));
	assert_int_equal(places[0].kind, X86_PLACE_UNKNOWN);
}

/* Thousands of instructions that lead nowhere. */
TEST(long_code_is_left)
{
	struct x86_place places[X86_WRAPPER_PARAMS];
	uint8_t nops[5000];

	memset(nops, 0x90, sizeof(nops));
	nops[sizeof(nops) - 5] = 0xe8;
	assert_non_null(find(nops, sizeof(nops), 1, places));
}
