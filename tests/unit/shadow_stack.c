// SPDX-License-Identifier: MIT
#include "shadow_stack.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

/* runtime/caml/domain_state.tbl and fiber.h of OCaml 5. */
enum { STATE_CURRENT_STACK = 40, STACK_HANDLER = 16, HANDLER_BYTES = 32 };

/* More than one push or pop moves the stack pointer by. */
enum { FAR = 64 };

static bool is_in(const struct shadow_range *range, uint64_t address)
{
	return address >= range->low && address < range->high;
}

/* ---- stacks --------------------------------------------------------------------------------- */

static struct shadow_range stack_at(const struct shadow *s, uint64_t address)
{
	for (size_t i = 0; i < s->n_stacks; i++)
		if (is_in(&s->stacks[i], address))
			return s->stacks[i];
	return (struct shadow_range){ 0 };
}

static struct shadow_range current_stack(const struct shadow *s, uint64_t state)
{
	const uint64_t stack = s->read_word(s->pid, state + STATE_CURRENT_STACK);

	return (struct shadow_range){ stack,
				      s->read_word(s->pid, stack + STACK_HANDLER) + HANDLER_BYTES };
}

static void forget_continuation(struct shadow *s, size_t i)
{
	free(s->continuations[i].calls);
	s->continuations[i] = s->continuations[--s->n_continuations];
}

/* STACK is in use from now on: what was there before is gone. */
static void add_stack(struct shadow *s, const struct shadow_range *stack)
{
	for (size_t i = s->n_stacks; i-- > 0;)
		if (s->stacks[i].low < stack->high && stack->low < s->stacks[i].high)
			s->stacks[i] = s->stacks[--s->n_stacks];
	for (size_t i = s->n_continuations; i-- > 0;)
		for (size_t j = 0; j < s->continuations[i].n; j++)
			if (is_in(stack, s->continuations[i].calls[j].slot)) {
				forget_continuation(s, i);
				break;
			}
	assert_true(s->n_stacks < SHADOW_STACKS);
	s->stacks[s->n_stacks++] = *stack;
}

/*
 * A program or a callback starts on the stack of the domain, or a function on that of a new fibre.
 */
static void enter_stack(struct shadow *s, struct shadow_thread *t,
			const struct user_regs_struct *before, const struct user_regs_struct *after)
{
	struct shadow_range stack;

	if (!is_in(&s->runstack, before->rip) && !is_in(&s->start_program, before->rip))
		return;
	if (after->rsp - before->rsp + FAR <= 2 * FAR)
		return;
	t->state = after->r14;
	stack = current_stack(s, t->state);
	if (is_in(&stack, after->rsp) && !is_in(&stack, before->rsp))
		add_stack(s, &stack);
}

/* caml_try_realloc_stack begins, or has returned. Its result is the current stack of the domain. */
static void begin_growth(struct shadow *s, struct shadow_thread *t, uint64_t slot)
{
	t->growing_slot = slot;
	t->growing = current_stack(s, t->state);
}

static void end_growth(struct shadow *s, struct shadow_thread *t)
{
	const struct shadow_range now = current_stack(s, t->state), *old = &t->growing;

	t->growing_slot = 0;
	if (now.low == old->low)
		return;
	s->n_grown++;
	for (size_t i = 0; i < t->n; i++)
		if (is_in(old, t->calls[i].slot))
			t->calls[i].slot += now.high - old->high;
	for (size_t i = s->n_stacks; i-- > 0;)
		if (s->stacks[i].low == old->low)
			s->stacks[i] = s->stacks[--s->n_stacks];
	add_stack(s, &now);
}

/* ---- continuations -------------------------------------------------------------------------- */

/* Its number plus 1; 0: none. */
static size_t find_continuation(const struct shadow *s, const struct shadow_range *last_fibre)
{
	for (size_t i = 0; i < s->n_continuations; i++)
		if (is_in(last_fibre, s->continuations[i].calls[0].slot))
			return i + 1;
	return 0;
}

static void resume(struct shadow *s, struct shadow_thread *t, size_t i)
{
	const struct shadow_continuation *k = &s->continuations[i];

	assert_true(t->n + k->n <= SHADOW_CALLS);
	memcpy(t->calls + t->n, k->calls, k->n * sizeof(*k->calls));
	t->n += k->n;
	s->n_resumed++;
	forget_continuation(s, i);
}

