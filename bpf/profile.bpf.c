// SPDX-License-Identifier: MIT
/*
 * Samples of stacks: of what runs (sample_cpu) and of what waits (sched_switch). A stack is stored
 * once, under its hash. A count belongs to a stack, a process and a thread.
 */
#include "walk.bpf.h"
#include <bpf/bpf_core_read.h>
#include "pid_namespace.bpf.h"
#include "samples.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct profile_config config;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, struct walk_stack);
	__uint(max_entries, PROFILE_MAX_STACKS);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct profile_key);
	__type(value, struct profile_count);
	__uint(max_entries, PROFILE_MAX_COUNTS);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct profile_wait);
	__uint(max_entries, 1);
} waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct profile_losses);
	__uint(max_entries, 1);
} losses SEC(".maps");

/* Words in large blocks that belong to no stack yet. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} large_words SEC(".maps");

static __always_inline struct profile_losses *our_losses(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

static __always_inline void add(__u64 *sum, __u64 n)
{
	__sync_fetch_and_add(sum, n);
}

static __always_inline int current_ids(struct bpf_pidns_info *ids)
{
	return ids_in_namespace(config.pidns_dev, config.pidns_ino, ids);
}

static __always_inline int is_profiled(struct bpf_pidns_info *ids)
{
	return current_ids(ids) && bpf_map_lookup_elem(&walk_processes, &ids->tgid);
}

/* ---- stacks and counts ---------------------------------------------------------------------- */

/*
 * Walk the stack of the current thread and store it, without its first N_OURS frames in the kernel.
 * *HASH is its key; -1: it is lost.
 */
static __always_inline int store_stack(void *ctx, const struct bpf_pidns_info *ids, __u32 n_ours,
				       __u64 *hash)
{
	struct walk_scratch *s = walk_take();
	struct profile_losses *lost = our_losses();
	const struct walk_stack *known;
	struct walk_stack *stack;
	long bytes;
	int err = 0;

	if (!lost)
		return -1;
	if (!s) {
		add(&lost->ended[WALK_BUSY], 1);
		return -1;
	}
	stack = &s->stack;
	walk_current(s, ids->tgid);
	bytes = bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), n_ours);
	if (bytes > 0)
		stack->n_kernel = (__u32)bytes / sizeof(*stack->kernel);
	for (__u32 i = 0; i < WALK_KERNEL_DEPTH && i < stack->n_kernel; i++)
		stack->hash = walk_hash(stack->hash, stack->kernel[i]);
	if (stack->end < WALK_ENDS)
		add(&lost->ended[stack->end], 1);
	*hash = stack->hash;
	known = bpf_map_lookup_elem(&stacks, hash);
	if (!known) {
		/* This also fails if another CPU has just stored the same stack. */
		bpf_map_update_elem(&stacks, hash, stack, 1 /* BPF_NOEXIST */);
		known = bpf_map_lookup_elem(&stacks, hash);
		if (!known) {
			add(&lost->stacks_full, 1);
			err = -1;
		}
	}
	if (known && (known->n != stack->n || known->n_kernel != stack->n_kernel ||
		      known->end != stack->end || known->frames[0] != stack->frames[0])) {
		add(&lost->collisions, 1);
		err = -1;
	}
	walk_release(s);
	return err;
}

static __always_inline void count(const struct profile_key *key, __u64 sum)
{
	struct profile_count *slot = bpf_map_lookup_elem(&counts, key), none = {};
	struct profile_losses *lost;

	if (!slot) {
		bpf_map_update_elem(&counts, key, &none, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&counts, key);
	}
	if (slot) {
		add(&slot->n, 1);
		add(&slot->sum, sum);
		return;
	}
	lost = our_losses();
	if (lost)
		add(&lost->counts_full, 1);
}

/* ---- the programs --------------------------------------------------------------------------- */

SEC("perf_event")
int sample_cpu(void *ctx)
{
	struct bpf_pidns_info ids = {};
	struct profile_key key = {};

	if (!is_profiled(&ids) || store_stack(ctx, &ids, 0, &key.stack))
		return 0;
	key.tgid = ids.tgid;
	key.tid = ids.pid;
	count(&key, 0);
	return 0;
}

/* The program, and the function of the kernel that calls it. */
enum { TRACEPOINT_FRAMES = 2 };

/* A thread begins to wait: its stack is that of now. */
static __always_inline void begin_wait(void *ctx)
{
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct bpf_pidns_info ids = {};
	struct profile_wait wait = {};
	struct profile_losses *lost;

	if (!is_profiled(&ids) || store_stack(ctx, &ids, TRACEPOINT_FRAMES, &wait.key.stack))
		return;
	wait.key.tgid = ids.tgid;
	wait.key.tid = ids.pid;
	wait.since_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&waits, &tid, &wait, 0 /* BPF_ANY */) == 0)
		return;
	lost = our_losses();
	if (lost)
		add(&lost->waits_full, 1);
}

