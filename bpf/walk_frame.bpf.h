/* SPDX-License-Identifier: MIT */
/*
 * One step of a walk: from a frame to its caller, by a rule. The includer is a BPF program, or code
 * in user space that defines WALK_READ(). It provides the types of the kernel.
 *
 * While a fibre of OCaml 5 is in C code that calls back into OCaml, its stack has no pointer to the
 * parent stack. The C function of the runtime that makes the callback (caml_callback_exn and
 * similar functions, runtime/callback.c of OCaml 5.3) keeps the parent in a continuation, which is
 * a local root of this function (caml/memory.h). The walk finds the continuation in the list of
 * local roots, and recognises it by its tag, its size, the value of its second field, which other
 * continuations do not have, and the place of the root, which is in the frame of the C function. In
 * OCaml 5.1, a continuation has only one field.
 */
#ifndef WALK_FRAME_BPF_H
#define WALK_FRAME_BPF_H

#include "walk.h"

#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif

/*
 * Copy BYTES bytes at the address AT of the process that S walks to TO. Evaluates to nonzero if
 * they cannot be read.
 */
#ifndef WALK_READ
#define WALK_READ(s, to, bytes, at) bpf_probe_read_user(to, bytes, (const void *)(at))
#endif

/*
 * Call BODY(i, DATA) for i from 0 to N - 1, until it returns nonzero. The verifier checks the body
 * of bpf_loop() a few times, but that of a `for` loop N times: this takes it 0.1 s longer.
 */
#ifdef __bpf__
#define WALK_LOOP(n, body, data) bpf_loop(n, body, data, 0)
#else
#define WALK_LOOP(n, body, data)                                                                   \
	for (__u32 loop_i = 0; loop_i < (n) && !(body)(loop_i, data); loop_i++) {                  \
	}
#endif

static __always_inline int load_word(struct walk_scratch *s, __u64 at, __u64 *word)
{
	(void)s;
	return WALK_READ(s, word, sizeof(*word), at);
}

/*
 * Like load_word(), for a word on the current stack. A call of WALK_READ() takes as long
 * as the rest of a step, so one call reads WALK_WINDOW words, which later steps use.
 */
static __noinline int load_near(struct walk_scratch *s, __u64 at, __u64 *word)
{
	const __u64 rsp = s->regs[WALK_RSP];
	__u64 off = at - s->window_at;

	if (!s->window_at || off >= sizeof(s->window)) {
		s->window_at = at - rsp < sizeof(s->window) ? rsp : at;
		off = at - s->window_at;
		if (WALK_READ(s, s->window, sizeof(s->window), s->window_at)) {
			s->window_at = 0; /* the window would reach beyond the stack */
			return load_word(s, at, word);
		}
	}
	if (off % sizeof(*word))
		return load_word(s, at, word);
	*word = s->window[off / sizeof(*word) % WALK_WINDOW];
	return 0;
}

/* Indices of the words of a block of local roots, and of a continuation. */
enum { ROOTS_NEXT, ROOTS_TABLES, ROOTS_ITEMS, ROOTS_FIRST, ROOTS_WORDS };
enum { CONT_HEADER, CONT_STACK, CONT_LAST };
enum { CONT_TAG = 245, TAG_MASK = 0xff, SIZE_SHIFT = 10, NULL_STACK = 1, ZERO = 1 };

/*
 * Return the parent stack in the continuation that the local root at ROOT points to, or 0 if the
 * root points to something else.
 */
static __always_inline __u64 load_parent(struct walk_scratch *s, __u64 root)
{
	__u64 words[CONT_LAST], value, last = ZERO;

	if (load_word(s, root, &value) || WALK_READ(s, words, sizeof(words), value - 8))
		return 0;
	/*
	 * A header of 0 means that the collector has just moved the block: read it at its new
	 * address.
	 */
	if (!words[CONT_HEADER]) {
		value = words[CONT_STACK];
		if (WALK_READ(s, words, sizeof(words), value - 8))
			return 0;
	}
	if ((words[CONT_HEADER] & TAG_MASK) != CONT_TAG || !(words[CONT_STACK] & 1) ||
	    words[CONT_STACK] == NULL_STACK)
		return 0;
	if (words[CONT_HEADER] >> SIZE_SHIFT != 1 &&
	    (words[CONT_HEADER] >> SIZE_SHIFT != 2 || load_word(s, value + 8, &last) ||
	     last != ZERO))
		return 0;
	return words[CONT_STACK] - 1;
}

struct frame_search {
	struct walk_scratch *s;
	__u64 end;
};

static long look_at_roots(__u32 i, struct frame_search *frame)
{
	struct walk_scratch *s = frame->s;
	const __u64 block = s->roots, low = s->regs[WALK_RSP];
	__u64 words[ROOTS_WORDS];

	(void)i;
	if (!block || block >= frame->end || WALK_READ(s, words, sizeof(words), block))
		return 1;
	s->roots = words[ROOTS_NEXT];
	if (block < low || words[ROOTS_TABLES] != 1 || words[ROOTS_ITEMS] != 1 ||
	    words[ROOTS_FIRST] < low || words[ROOTS_FIRST] >= frame->end)
		return 0;
	s->parent = load_parent(s, words[ROOTS_FIRST]);
	return s->parent != 0;
}

