/* SPDX-License-Identifier: MIT */
/*
 * The calls of a thread, as its instructions make them: each call pushes its return address, each
 * return takes it off, and so does whatever else moves the stack pointer above it, as exceptions
 * do.
 *
 * OCaml 5 has many stacks: that of C, and one for each fibre. A stack is where the state of the
 * domain says it is when the program first goes there. A jump of the stack pointer into another
 * stack is one of three:
 *
 *	to below its last call      something new runs there, as callbacks do
 *	to its last call, or above  what was called from there is gone
 *	to the last call of a continuation   its calls are put on top of ours
 *
 * What is left in caml_perform becomes a continuation. caml_reperform adds to one: its third
 * argument is the continuation's last fibre.
 */
#ifndef TESTS_UNIT_SHADOW_STACK_H
#define TESTS_UNIT_SHADOW_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

enum { SHADOW_CALLS = 1 << 16, SHADOW_STACKS = 256, SHADOW_CONTINUATIONS = 256 };

struct shadow_call {
	uint64_t slot, address; /* the return address, and where it is */
};

struct shadow_range {
	uint64_t low, high;
};

struct shadow_continuation {
	struct shadow_call *calls; /* the outermost first */
	size_t n;
};

/* What all threads of a process share. */
struct shadow {
	uint64_t (*read_word)(pid_t pid, uint64_t at);
	pid_t pid;
	/* Of OCaml 5; empty if the program has them not. */
	struct shadow_range perform, reperform, runstack, start_program, realloc;
	struct shadow_range stacks[SHADOW_STACKS]; /* without those of C */
	size_t n_stacks;
	struct shadow_continuation continuations[SHADOW_CONTINUATIONS];
	size_t n_continuations;
	/* How often it was so. */
	size_t n_switches, n_performed, n_appended, n_resumed, n_grown;
};

struct shadow_thread {
	struct shadow_call calls[SHADOW_CALLS];
	size_t n;
	uint64_t state;		   /* of the domain, as of the last time that OCaml was entered */
	struct shadow_range stack; /* the current one; 0: that of C */
	struct shadow_range growing;
	uint64_t growing_slot; /* of the call that makes a stack larger; 0: none */
	size_t appended; /* the number of the continuation that caml_reperform adds to, plus 1 */
};

enum transfer { NO_TRANSFER, CALL, RETURN };

/* T has made a step: an instruction that is TRANSFER. */
void shadow_step(struct shadow *s, struct shadow_thread *t, const struct user_regs_struct *before,
		 const struct user_regs_struct *after, enum transfer transfer);
void shadow_free(struct shadow *s);

#endif