/* Calls from number FIRST on become a continuation, or its outer part. */
static void suspend(struct shadow *s, struct shadow_thread *t, size_t first)
{
	const struct shadow_continuation none = { 0 };
	const struct shadow_continuation *inner =
		t->appended ? &s->continuations[t->appended - 1] : &none;
	const size_t n = t->n - first;
	struct shadow_call *calls = malloc((n + inner->n) * sizeof(*calls));

	assert_true(n > 0 && calls);
	memcpy(calls, t->calls + first, n * sizeof(*calls));
	if (inner->n) {
		memcpy(calls + n, inner->calls, inner->n * sizeof(*calls));
		s->n_appended++;
	}
	assert_true(s->n_continuations < SHADOW_CONTINUATIONS);
	s->continuations[s->n_continuations++] =
		(struct shadow_continuation){ calls, n + inner->n };
	if (t->appended)
		forget_continuation(s, t->appended - 1);
	t->appended = 0;
	s->n_performed++;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The stack pointer is now on another stack, TO. */
static void switch_stack(struct shadow *s, struct shadow_thread *t, const struct shadow_range *to,
			 const struct user_regs_struct *before, uint64_t rsp)
{
	const bool is_performed = t->stack.low && is_in(&s->perform, before->rip);
	size_t left = t->n;

	s->n_switches++;
	for (size_t i = 0; to->low && i < s->n_continuations; i++) {
		const struct shadow_continuation *k = &s->continuations[i];

		if (k->calls[k->n - 1].slot == rsp) {
			t->appended = 0;
			resume(s, t, i);
			return;
		}
	}
	for (size_t i = t->n; i-- > 0;) {
		const uint64_t slot = t->calls[i].slot;

		if (stack_at(s, slot).low != to->low)
			continue;
		if (slot == rsp)
			left = i + 1;
		if (slot >= rsp)
			break;
		left = i;
	}
	if (is_performed)
		suspend(s, t, left);
	t->n = left;
}

static void forget_below(struct shadow *s, struct shadow_thread *t, uint64_t end)
{
	while (t->n && t->calls[t->n - 1].slot < end &&
	       stack_at(s, t->calls[t->n - 1].slot).low == t->stack.low)
		t->n--;
}

void shadow_step(struct shadow *s, struct shadow_thread *t, const struct user_regs_struct *before,
		 const struct user_regs_struct *after, enum transfer transfer)
{
	struct shadow_range stack = t->stack;

	if (before->rip == s->reperform.low && s->reperform.low) {
		const struct shadow_range fibre = stack_at(s, before->rdi - 1);

		t->appended = find_continuation(s, &fibre);
		assert_true(t->appended > 0);
	}
	if (before->rip == s->realloc.low && s->realloc.low)
		begin_growth(s, t, before->rsp);
	if (transfer == RETURN && t->n && t->calls[t->n - 1].slot == before->rsp) {
		t->n--;
		if (before->rsp == t->growing_slot)
			end_growth(s, t);
	}
	enter_stack(s, t, before, after);
	if (stack.low ? !is_in(&stack, after->rsp) : after->rsp - before->rsp + FAR > 2 * FAR)
		stack = stack_at(s, after->rsp);
	if (stack.low != t->stack.low)
		switch_stack(s, t, &stack, before, after->rsp);
	t->stack = stack;
	/*
	 * What is below the stack pointer is gone, but for a return address that was popped: OCaml
	 * 4's caml_c_call keeps it, and then pushes it again.
	 */
	if (t->n && t->calls[t->n - 1].slot + 8 < after->rsp)
		forget_below(s, t, after->rsp - 8);
	if (transfer == CALL && after->rsp == before->rsp - 8) {
		forget_below(s, t, after->rsp + 1);
		assert_true(t->n < SHADOW_CALLS);
		t->calls[t->n].slot = after->rsp;
		t->calls[t->n++].address = s->read_word(s->pid, after->rsp);
	}
}

void shadow_free(struct shadow *s)
{
	while (s->n_continuations)
		forget_continuation(s, s->n_continuations - 1);
}
