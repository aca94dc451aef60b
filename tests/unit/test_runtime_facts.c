// SPDX-License-Identifier: MIT
/*
 * What the code of a runtime shows of its structures: functions like those of OCaml 5.3 and 5.4 as
 * gcc compiles them, and ones that show less, or something else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "code/functions.h"
#include "code/runtime.h"
#include "code_asm.h"
#include "made_elf.h"
#include "program/code_sites.h"
#include "unit.h"

/* The pointer to the state, which the other words are relative to, goes through two registers. */
#define MINOR_WORDS(words)                                                                         \
	"endbr64\n"                                                                                \
	"mov $-0x88, %rax\n"                                                                       \
	"mov %fs:(%rax), %rdx\n"                                                                   \
	"mov 0x18(%rdx), %rax\n"                                                                   \
	"sub 0x8(%rdx), %rax\n"                                                                    \
	"shr $3, %rax\n"                                                                           \
	"cvtsi2sd %rax, %xmm0\n"                                                                   \
	"mov " words "(%rdx), %rax\n"                                                              \
	"test %rax, %rax\n"                                                                        \
	"cvtsi2sd %rax, %xmm1\n"                                                                   \
	"ret"
#define COUNTERS(roots, minor, promoted, major, allocated)                                         \
	"push %rbx\n"                                                                              \
	"mov %fs:0x28, %rax\n"                                                                     \
	"mov %fs:-0x88, %rdi\n"                                                                    \
	"mov %rdi, %rbx\n"                                                                         \
	"mov " roots "(%rbx), %rbp\n"                                                              \
	"mov %rax, " roots "(%rbx)\n"                                                              \
	"mov %rbp, 0x20(%rsp)\n"                                                                   \
	"mov " promoted "(%rbx), %rax\n"                                                           \
	"cvtsi2sd %rax, %xmm4\n"                                                                   \
	"mov " major "(%rbx), %rax\n"                                                              \
	"cvtsi2sd %rax, %xmm1\n" allocated "mov 0x18(%rdi), %rcx\n"                                \
	"sub 0x8(%rbx), %rcx\n"                                                                    \
	"cvtsi2sdq " minor "(%rbx), %xmm2\n"                                                       \
	"call counters_53\n"                                                                       \
	"mov (%rsp), %rsi\n"                                                                       \
	"mov %rbp, " roots "(%rbx)\n"                                                              \
	"ret"

FUNCTION(minor_53, MINOR_WORDS("0x180"));
FUNCTION(minor_54, MINOR_WORDS("0x1a0"));
FUNCTION(counters_53, COUNTERS("0xa0", "0x180", "0x188", "0x190", "mov 0x80(%rbx), %rax\n"));
FUNCTION(counters_54, COUNTERS("0xc0", "0x1a0", "0x1a8", "0x1b0", "mov 0x80(%rbx), %rax\n"));
/* allocated_words is a pointer, as in the trunk. */
FUNCTION(counters_pointer,
	 COUNTERS("0xa0", "0x180", "0x188", "0x190", "mov 0x80(%rbx), %rax\nmov (%rax), %rax\n"));
/* Two words are possible. */
FUNCTION(counters_two, COUNTERS("0xa0", "0x180", "0x188", "0x190",
				"mov 0x80(%rbx), %rax\nmov 0x90(%rbx), %rax\n"));
/* Another word is where the promoted words should be. */
FUNCTION(counters_apart, COUNTERS("0xa0", "0x180", "0x1f8", "0x190", "mov 0x80(%rbx), %rax\n"));
/* A loop, whose condition is at its end. */
FUNCTION(small_53, "mov %rdi, %rbx\n"
		   "add %rbp, 0x8(%rdi)\n"
		   "jmp 2f\n"
		   "1:\n"
		   "call heap_53\n"
		   "2:\n"
		   "test %r12d, %r12d\n"
		   "jne 1b\n"
		   "mov 0x8(%rbx), %rax\n"
		   "cmp 0x10(%rbx), %rax\n"
		   "ret");
FUNCTION(limit_53, "mov 0x1d8(%rdi), %rax\n"
		   "mov 0x20(%rdi), %rdx\n"
		   "xchg %rax, (%rdi)\n"
		   "ret");
FUNCTION(heap_53, "mov 0x420(%rdi), %rax\n"
		  "add 0x448(%rdi), %rax\n"
		  "shl $3, %rax\n"
		  "ret");
