/* SPDX-License-Identifier: MIT */
/*
 * Walks the stack of the current thread in user space. Each step finds the row for the frame's
 * address in the unwind table of the file that is mapped there. The rule of the row says where the
 * caller's stack pointer, instruction pointer and registers are. No frame is guessed: where a rule
 * is missing, or something cannot be read, the stack ends, and walk_walked.end says why.
 *
 * User space reads the mappings of processes beforehand, and stores them in walk_processes. If a
 * process has started or has loaded code since then, the walk searches the kernel's own tree of
 * mappings instead, and reports the process or file to user space in walk_news.
 *
 * A walk has at most 1024 frames, which take about 0.1 ms (40 to 90 ns a frame). Why not more:
 * interrupts are off while the CPU is sampled, so a deeper walk would delay interrupts for longer
 * than timers usually do, and at 99 samples per second it would take more than 1 % of the CPU's
 * time.
 *
 * A walk needs more memory than the stack of a BPF program has, so it uses a slot of walk_scratch.
 * Each CPU has several slots, since a program can be preempted in the middle of a walk by another
 * program that walks a stack, too.
 */
#ifndef WALK_BPF_H
#define WALK_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "uretprobe.bpf.h"
#include "vma.bpf.h"
#include "walk.h"
#include "walk_frame.bpf.h"

enum { NO_PREALLOC = 1 << 0 }; /* BPF_F_NO_PREALLOC in linux/bpf.h */

struct walk_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, WALK_TABLE_FLAGS);
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

/*
 * A cache of the rules of places in files, indexed by a hash of the place. An entry is one word
 * that contains a place (the result of frame_at() without WALK_IN_FILE) and the number of the
 * place's rule, so that one load reads both consistently.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, WALK_CACHE);
} walk_cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, NO_PREALLOC);
	__type(key, struct walk_inode);
	__type(value, struct walk_file);
	__uint(max_entries, WALK_MAX_TABLES);
} walk_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct walk_inode);
	__type(value, struct walk_news);
	__uint(max_entries, WALK_MAX_NEWS);
} walk_news SEC(".maps");

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

/* Return the mapping that holds ADDRESS, or NULL. */
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

/* ---- mappings that user space has not read yet ---------------------------------------------- */

struct stack_walk {
	struct walk_scratch *scratch;
	struct walk_process *process; /* NULL: the mappings of the process are not known */
	__u32 depth;
};

static __always_inline int is_inside(const struct walk_mapping *mapping, __u64 address)
{
	return address - mapping->start < mapping->end - mapping->start;
}

static __always_inline void tell_user(const struct walk_inode *inode, __u32 tgid, __u64 address)
{
	struct walk_news news = { .address = address, .tgid = tgid };

	bpf_map_update_elem(&walk_news, inode, &news, 1 /* BPF_NOEXIST */);
}

/*
 * Set *MAPPING to VMA, a mapping of FILE. Set the bias and the table of *MAPPING only if VMA maps a
 * part of one of the segments of FILE.
 */
static __always_inline void map_segment(struct walk_mapping *mapping, const struct vma *vma,
					const struct walk_file *file)
{
	mapping->start = vma->start;
	mapping->end = vma->end;
	mapping->bias = 0;
	mapping->table = WALK_NO_TABLE;
	mapping->n_rows = 0;
	for (__u32 i = 0; i < WALK_SEGMENTS; i++) {
		const struct walk_segment *segment = &file->segments[i];

		if (vma->off < segment->off || vma->off >= segment->end)
			continue;
		mapping->bias = vma->start - vma->off - segment->delta;
		mapping->table = file->table;
		mapping->n_rows = file->n_rows;
	}
}

/*
 * Find the mapping that contains ADDRESS in the kernel's tree and copy it to scratch->mapping.
 * Returns WALK_COMPLETE, or the reason why the mapping cannot be used.
 */
