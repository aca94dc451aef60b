/* SPDX-License-Identifier: MIT */
/*
 * Walks the stack of the current thread in user space. Each step finds the row of an address in the
 * unwind table of its file. The rule of the row says where the caller's stack pointer, instruction
 * pointer and registers are. No frame is guessed: where a rule is missing, or something cannot be
 * read, the stack ends, and walk_stack.end says why.
 *
 * A walk needs more memory than the stack of a BPF program has, so it takes a slot of its CPU. A
 * program can be preempted in the middle of a walk by another one, which takes another slot.
 */
#ifndef WALK_BPF_H
#define WALK_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "walk.h"

enum { INNER_MAP = 1 << 12 }; /* BPF_F_INNER_MAP in linux/bpf.h: the sizes of tables differ */

struct walk_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, INNER_MAP);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct walk_row));
	__uint(max_entries, 1);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__type(key, __u32);
	__uint(max_entries, WALK_MAX_TABLES);
	__array(values, struct walk_table);
} walk_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct walk_rule);
	__uint(max_entries, WALK_MAX_RULES);
} walk_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct walk_process);
	__uint(max_entries, 1);
} walk_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct walk_scratch);
	__uint(max_entries, 1);
} walk_scratch SEC(".maps");

/* ---- searches ------------------------------------------------------------------------------- */

struct mapping_search {
	const struct walk_process *process;
	__u64 address;
	__u32 low, high;
};

static long narrow_mappings(__u32 i, struct mapping_search *s)
{
	const __u32 middle = (s->low + s->high) / 2;

	(void)i;
	if (s->low >= s->high || middle >= WALK_MAPPINGS)
		return 1;
	if (s->process->mappings[middle].start <= s->address)
		s->low = middle + 1;
	else
		s->high = middle;
	return 0;
}

struct row_search {
	void *table;
	__u32 va, low, high, rule;
};

static long narrow_rows(__u32 i, struct row_search *s)
{
	const __u32 middle = s->low + (s->high - s->low) / 2;
	const struct walk_row *row;

	(void)i;
	if (s->low >= s->high)
		return 1;
	row = bpf_map_lookup_elem(s->table, &middle);
	if (!row)
		return 1;
	if (row->va <= s->va) {
		s->rule = row->rule;
		s->low = middle + 1;
	} else {
		s->high = middle;
	}
	return 0;
}

/* The mapping that holds ADDRESS, or NULL. */
static __always_inline const struct walk_mapping *find_mapping(const struct walk_process *process,
							       __u64 address)
{
	struct mapping_search m = { process, address, 0, process->n };
	const struct walk_mapping *mapping;

	bpf_loop(WALK_MAPPING_STEPS, narrow_mappings, &m, 0);
	if (m.low == 0 || m.low > WALK_MAPPINGS)
		return (void *)0;
	mapping = &process->mappings[m.low - 1];
	return address < mapping->end ? mapping : (void *)0;
}

/* The number of the rule for ADDRESS. 0: no rule is known, and *END is the reason. */
static __always_inline __u32 find_rule(const struct walk_process *process, __u64 address,
				       __u32 *end)
{
	const struct walk_mapping *mapping = find_mapping(process, address);
	struct row_search r = { 0 };
	__u32 table;

	*end = WALK_NO_MAPPING;
	if (!mapping)
		return 0;
	*end = WALK_NO_RULE;
	table = mapping->table;
	if (table == WALK_NO_TABLE)
		return 0;
	r.table = bpf_map_lookup_elem(&walk_tables, &table);
	if (!r.table)
		return 0;
	r.va = (__u32)(address - mapping->bias);
	r.high = mapping->n_rows;
	bpf_loop(WALK_ROW_STEPS, narrow_rows, &r, 0);
	return r.rule;
}

/* ---- frames --------------------------------------------------------------------------------- */

static __always_inline int load_word(__u64 at, __u64 *word)
{
	return bpf_probe_read_user(word, sizeof(*word), (const void *)at);
}

