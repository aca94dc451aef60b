/* SPDX-License-Identifier: MIT */
/* Functions in assembly, to decode them out of the test's own program. */
#ifndef TESTS_UNIT_CODE_ASM_H
#define TESTS_UNIT_CODE_ASM_H

#include "code/x86_function.h"
#include "elf/elf_file.h"
#include "unit.h"

/*
 * A function called NAME. Its labels are NAME_place, where its calls are counted, and NAME_exit1
 * and so on, where they end; the macro L makes one.
 */
#define FUNCTION(name, text)                                                                       \
	asm(".text\n.p2align 4\n" #name ":\n" text "\n" #name "_end:\n\tnop\n");                   \
	extern const char name[], name##_end[]
#define L(label)     #label ":\n"
#define LABEL(label) extern const char label[]

/* A jump table in .rodata, of the distances from TABLE to labels. */
#define TABLE(text) ".section .rodata\n.p2align 2\n" text ".text\n"
#define SWITCH(table)                                                                              \
	"lea " #table "(%rip), %rdx\n"                                                             \
	"movslq (%rdx,%rax,4), %rax\n"                                                             \
	"add %rax, %rdx\n"                                                                         \
	"jmp *%rdx\n"

/* The test's program, whose function `other` is the only one that is known. */
LABEL(other);
struct code {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct code_file *file;
	int fd;
	uint64_t entries[1];
};

/* Set-up and tear-down of a group of tests, whose state is a struct code. */
int code_open_self(void **state);
int code_close_self(void **state);

/* Decode the first N bytes of the function at START. */
struct code_function code_decode(struct code *code, const char *start, size_t n);

#define SIZE(name)	   ((size_t)((uintptr_t)(name##_end) - (uintptr_t)(name)))
#define DECODE(code, name) code_decode(code, name, SIZE(name))

/* Counted at NAME_place, an instruction that the kernel emulates. */
#define assert_emulated(function, name, depth)                                                     \
	do {                                                                                       \
		assert_null((function).no_count);                                                  \
		assert_int_equal((function).place, name##_place - (name));                         \
		assert_int_equal((function).place_cost, CODE_EMULATED);                            \
		assert_int_equal((function).place_depth, depth);                                   \
		assert_int_equal((function).place_is_entry, (function).place == 0);                \
	} while (0)

/* Counted at its entry, which the kernel single-steps. */
void assert_entry(const struct code_function *function);
/* Exit I of a function that can be timed. */
void assert_exit(const struct code_function *function, size_t i, long off, enum code_exit_kind kind,
		 enum code_cost cost);
void assert_not_timed(const struct code_function *function, const char *why);

#endif
