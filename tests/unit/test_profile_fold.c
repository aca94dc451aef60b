// SPDX-License-Identifier: MIT
/* Stacks that are shortened for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile_fold.h"
#include "unit.h"

enum { MAX_FRAMES = 16, MAX_STACKS = 4 };

/* A profile of stacks that are given as text: "A B C", outermost first. */
struct made_stacks {
	struct profile profile;
	struct named_frame frames[MAX_STACKS][MAX_FRAMES];
	char text[MAX_STACKS][MAX_FRAMES][32];
};

static void add_stack(struct made_stacks *made, const char *functions, uint64_t value)
{
	const size_t number = made->profile.n;
	struct named_stack *stack;
	int bytes;

	made->profile.stacks = made->profile.stacks
				       ? made->profile.stacks
				       : calloc(MAX_STACKS, sizeof(*made->profile.stacks));
	assert_non_null(made->profile.stacks);
	stack = &made->profile.stacks[made->profile.n++];
	*stack = (struct named_stack){ .samples = 1, .value = value };
	stack->frames = calloc(MAX_FRAMES, sizeof(*stack->frames));
	assert_non_null(stack->frames);
	for (; sscanf(functions, "%31s%n", made->text[number][stack->n], &bytes) == 1;
	     functions += bytes) {
		struct named_frame *frame = &made->frames[number][stack->n];

		*frame = (struct named_frame){
			.function = made->text[number][stack->n],
			.kind = strncmp(functions + strspn(functions, " "), "c_", 2) == 0
					? FRAME_C
					: FRAME_OCAML,
			.line = (uint32_t)stack->n + 1,
		};
		stack->frames[stack->n++] = frame;
	}
	made->profile.value += value;
	made->profile.samples++;
}

static void assert_stack(const struct made_stacks *made, size_t i, const char *functions,
			 uint64_t value)
{
	const struct named_stack *stack = &made->profile.stacks[i];
	char text[512] = "";

	assert_true(i < made->profile.n);
	for (size_t j = 0; j < stack->n; j++) {
		strcat(text, j ? " " : "");
		strcat(text, stack->frames[j]->function);
	}
	assert_string_equal(text, functions);
	assert_int_equal(stack->value, value);
}

static void fold_and_check(const char *before, const char *after)
{
	struct made_stacks made = { 0 };

	add_stack(&made, before, 7);
	profile_fold_repeats(&made.profile);
	assert_stack(&made, 0, after, 7);
	profile_free(&made.profile);
}

TEST(repeats_are_shown_once)
{
	fold_and_check("A B C", "A B C");
	fold_and_check("A A A B", "A B");
	fold_and_check("A B A B A B C", "A B C");
	fold_and_check("A B C B C B D", "A B C B D");
	fold_and_check("A B C D A B C D E", "A B C D E");
	fold_and_check("A B A", "A B A");
	fold_and_check("A A B A A B", "A B");
}

/* A chain of eight functions is recognised, one of nine is not. */
TEST(longest_chain)
{
	fold_and_check("1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8");
	fold_and_check("1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7", "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7");
}

TEST(innermost_frames_are_kept)
{
	struct made_stacks made = { 0 };

	add_stack(&made, "A B A B", 7);
	profile_fold_repeats(&made.profile);
	assert_int_equal(made.profile.stacks[0].frames[0]->line, 3);
	assert_int_equal(made.profile.stacks[0].frames[1]->line, 4);
	profile_free(&made.profile);
}

TEST(equal_stacks_are_merged)
{
	struct made_stacks made = { 0 };

	add_stack(&made, "A B", 7);
	add_stack(&made, "A A A B", 5);
	add_stack(&made, "A C", 1);
	profile_fold_repeats(&made.profile);
	assert_int_equal(made.profile.n, 2);
	assert_stack(&made, 0, "A B", 12);
	assert_stack(&made, 1, "A C", 1);
	profile_free(&made.profile);
}

/* In a profile of KIND, the stack BEFORE becomes AFTER, and the folded frames are called NAMES. */
static void fold_libraries_and_check(enum profile_kind kind, const char *before, const char *after,
				     const char *names)
{
	struct made_stacks made = { .profile.kind = kind };
	char text[FOLDED_TEXT_BYTES];

	add_stack(&made, before, 7);
	profile_fold_libraries(&made.profile, text);
	assert_stack(&made, 0, after, 7);
	assert_string_equal(text, names);
	profile_free(&made.profile);
}

TEST(functions_of_a_library_are_one)
{
	fold_libraries_and_check(PROFILE_CPU,
				 "Lwt_main.run Lwt.bind Lwt.f My.f Lwt.catch Eio.run My.g",
				 "[Lwt] My.f [Lwt] [Eio] My.g", "[Lwt], [Eio]");
}

/* Functions of the program, of C and of Unix are of no such library. */
TEST(other_functions_stay)
{
	fold_libraries_and_check(PROFILE_CPU, "Lwtish.run Unix.select c_Lwt My.f",
				 "Lwtish.run Unix.select c_Lwt My.f", "");
}

/* The function that uses the CPU, or that allocates by means of the runtime, has its name. */
TEST(innermost_function_stays)
{
	fold_libraries_and_check(PROFILE_CPU, "Lwt_main.run Lwt.bind Lwt.f", "[Lwt] Lwt.f",
				 "[Lwt]");
	fold_libraries_and_check(PROFILE_WORDS, "Lwt_main.run Lwt.bind Lwt.f c_alloc c_gc",
				 "[Lwt] Lwt.f c_alloc c_gc", "[Lwt]");
}

TEST(stacks_that_differ_in_a_library_are_merged)
{
	struct made_stacks made = { .profile.kind = PROFILE_CPU };
	char text[FOLDED_TEXT_BYTES];

	add_stack(&made, "Lwt.a My.f", 7);
	add_stack(&made, "Lwt.b My.f", 5);
	/* Their lines are equal, too. */
	profile_fold_libraries(&made.profile, text);
	assert_int_equal(made.profile.n, 1);
	assert_stack(&made, 0, "[Lwt] My.f", 12);
	profile_free(&made.profile);
}
