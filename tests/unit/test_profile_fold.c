// SPDX-License-Identifier: MIT
/* Stacks that are shortened for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/profile_fold.h"
#include "unit.h"

enum { MAX_FRAMES = 16, MAX_STACKS = 40 };

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
			.is_stdlib = strncmp(functions + strspn(functions, " "), "Fun.", 4) == 0 ||
				     strncmp(functions + strspn(functions, " "), "List.", 5) == 0,
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
	char text[FOLDED_TEXT_BYTES] = "";

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

/* Functions of the standard library between two functions of a library are part of it. */
TEST(standard_library_between)
{
	fold_libraries_and_check(PROFILE_CPU, "Lwt.a Fun.protect Lwt.f List.iter Fun.g Lwt.b My.f",
				 "[Lwt] My.f", "[Lwt]");
	fold_libraries_and_check(PROFILE_CPU, "Fun.protect Lwt.a Fun.protect My.f",
				 "Fun.protect [Lwt] Fun.protect My.f", "[Lwt]");
	fold_libraries_and_check(PROFILE_CPU, "Lwt.a Fun.protect Eio.f List.iter My.g Lwt.b My.f",
				 "[Lwt] Fun.protect [Eio] List.iter My.g [Lwt] My.f",
				 "[Lwt], [Eio]");
	fold_libraries_and_check(PROFILE_CPU, "Lwt.a Fun.protect Lwt.f Fun.protect Lwt.g",
				 "[Lwt] Fun.protect Lwt.g", "[Lwt]");
	fold_libraries_and_check(PROFILE_WORDS, "Lwt.a List.iter c_alloc",
				 "[Lwt] List.iter c_alloc", "[Lwt]");
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
	char text[FOLDED_TEXT_BYTES] = "";

	add_stack(&made, "Lwt.a My.f", 7);
	add_stack(&made, "Lwt.b My.f", 5);
	/* Their lines are equal, too. */
	profile_fold_libraries(&made.profile, text);
	assert_int_equal(made.profile.n, 1);
	assert_stack(&made, 0, "[Lwt] My.f", 12);
	profile_free(&made.profile);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* A simple generator of random numbers below N. */
static unsigned int below(unsigned int n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (unsigned int)(state >> 33) % n;
}

static void add_random_stack(struct made_stacks *made)
{
	static const char *const names[] = {
		"Lwt.a", "Lwt_unix.b", "Eio.c", "My.f",	  "My.g",
		"My.h",	 "c_d",	       "Lwt.e", "Unix.w", "Async_io.x"
	};
	char text[256] = "";

	for (unsigned int n = 2 + below(MAX_FRAMES - 2); n > 0; n--) {
		strcat(text, " ");
		strcat(text, names[below(sizeof(names) / sizeof(*names))]);
	}
	add_stack(made, text, 1 + below(1000));
}

/* Return the function NAME in LIST, or an empty one. */
static struct profile_function find_named(const struct profile_function *list, size_t n,
					  const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i].function, name) == 0)
			return list[i];
	return (struct profile_function){ 0 };
}

/* Check that the sums of functions of no library are the same in both profiles. */
static void check_sums(struct ocp_ctx *ctx, const struct profile *whole,
		       const struct profile *folded)
{
	static const char *const own[] = { "My.f", "My.g", "My.h", "c_d", "Unix.w" };
	struct profile_function *a, *b;
	size_t n, m;

	assert_int_equal(profile_functions(ctx, whole, NULL, SITES_LEAF, &a, &n), 0);
	assert_int_equal(profile_functions(ctx, folded, NULL, SITES_LEAF, &b, &m), 0);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		const struct profile_function x = find_named(a, n, own[i]),
					      y = find_named(b, m, own[i]);

		assert_true(x.total > 0);
		assert_int_equal(x.self, y.self);
		assert_int_equal(x.total, y.total);
	}
	assert_true(find_named(b, m, "[Lwt]").total > 0);
	free(a);
	free(b);
}

TEST(copies_have_the_same_sums)
{
	struct ocp_ctx *ctx = ocp_ctx_new();

	for (int kind = PROFILE_CPU; kind <= PROFILE_WORDS; kind++) {
		struct made_stacks *made = calloc(1, sizeof(*made));
		char text[FOLDED_TEXT_BYTES] = "";
		struct folded_profile folded;
		size_t n_frames = 0;
		uint64_t value = 0, samples = 0;

		assert_non_null(made);
		made->profile.kind = (enum profile_kind)kind;
		while (made->profile.n < MAX_STACKS)
			add_random_stack(made);
		for (size_t i = 0; i < MAX_STACKS; i++)
			n_frames += made->profile.stacks[i].n;
		assert_int_equal(profile_fold_copy(ctx, &made->profile, &folded, text), 0);
		assert_false(folded.is_same);
		assert_non_null(strstr(text, "[Lwt]"));
		assert_non_null(strstr(text, "[Eio]"));
		assert_non_null(strstr(text, "[Async]"));
		for (size_t i = 0; i < folded.profile.n; i++) {
			value += folded.profile.stacks[i].value;
			samples += folded.profile.stacks[i].samples;
		}
		assert_int_equal(value, made->profile.value);
		assert_int_equal(samples, made->profile.samples);
		check_sums(ctx, &made->profile, &folded.profile);
		/* The profile itself is as it was. */
		for (size_t i = 0; i < MAX_STACKS; i++)
			n_frames -= made->profile.stacks[i].n;
		assert_int_equal(n_frames, 0);
		assert_int_equal(made->profile.n, MAX_STACKS);
		folded_profile_free(&folded);
		profile_free(&made->profile);
		free(made);
	}
	ocp_ctx_free(ctx);
}

/* Stacks whose lines differ are not merged, since a page shows the lines. */
TEST(copies_keep_lines)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct made_stacks made = { .profile.kind = PROFILE_CPU };
	char text[FOLDED_TEXT_BYTES] = "";
	struct folded_profile folded;

	add_stack(&made, "Lwt.a Lwt.b My.f", 7);
	add_stack(&made, "Lwt.b My.f", 5);
	assert_int_equal(profile_fold_copy(ctx, &made.profile, &folded, text), 0);
	assert_int_equal(folded.profile.n, 2);
	assert_int_equal(folded.profile.stacks[0].n, 2);
	assert_int_equal(folded.profile.stacks[0].frames[1]->line, 3);
	assert_int_equal(folded.profile.stacks[1].frames[1]->line, 2);
	folded_profile_free(&folded);
	profile_free(&made.profile);
	ocp_ctx_free(ctx);
}

/* A copy is the same if there is no library and no repeat; one frame of a library is folded. */
TEST(copies_may_be_the_same)
{
	static const struct {
		const char *stack;
		bool is_same;
	} cases[] = { { "My.f My.g Unix.w", true },
		      { "My.f Lwt.a My.g", false },
		      { "My.f My.f My.g", false },
		      { "My.f Lwt.a", true } };
	struct ocp_ctx *ctx = ocp_ctx_new();

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct made_stacks made = { .profile.kind = PROFILE_CPU };
		char text[FOLDED_TEXT_BYTES] = "";
		struct folded_profile folded;

		add_stack(&made, cases[i].stack, 7);
		assert_int_equal(profile_fold_copy(ctx, &made.profile, &folded, text), 0);
		assert_int_equal(folded.is_same, cases[i].is_same);
		folded_profile_free(&folded);
		profile_free(&made.profile);
	}
	ocp_ctx_free(ctx);
}