/* A call changes rdi; the argument stays in rbp, beside an end of the function that pops rbp. */
FUNCTION(sample_53, "push %rbp\n"
		    "mov %rdi, %rbp\n"
		    "movslq 0x120(%rdi), %rax\n"
		    "call heap_53\n"
		    "test %eax, %eax\n"
		    "je 1f\n"
		    "pop %rbp\n"
		    "ret\n"
		    "nopl 0(%rax)\n"
		    "1:\n"
		    "mov 0x40(%rdi), %rcx\n"
		    "mov 0x180(%rbp), %rax\n"
		    "mov %rax, (%rbx)\n"
		    "mov 0x188(%rbp), %rax\n"
		    "mov 0x190(%rbp), %rax\n"
		    "mov 0x198(%rbp), %rax\n"
		    "mov 0x118(%rbp), %rdi\n"
		    "jmp heap_53");
FUNCTION(callback_53, "mov %fs:(%r12), %rbp\n"
		      "call heap_53\n"
		      "mov 0x28(%rbp), %rax\n"
		      "mov 0x10(%rax), %rax\n"
		      "cmpq $0, 0x18(%rax)\n"
		      "ret");
/* The stack's words: the pointer, the handler, the id; another stack has words, too. */
#define REALLOC_STACK(id)                                                                          \
	"push %rbp\n"                                                                              \
	"mov %fs:(%rbx), %rax\n"                                                                   \
	"mov 0x28(%rax), %rbp\n"                                                                   \
	"mov 0x10(%rbp), %rsi\n"                                                                   \
	"mov %rsi, %r14\n"                                                                         \
	"sub 0x0(%rbp), %r14\n"                                                                    \
	"mov 0x10(%rbp), %rax\n" id "mov (%rax), %rdx\n"                                           \
	"mov 0x8(%rax), %rcx\n"                                                                    \
	"call callback_53\n"                                                                       \
	"mov 0x40(%rax), %rdi\n"                                                                   \
	"mov 0x10(%rbp), %rdx\n"                                                                   \
	"ret"
FUNCTION(stack_53, REALLOC_STACK("mov 0x30(%rbp), %r9\n"));
FUNCTION(stack_other, REALLOC_STACK("mov 0x38(%rbp), %r9\n"));
FUNCTION(stack_two, REALLOC_STACK("mov 0x30(%rbp), %r9\nmov 0x20(%rbp), %r8\n"));
FUNCTION(domain_id_53, "mov %fs:-0x90, %rax\n"
		       "mov 0x78(%rax), %rax\n"
		       "lea 0x1(%rax, %rax), %rax\n"
		       "ret");

#define CODE(name) ((struct fact_code){ (uint8_t *)(uintptr_t)(name), SIZE(name) })

static void take_code_53(struct fact_code code[N_FACT_FUNCTIONS])
{
	code[FACTS_OF_OLD_SAMPLE] = (struct fact_code){ 0 };
	code[FACTS_OF_MINOR_WORDS] = CODE(minor_53);
	code[FACTS_OF_COUNTERS] = CODE(counters_53);
	code[FACTS_OF_SMALL_BLOCK] = CODE(small_53);
	code[FACTS_OF_LIMIT] = CODE(limit_53);
	code[FACTS_OF_HEAP_SIZE] = CODE(heap_53);
	code[FACTS_OF_SAMPLE] = CODE(sample_53);
	code[FACTS_OF_CALLBACK] = CODE(callback_53);
	code[FACTS_OF_DOMAIN_ID] = CODE(domain_id_53);
	code[FACTS_OF_STACK] = CODE(stack_53);
}

static struct runtime_facts learn(const struct fact_code code[N_FACT_FUNCTIONS])
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct runtime_facts facts;

	assert_int_equal(runtime_facts_learn(ctx, code, &facts), 0);
	ocp_ctx_free(ctx);
	return facts;
}

static void expect_missing(const struct fact_code code[N_FACT_FUNCTIONS], enum runtime_fact fact,
			   const char *message)
{
	const struct runtime_facts facts = learn(code);
	struct ocp_ctx *ctx = ocp_ctx_new();

	assert_int_equal(facts.at[fact], 0);
	assert_int_equal(runtime_facts_need(ctx, &facts, "made", &fact, 1, "nothing works"),
			 -EPROTONOSUPPORT);
	assert_string_equal(ocp_error(ctx), message);
	ocp_ctx_free(ctx);
}