/*
 * Set *CFA to the canonical frame address of the current frame, computed by RULE. Returns
 * WALK_COMPLETE, or the reason why the stack ends here.
 */
static __always_inline __u32 find_cfa(struct walk_scratch *s, const struct walk_rule *rule,
				      __u64 *cfa)
{
	const __u32 reg = rule->reg % WALK_REGISTERS;
	__u64 at = s->regs[reg] + (__u64)(__s64)rule->add[0];

	if (s->lost >> reg & 1)
		return WALK_NO_REGISTER;
	switch (rule->cfa) {
	case WALK_CFA_REGISTER:
		break;
	case WALK_CFA_LOAD_2:
	case WALK_CFA_LOAD:
		if (load_word(s, at, &at))
			return WALK_UNREADABLE;
		if (!at && rule->cfa == WALK_CFA_LOAD_2) {
			at = s->parent;
			s->parent = 0;
		}
		at += (__u64)(__s64)rule->add[1];
		if (rule->cfa == WALK_CFA_LOAD)
			break;
		if (load_word(s, at, &at))
			return WALK_UNREADABLE;
		at += (__u64)(__s64)rule->add[2];
		break;
	case WALK_CFA_PLT:
		if ((s->regs[WALK_RIP] & 15) >= (__u64)(__s64)rule->add[1])
			at += 8;
		break;
	default:
		return WALK_NO_RULE;
	}
	*cfa = at;
	/*
	 * Stacks grow downwards, so on the same stack the CFA must not be below rsp. (The two are
	 * equal if a function has taken its return address off the stack, as OCaml 4's caml_c_call
	 * does.) If the rule switches to another stack, nothing can be checked.
	 */
	if (rule->cfa == WALK_CFA_REGISTER && (reg == WALK_RSP || reg == WALK_RBP) &&
	    at < s->regs[WALK_RSP])
		return WALK_NO_PROGRESS;
	return WALK_COMPLETE;
}

struct frame_bases {
	__u64 cfa, rsp, rbp;
};

/*
 * Read the word at the address that AT (enum walk_place) stands for, plus OFF. Returns nonzero if
 * the word cannot be read.
 */
static __always_inline int load_place(struct walk_scratch *s, const struct frame_bases *place,
				      __u32 at, __s32 off, __u64 *word)
{
	__u64 base = place->cfa;

	if (at == WALK_AT_RSP)
		base = place->rsp;
	else if (at == WALK_AT_RBP)
		base = place->rbp;
	return load_near(s, base + (__u64)(__s64)off, word);
}

static __always_inline int restore_registers(struct walk_scratch *s, const struct walk_rule *rule,
					     const struct frame_bases *place)
{
	__u64 word = 0;

	for (__u32 i = 0; i < WALK_SAVED; i++) {
		if (rule->at[i] == WALK_SAME)
			continue;
		if (rule->at[i] == WALK_NOWHERE) {
			s->lost |= 1U << i;
			continue;
		}
		if (load_place(s, place, rule->at[i], rule->off[i], &word))
			return -1;
		s->regs[i] = word;
		s->lost &= ~(1U << i);
	}
	return 0;
}

/*
 * Step from the current frame of S to its caller, by RULE. Returns WALK_COMPLETE, or the reason why
 * the stack ends here.
 */
static __always_inline __u32 leave_frame_by(struct walk_scratch *s, const struct walk_rule *rule)
{
	struct frame_bases place = { .rsp = s->regs[WALK_RSP], .rbp = s->regs[WALK_RBP] };
	const __u32 end = find_cfa(s, rule, &place.cfa);
	struct frame_search frame = { s, place.cfa };
	__u64 rip = 0;

	if (end != WALK_COMPLETE)
		return end;
	if (rule->rip_at == WALK_SAME || rule->rip_at == WALK_NOWHERE)
		return WALK_NO_RULE;
	/* the first frame, or one that a signal interrupted: the window may be outdated */
	if (!s->is_caller)
		s->window_at = 0;
	if (s->calls_back)
		WALK_LOOP(WALK_ROOTS, look_at_roots, &frame);
	s->calls_back = rule->flags & WALK_CALLBACK;
	if (s->calls_back && !s->roots && !(s->lost >> WALK_R14 & 1))
		load_word(s, s->regs[WALK_R14] + rule->roots_at * sizeof(__u64), &s->roots);
	if (load_place(s, &place, rule->rip_at, rule->rip_off, &rip))
		return WALK_UNREADABLE;
	if (rule->n_moved && restore_registers(s, rule, &place))
		return WALK_UNREADABLE;
	s->regs[WALK_RSP] = place.cfa;
	s->regs[WALK_RIP] = rip;
	s->is_caller = !(rule->flags & WALK_SIGNAL);
	return WALK_COMPLETE;
}

#endif