static __noinline __u32 find_late_mapping(struct stack_walk *walk, __u64 address)
{
	struct walk_scratch *s = walk->scratch;
	struct walk_inode inode = { 0 };
	const struct walk_file *file;
	struct vma vma;

	for (__u32 i = 0; i < WALK_LATE && i < s->n_late; i++) {
		if (is_inside(&s->late[i], address)) {
			s->mapping = s->late[i];
			return WALK_COMPLETE;
		}
	}
	/*
	 * Make user space read the mappings of the process again, unless walk_process has no room
	 * for more mappings.
	 */
	if (walk->process && walk->process->n < WALK_MAPPINGS)
		walk->process->n_unmapped++;
#ifdef WALK_OTHERS
	/* find_vma() searches the tree of the current process only. */
	return walk->process && walk->process->n == WALK_MAPPINGS ? WALK_FULL : WALK_NO_MAPPING;
#endif
	if (!find_vma(s->node, address, &vma) || !(vma.flags & VMA_EXECUTABLE) ||
	    (!vma.ino && !is_vdso(&vma)))
		return WALK_NO_MAPPING;
	inode.dev = vma.dev;
	inode.ino = vma.ino;
	file = bpf_map_lookup_elem(&walk_files, &inode);
	if (!file) {
		tell_user(&inode, s->tgid, address);
		return WALK_NEW_FILE;
	}
	map_segment(&s->mapping, &vma, file);
	if (s->n_late < WALK_LATE)
		s->late[s->n_late++] = s->mapping;
	return WALK_COMPLETE;
}

/*
 * Like find_late_mapping(), but first try the mapping of the previous frame and the mappings that
 * user space has read.
 */
static __always_inline __u32 find_any_mapping(struct stack_walk *walk, __u64 address)
{
	struct walk_scratch *s = walk->scratch;
	const struct walk_mapping *mapping;

	if (is_inside(&s->mapping, address))
		return WALK_COMPLETE;
	mapping = walk->process ? find_mapping(walk->process, address) : (void *)0;
	if (!mapping)
		return find_late_mapping(walk, address);
	s->mapping = *mapping;
	return WALK_COMPLETE;
}

/* ---- rules ---------------------------------------------------------------------------------- */

/* Return ADDRESS, which is in MAPPING, as a frame (see WALK_EXACT) without the flag WALK_EXACT. */
static __always_inline __u64 frame_at(const struct walk_mapping *mapping, __u64 address)
{
	const __u64 va = address - mapping->bias;

	return mapping->table == WALK_NO_TABLE || va >> 32
		       ? address
		       : walk_frame_in_file(mapping->table, (__u32)va);
}

/*
 * Set *RULE to the number of the rule for VA in the table of MAPPING. Returns nonzero if
 * walk_tables does not have the table yet.
 */
static __always_inline int search_rule(const struct walk_mapping *mapping, __u32 va, __u32 *rule)
{
	const __u32 table = mapping->table;
	struct row_search r = { .va = va, .high = mapping->n_rows };

	r.table = bpf_map_lookup_elem(&walk_tables, &table);
	if (!r.table)
		return -1;
	bpf_loop(WALK_ROW_STEPS, narrow_rows, &r, 0);
	*rule = r.rule;
	return 0;
}

/*
 * Return the number of the rule for INSIDE, a frame from frame_at(), or 0 if no rule is known. The
 * rule of a place in a file never changes, so cached rules stay valid.
 */
static __always_inline __u32 find_rule(const struct walk_mapping *mapping, __u64 inside)
{
	const __u64 place = inside & ~WALK_IN_FILE;
	const __u32 slot = (__u32)(place * 0x9e3779b97f4a7c15ULL >> 40) % WALK_CACHE;
	volatile __u64 *cached;
	__u64 word;
	__u32 rule = 0;

	if (!(inside & WALK_IN_FILE) || !mapping->n_rows)
		return 0;
	cached = bpf_map_lookup_elem(&walk_cache, &slot);
	if (!cached)
		return 0;
	word = *cached;
	if ((word & WALK_CACHED_PLACE) == place)
		return (__u32)(word >> WALK_CACHED_BITS);
	if (search_rule(mapping, (__u32)inside, &rule))
		return 0;
	*cached = place | (__u64)rule << WALK_CACHED_BITS;
	return rule;
}

/* ---- the stack ------------------------------------------------------------------------------- */

/*
 * Add WORD to HASH and return the new hash. This is like FNV-1a, but with words instead of bytes.
 */
static __always_inline __u64 walk_hash(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x100000001b3ULL;
	return hash ^ hash >> 29;
}

/*
 * Return the instruction pointer of the next frame. If a return probe has replaced this return
 * address, return the real one.
 */
static __always_inline __u64 next_address(const struct walk_scratch *s)
{
	const __u64 rip = s->regs[WALK_RIP];
	__u64 real = 0;

	if (s->is_caller && rip == s->trampoline)
		real = uretprobe_address(s->regs[WALK_RSP] - sizeof(rip));
	return real ? real : rip;
}

/*
 * Return 1 if the address INSIDE, of frame I, is in the function of the first frame, and I is not
 * that frame.
 */