TEST(all_facts)
{
	static const uint16_t right[N_RUNTIME_FACTS] = {
		[FACT_YOUNG_PTR] = 8,	    [FACT_YOUNG_START] = 16,
		[FACT_YOUNG_END] = 24,	    [FACT_YOUNG_TRIGGER] = 32,
		[FACT_MINOR_WORDS] = 0x180, [FACT_PROMOTED_WORDS] = 0x188,
		[FACT_MAJOR_WORDS] = 0x190, [FACT_ALLOCATED_WORDS] = 0x80,
		[FACT_LOCAL_ROOTS] = 0xa0,  [FACT_CURRENT_STACK] = 0x28,
		[FACT_SHARED_HEAP] = 0x118, [FACT_ID] = 0x120,
		[FACT_UNIQUE_ID] = 0x128,   [FACT_STACK_HANDLER] = 0x10,
		[FACT_HEAP_OWNER] = 0x418,  [FACT_SLOT_UNIQUE_ID] = 0x78,
		[FACT_STACK_ID] = 0x30,	    [FACT_HANDLER_PARENT] = 0x18,
	};
	struct fact_code code[N_FACT_FUNCTIONS];
	struct runtime_facts facts;

	take_code_53(code);
	for (int is_old = 0; is_old < 2; is_old++) {
		facts = learn(code);
		for (int i = 0; i < N_RUNTIME_FACTS; i++) {
			assert_int_equal(facts.at[i], right[i]);
			assert_int_equal(facts.faults[i], FACT_KNOWN);
		}
		code[FACTS_OF_OLD_SAMPLE] = code[FACTS_OF_SAMPLE];
		code[FACTS_OF_SAMPLE] = (struct fact_code){ 0 };
	}
}

/* Functions of another version show other facts: there is no table of versions. */
TEST(other_offsets)
{
	struct fact_code code[N_FACT_FUNCTIONS];
	struct runtime_facts facts;

	take_code_53(code);
	code[FACTS_OF_MINOR_WORDS] = CODE(minor_54);
	code[FACTS_OF_COUNTERS] = CODE(counters_54);
	facts = learn(code);
	assert_int_equal(facts.at[FACT_MINOR_WORDS], 0x1a0);
	assert_int_equal(facts.at[FACT_MAJOR_WORDS], 0x1b0);
	assert_int_equal(facts.at[FACT_LOCAL_ROOTS], 0xc0);
	/* The functions disagree about the sums of words. */
	assert_int_equal(facts.faults[FACT_SHARED_HEAP], FACT_NOT_FOUND);
	code[FACTS_OF_COUNTERS] = CODE(counters_53);
	facts = learn(code);
	assert_int_equal(facts.faults[FACT_PROMOTED_WORDS], FACT_NOT_FOUND);
	assert_int_equal(facts.faults[FACT_LOCAL_ROOTS], FACT_NOT_FOUND);
}

TEST(missing_facts)
{
	struct fact_code code[N_FACT_FUNCTIONS];

	take_code_53(code);
	code[FACTS_OF_COUNTERS] = CODE(counters_pointer);
	expect_missing(code, FACT_ALLOCATED_WORDS,
		       "made: allocated_words is an address, not a number, in caml_gc_counters: "
		       "nothing works");
	code[FACTS_OF_COUNTERS] = CODE(counters_two);
	expect_missing(code, FACT_ALLOCATED_WORDS,
		       "made: allocated_words was not found in caml_gc_counters: nothing works");
	code[FACTS_OF_COUNTERS] = CODE(counters_apart);
	expect_missing(code, FACT_PROMOTED_WORDS,
		       "made: stat_promoted_words was not found in caml_gc_counters: "
		       "nothing works");
	code[FACTS_OF_SMALL_BLOCK] = CODE(heap_53);
	expect_missing(code, FACT_YOUNG_START,
		       "made: young_start was not found in caml_alloc_small_dispatch: "
		       "nothing works");
	code[FACTS_OF_HEAP_SIZE] = CODE(limit_53);
	expect_missing(code, FACT_HEAP_OWNER,
		       "made: owner was not found in caml_heap_size: nothing works");
	code[FACTS_OF_CALLBACK] = (struct fact_code){ 0 };
	expect_missing(code, FACT_CURRENT_STACK,
		       "made: has no symbol caml_callback_exn, whose code shows where "
		       "current_stack is: nothing works");
	take_code_53(code);
	code[FACTS_OF_STACK] = CODE(stack_two);
	expect_missing(code, FACT_STACK_ID,
		       "made: the id of a stack was not found in caml_try_realloc_stack: "
		       "nothing works");
}

/* Code that ends too early, that is no code, and that uses more words than are kept. */
TEST(spoilt_code)
{
	static uint8_t junk[4096];
	struct fact_code code[N_FACT_FUNCTIONS];

	for (size_t n = 0; n < SIZE(counters_53); n++) {
		take_code_53(code);
		for (int i = 0; i < N_FACT_FUNCTIONS; i++)
			code[i].n = code[i].n < n ? code[i].n : n;
		learn(code);
	}
	/* mov 8(%rdi), %rax */
	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (const uint8_t[]){ 0x48, 0x8b, 0x47, 0x08 }[i % 4];
	for (int i = 0; i < N_FACT_FUNCTIONS; i++)
		code[i] = (struct fact_code){ junk, sizeof(junk) };
	learn(code);
	memset(junk, 0x06, sizeof(junk));
	assert_int_equal(learn(code).at[FACT_MINOR_WORDS], 0);
}