static __always_inline void end_wait(__u32 tid)
{
	const struct profile_wait *wait = bpf_map_lookup_elem(&waits, &tid);
	struct profile_key key;
	__u64 since_ns;

	if (!wait)
		return;
	key = wait->key;
	since_ns = wait->since_ns;
	if (bpf_map_delete_elem(&waits, &tid) == 0)
		count(&key, bpf_ktime_get_ns() - since_ns);
}

/* States of include/linux/sched.h: a thread that is preempted does not wait, nor one that has ended. */
enum { TASK_RUNNING = 0, TASK_DEAD = 0x80 };

/* sched_switch(preempt, prev, next, prev_state); the current thread is prev. */
SEC("raw_tracepoint/sched_switch")
int thread_switch(struct bpf_raw_tracepoint_args *args)
{
	const struct task_struct *next = (const void *)args->args[2];
	const __u32 state = (__u32)args->args[3];

	if (!args->args[0] && state != TASK_RUNNING && !(state & TASK_DEAD))
		begin_wait(args);
	end_wait((__u32)BPF_CORE_READ(next, pid));
	return 0;
}

/* ---- allocation ----------------------------------------------------------------------------- */

/*
 * Offsets in the state of a domain (runtime/caml/domain_state.tbl): young_ptr is member 1, and
 * young_trigger member 9 of OCaml 4.13 and 4.14, member 4 of OCaml 5.
 */
enum { STATE_YOUNG_PTR = 8, STATE_TRIGGER_4 = 72, STATE_TRIGGER_5 = 32 };

static __always_inline int load_u64(__u64 at, __u64 *word)
{
	return bpf_probe_read_user(word, sizeof(*word), (const void *)at);
}

/*
 * Has the minor heap run out? caml_alloc_small_dispatch() is also called when a signal or a
 * finaliser waits, more often by some callers than by others.
 */
static __always_inline int has_run_out(const struct pt_regs *regs, __u64 cookie, __u32 tgid)
{
	const struct walk_process *process = bpf_map_lookup_elem(&walk_processes, &tgid);
	const struct walk_mapping *mapping;
	__u64 state = regs->di, young, trigger;

	if (!process)
		return 0;
	if (cookie != PROFILE_STATE_IN_RDI) {
		mapping = find_mapping(process, regs->ip);
		if (!mapping || load_u64(mapping->bias + cookie, &state))
			return 0;
	}
	if (load_u64(state + STATE_YOUNG_PTR, &young) ||
	    load_u64(state + (cookie ? STATE_TRIGGER_4 : STATE_TRIGGER_5), &trigger))
		return 0;
	return young < trigger;
}

static __always_inline void sample_words(void *ctx, const struct bpf_pidns_info *ids, __u64 words)
{
	struct profile_key key = { .tgid = ids->tgid, .tid = ids->pid };

	if (store_stack(ctx, ids, 0, &key.stack) == 0)
		count(&key, words);
}

/* caml_alloc_small_dispatch(): a sample for as many words as were allocated since the last one. */
SEC("uprobe.multi")
int small_blocks(struct pt_regs *ctx)
{
	struct bpf_pidns_info ids = {};

	if (is_profiled(&ids) && has_run_out(ctx, bpf_get_attach_cookie(ctx), ids.tgid))
		sample_words(ctx, &ids, 0);
	return 0;
}

/* caml_alloc_shr(words, tag) and the like */
SEC("uprobe.multi")
int large_block(struct pt_regs *ctx)
{
	const __u64 words = ctx->di + 1; /* with the header */
	struct bpf_pidns_info ids = {};
	struct profile_losses *lost = our_losses();
	__u32 zero = 0;
	__u64 *sum = bpf_map_lookup_elem(&large_words, &zero);

	if (!sum || !lost || !is_profiled(&ids))
		return 0;
	add(&lost->large_hits, 1);
	if (__sync_fetch_and_add(sum, words) + words >= PROFILE_LARGE_WORDS)
		sample_words(ctx, &ids, __sync_lock_test_and_set(sum, 0));
	return 0;
}

/* ---- processes that end --------------------------------------------------------------------- */

/*
 * Forget the process before another one has its id, or before it runs another program: that may be
 * one whose stacks this user must not see.
 */
static __always_inline void forget_current(void)
{
	struct bpf_pidns_info ids = {};

	if (current_ids(&ids))
		bpf_map_delete_elem(&walk_processes, &ids.tgid);
}

SEC("raw_tracepoint/sched_process_exec")
int process_exec(void *unused)
{
	(void)unused;
	forget_current();
	return 0;
}

SEC("raw_tracepoint/sched_process_exit")
int thread_exit(void *unused)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	(void)unused;
	/* Only for the last thread. The kernel has already decremented the counter. */
	if (!BPF_CORE_READ(task, signal, live.counter))
		forget_current();
	return 0;
}