/* Returns an enum walk_end; WALK_COMPLETE: *CFA is the canonical frame address. */
static __always_inline __u32 find_cfa(const struct walk_scratch *s, const struct walk_rule *rule,
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
		if (load_word(at, &at))
			return WALK_UNREADABLE;
		at += (__u64)(__s64)rule->add[1];
		if (rule->cfa == WALK_CFA_LOAD)
			break;
		if (load_word(at, &at))
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
	 * Stacks grow downwards. Where a rule changes the stack, any order is right. Both are equal
	 * where a function has taken its return address off the stack (OCaml 4's caml_c_call).
	 */
	if (rule->cfa == WALK_CFA_REGISTER && (reg == WALK_RSP || reg == WALK_RBP) &&
	    at < s->regs[WALK_RSP])
		return WALK_NO_PROGRESS;
	return WALK_COMPLETE;
}

struct place {
	__u64 cfa, rsp, rbp;
	__u32 has_block;
};

/* Read what is at AT (enum walk_place), with OFF added. Returns nonzero if it cannot be read. */
static __always_inline int load_place(const struct walk_scratch *s, const struct place *place,
				      __u32 at, __s32 off, __u64 *word)
{
	__u64 base = place->cfa;

	if (at == WALK_AT_CFA && place->has_block && off < 0 && off >= -8 * WALK_BLOCK &&
	    off % 8 == 0) {
		*word = s->block[((__u32)off / 8) % WALK_BLOCK];
		return 0;
	}
	if (at == WALK_AT_RSP)
		base = place->rsp;
	else if (at == WALK_AT_RBP)
		base = place->rbp;
	return load_word(base + (__u64)(__s64)off, word);
}

static __always_inline int restore_registers(struct walk_scratch *s, const struct walk_rule *rule,
					     const struct place *place)
{
	for (__u32 i = 0; i < WALK_SAVED; i++) {
		if (rule->at[i] == WALK_SAME)
			continue;
		if (rule->at[i] == WALK_NOWHERE) {
			s->lost |= 1U << i;
			continue;
		}
		if (load_place(s, place, rule->at[i], rule->off[i], &s->regs[i]))
			return -1;
		s->lost &= ~(1U << i);
	}
	return 0;
}

/* Go to the caller. Returns an enum walk_end; WALK_COMPLETE: there is one. */
static __always_inline __u32 leave_frame_by(struct walk_scratch *s, const struct walk_rule *rule)
{
	struct place place = { .rsp = s->regs[WALK_RSP], .rbp = s->regs[WALK_RBP] };
	const __u32 end = find_cfa(s, rule, &place.cfa);
	__u64 rip = 0;

	if (end != WALK_COMPLETE)
		return end;
	if (rule->rip_at == WALK_SAME || rule->rip_at == WALK_NOWHERE)
		return WALK_NO_RULE;
	if (rule->n_moved && !(rule->flags & WALK_SIGNAL)) {
		if (bpf_probe_read_user(s->block, sizeof(s->block),
					(const void *)(place.cfa - sizeof(s->block))))
			return WALK_UNREADABLE;
		place.has_block = 1;
	}
	if (load_place(s, &place, rule->rip_at, rule->rip_off, &rip))
		return WALK_UNREADABLE;
	if (rule->n_moved && restore_registers(s, rule, &place))
		return WALK_UNREADABLE;
	s->regs[WALK_RSP] = place.cfa;
	s->regs[WALK_RIP] = rip;
	s->is_caller = !(rule->flags & WALK_SIGNAL);
	return WALK_COMPLETE;
}

/* One step of a hash like FNV-1a, by words. */
static __always_inline __u64 walk_hash(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x100000001b3ULL;
	return hash ^ hash >> 29;
}

struct walk {
	struct walk_scratch *scratch;
	struct walk_process *process;
};

static long step(__u32 i, struct walk *walk)
{
	struct walk_scratch *s = walk->scratch;
	struct walk_stack *stack = &s->stack;
	const __u64 rip = s->regs[WALK_RIP];
	const __u64 frame = s->is_caller ? rip : rip | WALK_EXACT;
	const struct walk_rule *rule;
	__u32 number, end;

	number = find_rule(walk->process, rip - (s->is_caller ? 1 : 0), &end);
	if (!number && end == WALK_NO_MAPPING) {
		walk->process->n_unmapped++;
		stack->end = end;
		return 1;
	}
	if (i >= WALK_DEPTH)
		return 1;
	stack->frames[i] = frame;
	stack->n = i + 1;
	stack->hash = walk_hash(stack->hash, frame);
	rule = number ? bpf_map_lookup_elem(&walk_rules, &number) : (void *)0;
	if (!rule) {
		stack->end = WALK_NO_RULE;
		return 1;
	}
	if (rule->flags & WALK_OUTERMOST) {
		stack->end = WALK_COMPLETE;
		return 1;
	}
	stack->end = leave_frame_by(s, rule);
	if (stack->end != WALK_COMPLETE)
		return 1;
	stack->end = WALK_TOO_DEEP;
	return 0;
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* A slot that walk_release() must give back; NULL: none is free. */
static __always_inline struct walk_scratch *walk_take(void)
{
	const __u32 first = bpf_get_smp_processor_id() * WALK_SLOTS;

	for (__u32 i = 0; i < WALK_SLOTS; i++) {
		const __u32 place = first + i;
		struct walk_scratch *s = bpf_map_lookup_elem(&walk_scratch, &place);

		if (s && __sync_val_compare_and_swap(&s->is_taken, 0, 1) == 0)
			return s;
	}
	return (void *)0;
}

static __always_inline void walk_release(struct walk_scratch *s)
{
	__sync_lock_test_and_set(&s->is_taken, 0);
}

/*
 * Walk from where the current thread left user space, or was interrupted in it; its process is
 * TGID. The stack is in S, which walk_take() returned. It has no frames of the kernel.
 */
static __always_inline void walk_current(struct walk_scratch *s, __u32 tgid)
{
	struct walk walk = { .scratch = s };
	struct pt_regs regs = { 0 };

	s->stack.hash = 0xcbf29ce484222325ULL;
	s->stack.n = 0;
	s->stack.n_kernel = 0;
	s->stack.end = WALK_UNREADABLE;
	if (bpf_probe_read_kernel(&regs, sizeof(regs),
				  (void *)bpf_task_pt_regs(bpf_get_current_task_btf())))
		return;
	s->regs[WALK_RBX] = regs.bx;
	s->regs[WALK_RBP] = regs.bp;
	s->regs[WALK_R12] = regs.r12;
	s->regs[WALK_R13] = regs.r13;
	s->regs[WALK_R14] = regs.r14;
	s->regs[WALK_R15] = regs.r15;
	s->regs[WALK_RSP] = regs.sp;
	s->regs[WALK_RIP] = regs.ip;
	s->is_caller = 0;
	s->lost = 0;
	s->stack.end = WALK_NO_PROCESS;
	walk.process = bpf_map_lookup_elem(&walk_processes, &tgid);
	if (walk.process)
		bpf_loop(WALK_DEPTH + 1, step, &walk, 0);
}

#endif