static __always_inline int calls_again(struct walk_scratch *s, __u64 inside, __u32 i)
{
	const __u64 place = frame_at(&s->mapping, inside);

	if (i)
		return place - s->function_at < s->function_bytes;
	s->function_at = place - s->function_before;
	return 0;
}

static long step_walk(__u32 i, struct stack_walk *walk)
{
	struct walk_scratch *s = walk->scratch;
	struct walk_walked *stack = &s->stack;
	const __u64 rip = next_address(s);
	const __u64 inside = rip - (s->is_caller ? 1 : 0);
	const __u32 end = find_any_mapping(walk, inside);
	const struct walk_rule *rule;
	__u64 frame, at = i;
	__u32 number;

	if (end != WALK_COMPLETE) {
		stack->end = end;
		return 1;
	}
	if (i >= WALK_MAX_DEPTH || i >= walk->depth)
		return 1;
	frame = frame_at(&s->mapping, rip) | (s->is_caller ? 0 : WALK_EXACT);
	/*
	 * The mask changes nothing, but the verifier needs it: if the compiler stores I on the
	 * stack before the check, the verifier does not know the bound of `at`.
	 */
	asm volatile("%0 &= %1" : "+r"(at) : "i"(WALK_MAX_DEPTH - 1));
	stack->frames[at] = frame;
	stack->n = (__u32)at + 1;
	if (s->function_bytes && calls_again(s, inside, i)) {
		s->is_nested = 1;
		stack->end = WALK_COMPLETE;
		return 1;
	}
	number = find_rule(&s->mapping, frame_at(&s->mapping, inside));
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

/*
 * Take a slot of this CPU, which the caller frees with walk_release(). Return NULL if no slot is
 * free.
 */
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
 * Walk the stack of TASK, a thread of process TGID, into S, which walk_take() returned. Begin at
 * the instruction at which TASK entered the kernel. IS_CALLER: nonzero if a call has just returned
 * to this instruction. The stack gets at most DEPTH frames in user space, and no frames in the
 * kernel. In objects without WALK_OTHERS, TASK must be the current thread.
 */
static __always_inline void walk_thread(struct walk_scratch *s, struct task_struct *task,
					__u32 tgid, __u32 depth, __u32 is_caller)
{
	const struct walk_inode process = { WALK_PROCESS, tgid };
	struct stack_walk walk = { .scratch = s, .depth = depth };
	/* The stack of a BPF program is small, and the window is free now. */
	const struct pt_regs *regs = (const void *)s->window;

	_Static_assert(sizeof(*regs) <= sizeof(s->window), "the window is too small");
	s->stack.hash = 0;
	s->stack.n = 0;
	s->stack.frames[0] = 0;
	s->stack.n_kernel = 0;
	s->stack.end = WALK_UNREADABLE;
	s->window_at = 0;
	if (bpf_probe_read_kernel(s->window, sizeof(*regs), (void *)bpf_task_pt_regs(task)))
		return;
	s->regs[WALK_RBX] = regs->bx;
	s->regs[WALK_RBP] = regs->bp;
	s->regs[WALK_R12] = regs->r12;
	s->regs[WALK_R13] = regs->r13;
	s->regs[WALK_R14] = regs->r14;
	s->regs[WALK_R15] = regs->r15;
	s->regs[WALK_RSP] = regs->sp;
	s->regs[WALK_RIP] = regs->ip;
	s->is_caller = is_caller;
	s->trampoline = uretprobe_trampoline();
	s->lost = 0;
	s->calls_back = 0;
	s->roots = 0;
	s->parent = 0;
	s->n_late = 0;
	s->mapping.start = s->mapping.end = 0;
	s->is_nested = 0;
	s->tgid = tgid;
	walk.process = bpf_map_lookup_elem(&walk_processes, &tgid);
	if (!walk.process)
		tell_user(&process, tgid, regs->ip);
	bpf_loop(WALK_MAX_DEPTH + 1, step_walk, &walk, 0);
}

static __always_inline void walk_user(struct walk_scratch *s, __u32 tgid, __u32 depth,
				      __u32 is_caller)
{
	walk_thread(s, bpf_get_current_task_btf(), tgid, depth, is_caller);
}

/* Like walk_user() with IS_CALLER 0: the first frame is at an instruction that is about to run. */
static __always_inline void walk_current(struct walk_scratch *s, __u32 tgid, __u32 depth)
{
	walk_user(s, tgid, depth, 0);
}

#endif
