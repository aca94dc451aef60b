// SPDX-License-Identifier: MIT
/* Where a uprobe sees the first argument of a function, in this file's own code. */
#include "code_asm.h"

#include "profile/allocation.h"

static struct entry_place find(struct code *code, const char *start, size_t n)
{
	/* The link-time address of `other` is known; the distance is that of the labels. */
	const uint64_t base = code->entries[0] - (uint64_t)(uintptr_t)other;
	const struct named_symbol symbol = { .va = (uint64_t)(uintptr_t)start + base,
					     .bytes = n,
					     .is_defined = true };
	struct entry_place place;

	assert_int_equal(entry_place_find(code->ctx, code->file, &symbol, &place), 0);
	place.va -= symbol.va;
	return place;
}

#define FIND(code, name)      find(code, name, SIZE(name))
#define DISTANCE(label, name) ((uintptr_t)(label) - (uintptr_t)(name))

/* As caml_alloc_shr: of OCaml 4.13 and of OCaml 5. */
FUNCTION(argument,
	 "mov %rdi, %rax\n" L(argument_push) "push %r12\nshr $54, %rax\npush %rbp\njne 1f\n"
					     "pop %rbp\npop %r12\nret\n1: ud2");
LABEL(argument_push);
FUNCTION(loads, "mov 8(%rip), %rax\nsub $8, %rsp\n" L(loads_call) "call other\nadd $8, %rsp\nret");
LABEL(loads_call);
FUNCTION(pushes, "push %rbx\nmov %rdi, %rbx\ncall other\npop %rbx\nret");

ALL_TESTS(code_open_self, code_close_self);

TEST(emulated_places)
{
	struct entry_place place = FIND(*state, argument);

	assert_int_equal(place.va, DISTANCE(argument_push, argument));
	assert_false(place.is_stepped);
	place = FIND(*state, loads);
	assert_int_equal(place.va, DISTANCE(loads_call, loads));
	assert_false(place.is_stepped);
	place = FIND(*state, pushes);
	assert_int_equal(place.va, 0);
	assert_false(place.is_stepped);
}

/* Before the emulated instruction, the argument is changed (whole, or a part), or memory is. */
FUNCTION(moves, "mov %rsi, %rdi\npush %rbx\npop %rbx\nret");
FUNCTION(narrows, "mov %esi, %edi\npush %rbx\npop %rbx\nret");
FUNCTION(stores, "mov %rdi, (%rsi)\npush %rbx\npop %rbx\nret");
FUNCTION(adds, "addq $8, 8(%rsi)\npush %rbx\npop %rbx\nret");
/* No instruction is executed once but stepped ones. */
FUNCTION(rounds, "mov %rdi, %rax\n1: dec %rax\njne 1b\nret");

TEST(entries)
{
	const struct entry_place places[] = {
		FIND(*state, moves), FIND(*state, narrows), FIND(*state, stores),
		FIND(*state, adds),  FIND(*state, rounds),
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		assert_int_equal(places[i].va, 0);
		assert_true(places[i].is_stepped);
	}
}