static void put_function(struct made_elf *made, const char *name, uint64_t off,
			 const struct fact_code *code)
{
	memcpy(made->code + off, code->bytes, code->n);
	made_symbol(made, name, MADE_CODE_VA + off, code->n, false);
}

/* The walker's fact, from a file. */
TEST(local_roots_of_a_file)
{
	const struct fact_code minor = CODE(minor_54), counters = CODE(counters_54);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct made_elf made = { 0 };
	struct elf_file *elf;
	uint16_t off;
	int fd;

	made_symbol(&made, "caml_frametable", MADE_DATA_VA, 8, false);
	made_symbol(&made, "caml_domain_spawn", MADE_CODE_VA, 16, false);
	put_function(&made, "caml_gc_minor_words_unboxed", 0x100, &minor);
	for (int i = 0; i < 2; i++) {
		if (i)
			put_function(&made, "caml_gc_counters", 0x200, &counters);
		fd = made_fd(&made);
		assert_int_equal(elf_file_open(ctx, fd, "made", &elf), 0);
		assert_int_equal(runtime_local_roots(ctx, elf, &off), 0);
		assert_int_equal(off, i ? 0xc0 : 0);
		elf_file_close(elf);
		close(fd);
	}
	ocp_ctx_free(ctx);
}

/* current_stack is one word later than measure_frames.bpf.h reads it. */
FUNCTION(callback_other, "mov %fs:(%r12), %rbp\n"
			 "mov 0x30(%rbp), %rax\n"
			 "mov 0x10(%rax), %rax\n"
			 "cmpq $0, 0x18(%rax)\n"
			 "ret");
/* So is the word behind the handler that is the parent. */
FUNCTION(callback_parent, "mov %fs:(%r12), %rbp\n"
			  "mov 0x28(%rbp), %rax\n"
			  "mov 0x10(%rax), %rax\n"
			  "cmpq $0, 0x20(%rax)\n"
			  "ret");
FUNCTION(plain, "push %rbx\n"
		"mov %rax, %rbx\n"
		"pop %rbx\n"
		"ret");

static void expect_timed(const struct fact_code *callback, const struct fact_code *stack,
			 const char *refusal)
{
	const struct fact_code code = CODE(plain);
	const struct function function = { .va = MADE_CODE_VA + 0x300,
					   .bytes = code.n,
					   .language = FUNCTION_OCAML };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct made_elf made = { 0 };
	struct functions *functions;
	struct code_sites sites;
	struct elf_file *elf, *self;
	char *why;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	/* The list of functions only shows where functions begin. */
	assert_int_equal(elf_file_open(ctx, fd, "self", &self), 0);
	assert_int_equal(functions_read(ctx, self, &functions), 0);
	elf_file_close(self);
	close(fd);
	made_symbol(&made, "caml_frametable", MADE_DATA_VA, 8, false);
	made_symbol(&made, "caml_domain_spawn", MADE_CODE_VA, 16, false);
	put_function(&made, "caml_callback_exn", 0x200, callback);
	if (stack)
		put_function(&made, "caml_try_realloc_stack", 0x280, stack);
	put_function(&made, "f", 0x300, &code);
	fd = made_fd(&made);
	assert_int_equal(elf_file_open(ctx, fd, "made", &elf), 0);
	assert_int_equal(code_sites_open(ctx, elf, functions, &sites), 0);
	assert_int_equal(code_sites_add_function(&sites, &function, 0,
						 &(struct code_needs){ .time = true }, &why),
			 0);
	assert_true(refusal ? why && strcmp(why, refusal) == 0 : !why);
	free(why);
	assert_int_equal(
		code_sites_add_function(&sites, &function, 0, &(struct code_needs){ 0 }, &why), 0);
	assert_null(why);
	free(sites.sites);
	code_sites_close(&sites);
	functions_free(functions);
	elf_file_close(elf);
	close(fd);
	ocp_ctx_free(ctx);
}

/* A function is counted, but not timed, if its frame would be read from another word. */
TEST(stacks_at_another_place)
{
	static const char elsewhere[] =
		"cannot be timed: this OCaml keeps current_stack or words of a "
		"stack at other places";
	static const char unknown[] =
		"cannot be timed: the code of its runtime does not show where "
		"the words of a stack are";
	const struct fact_code known = CODE(callback_53), moved = CODE(callback_other);
	const struct fact_code parent = CODE(callback_parent), stack = CODE(stack_53);
	const struct fact_code moved_id = CODE(stack_other), two = CODE(stack_two);
	const struct fact_code none = CODE(plain);

	expect_timed(&known, &stack, NULL);
	expect_timed(&moved, &stack, elsewhere);
	expect_timed(&parent, &stack, elsewhere);
	expect_timed(&known, &moved_id, elsewhere);
	expect_timed(&known, &two, unknown);
	expect_timed(&known, NULL, unknown);
	expect_timed(&none, &stack, unknown);
}
