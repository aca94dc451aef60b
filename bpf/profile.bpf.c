// SPDX-License-Identifier: MIT
/*
 * Samples the stacks of threads that run (sample_cpu), that wait (thread_switch) and that allocate
 * (small_blocks, large_block). Samples are counted by stack, process and thread.
 */
#include "stacks.bpf.h"
#include "waits.bpf.h"
#include "access.bpf.h"
#include <bpf/bpf_core_read.h>
#include "pid_namespace.bpf.h"
#include "samples.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct profile_config config;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct profile_key);
	__type(value, struct profile_count);
	__uint(max_entries, PROFILE_MAX_COUNTS);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct profile_losses);
	__uint(max_entries, 1);
} losses SEC(".maps");

/* Words in large blocks that no sample has counted yet. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} large_words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct profile_pace);
	__uint(max_entries, 1);
} paces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct profile_sampled);
	__uint(max_entries, 1);
} sampled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct profile_release);
	__type(value, struct profile_count);
	__uint(max_entries, 1);
} releases SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} moments SEC(".maps");

static __always_inline struct profile_losses *our_losses(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

static __always_inline void add_atomically(__u64 *sum, __u64 n)
{
	__sync_fetch_and_add(sum, n);
}

static __always_inline int current_ids(struct bpf_pidns_info *ids)
{
	return ids_in_namespace(config.pidns_dev, config.pidns_ino, ids);
}

/*
 * Return 1 if the current process, which is not in walk_processes, is to be profiled because it has
 * started since the profile began.
 */
static __always_inline int is_newcomer(void)
{
	if (!config.exe_ino || !current_executes(config.exe_dev, config.exe_ino))
		return 0;
	return !config.checks_access ||
	       may_user_inspect(config.uid, config.gid, config.userns_ino, config.capabilities);
}

static __always_inline int is_profiled(struct bpf_pidns_info *ids)
{
	return current_ids(ids) &&
	       (bpf_map_lookup_elem(&walk_processes, &ids->tgid) || is_newcomer());
}

/* ---- stacks and counts ---------------------------------------------------------------------- */

/*
 * Store the stack of the current thread, without the innermost SKIP frames in the kernel, and set
 * *HASH to its key. Returns 0, or -1 if the stack is lost.
 */
static __always_inline int store_current(void *ctx, const struct bpf_pidns_info *ids, __s32 skip,
					 __u64 *hash)
{
	const struct stack_request request = { ids->tgid, WALK_MAX_DEPTH, skip };

	return store_stack(ctx, &request, hash);
}

/* Set KEY to the current thread, without the stack. */
static __always_inline void set_thread(struct profile_key *key, const struct bpf_pidns_info *ids)
{
	key->tgid = ids->tgid;
	key->tid = ids->pid;
	if (config.names_threads)
		bpf_get_current_comm(key->comm, sizeof(key->comm));
}

static __always_inline void count_for_key(const struct profile_key *key, __u64 sum, __u64 heaps)
{
	struct profile_count *slot = bpf_map_lookup_elem(&counts, key), none = {};
	struct profile_losses *lost;

	if (!slot) {
		bpf_map_update_elem(&counts, key, &none, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&counts, key);
	}
	if (slot) {
		add_atomically(&slot->n, 1);
		add_atomically(&slot->sum, sum);
		add_atomically(&slot->heaps, heaps);
		return;
	}
	lost = our_losses();
	if (lost)
		add_atomically(&lost->counts_full, 1);
}

/* Write a sample with its times to `moments`. */
static __always_inline void keep_moment(const struct profile_key *key, __u64 begin_ns, __u64 end_ns,
					__u64 woken_ns)
{
	struct profile_moment *moment = bpf_ringbuf_reserve(&moments, sizeof(*moment), 0);
	struct profile_losses *lost;

	if (moment) {
		moment->key = *key;
		moment->begin_ns = begin_ns;
		moment->end_ns = end_ns;
		moment->woken_ns = woken_ns;
		bpf_ringbuf_submit(moment, 1 /* BPF_RB_NO_WAKEUP */);
		return;
	}
	lost = our_losses();
	if (lost)
		add_atomically(&lost->moments_full, 1);
}

/* ---- cost ----------------------------------------------------------------------------------- */

static __always_inline __u64 cost_begin(void)
{
	return config.counts_cost ? bpf_ktime_get_ns() : 0;
}

static __always_inline void cost_end(__u64 start_ns)
{
	struct profile_losses *lost;

	if (!config.counts_cost)
		return;
	lost = our_losses();
	if (lost)
		add_atomically(&lost->run_ns, bpf_ktime_get_ns() - start_ns);
}

/* ---- the programs --------------------------------------------------------------------------- */

SEC("perf_event")
int sample_cpu(void *ctx)
{
	const __u64 start_ns = cost_begin();
	struct bpf_pidns_info ids = {};
	struct profile_key key = {};

	if (!config.samples_cpu || !is_profiled(&ids))
		return 0;
	set_thread(&key, &ids);
	if (store_current(ctx, &ids, 0, &key.stack) == 0) {
		if (config.keeps_moments) {
			const __u64 now_ns = bpf_ktime_get_ns();

			keep_moment(&key, now_ns, now_ns, 0);
		} else {
			count_for_key(&key, 0, 0);
		}
	}
	cost_end(start_ns);
	return 0;
}

/*
 * The innermost frames in the kernel to leave out: the BPF program, and the function that calls it.
 */
enum { TRACEPOINT_FRAMES = 2 };

static __always_inline void store_wait(void *ctx, const struct bpf_pidns_info *ids)
{
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	/* The wait begins now: the time to walk the stack is part of it. */
	struct profile_wait wait = { .since_ns = bpf_ktime_get_ns() };
	struct profile_losses *lost;

	if (store_current(ctx, ids, TRACEPOINT_FRAMES, &wait.key.stack))
		return;
	set_thread(&wait.key, ids);
	wait.cpu_ns = cpu_time_of(bpf_get_current_task_btf());
	if (config.finds_releases)
		wait.futex = futex_of(bpf_get_current_task_btf());
	if (bpf_map_update_elem(&waits, &tid, &wait, 0 /* BPF_ANY */) == 0)
		return;
	lost = our_losses();
	if (lost)
		add_atomically(&lost->waits_full, 1);
}

/* Store the stack of the current thread, which begins to wait, in `waits`. */
static __always_inline void begin_wait(void *ctx)
{
	const __u64 start_ns = cost_begin();
	struct bpf_pidns_info ids = {};

	if (!is_profiled(&ids))
		return;
	store_wait(ctx, &ids);
	cost_end(start_ns);
}

/*
 * Return how long WAIT of TASK, which has ended, took. If nobody was seen to wake TASK, subtract
 * the CPU time that TASK has used since the wait began, because TASK may have run in between
 * without being noticed: some kernels run no BPF programs in some threads, and a switch from such a
 * thread to TASK is not seen.
 */
static __always_inline __u64 duration_of(const struct profile_wait *wait,
					 const struct task_struct *task)
{
	__u64 ns, ran_ns;

	if (wait->woken_ns)
		return wait->woken_ns - wait->since_ns;
	ns = bpf_ktime_get_ns() - wait->since_ns;
	ran_ns = cpu_time_of(task) - wait->cpu_ns;
	return ran_ns < ns ? ns - ran_ns : 0;
}

/* TASK runs again, or runs no more: count its wait, if it has waited. */
static __always_inline void end_wait(const struct task_struct *task)
{
	const __u32 tid = (__u32)BPF_CORE_READ(task, pid);
	const struct profile_wait *wait = bpf_map_lookup_elem(&waits, &tid);
	__u64 ns, since_ns, woken_ns;
	struct profile_key key;

	if (!wait)
		return;
	key = wait->key;
	since_ns = wait->since_ns;
	woken_ns = wait->woken_ns;
	ns = duration_of(wait, task);
	if (bpf_map_delete_elem(&waits, &tid))
		return;
	if (config.keeps_moments)
		keep_moment(&key, since_ns, woken_ns ? bpf_ktime_get_ns() : since_ns + ns,
			    woken_ns);
	else
		count_for_key(&key, ns, 0);
}

/*
 * The arguments of sched_switch are preempt, prev, next and prev_state. The current thread is prev.
 */
SEC("raw_tracepoint/sched_switch")
int thread_switch(struct bpf_raw_tracepoint_args *args)
{
	const __u32 state = (__u32)args->args[3];

	if (!config.samples_waits)
		return 0;
	end_wait((const void *)args->args[1]);
	if (!args->args[0] && state != TASK_RUNNING && !(state & TASK_DEAD))
		begin_wait(args);
	end_wait((const void *)args->args[2]);
	return 0;
}

/* Operations of futex(2) that wake threads that wait for the address in the first argument. */
enum {
	FUTEX_WAKE = 1,
	FUTEX_REQUEUE = 3,
	FUTEX_CMP_REQUEUE = 4,
	FUTEX_WAKE_OP = 5,
	FUTEX_UNLOCK_PI = 7,
	FUTEX_WAKE_BITSET = 10,
	FUTEX_OPERATION = 0x7f, /* the part of the argument without its flags */
};

/*
 * Return 1 if the current thread wakes those that wait for FUTEX, an address in its own process.
 * Interrupts, which wake threads while any thread runs, do not match by chance: an interrupt comes
 * to the current thread in the very call that wakes this futex, if at all.
 */
static __always_inline int wakes_futex(__u64 futex)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const __u32 operation = BPF_CORE_READ(entry_registers(task), si) & FUTEX_OPERATION;

	return futex_of(task) == futex &&
	       (operation == FUTEX_WAKE || operation == FUTEX_REQUEUE ||
		operation == FUTEX_CMP_REQUEUE || operation == FUTEX_WAKE_OP ||
		operation == FUTEX_UNLOCK_PI || operation == FUTEX_WAKE_BITSET);
}

static __always_inline void count_release(const struct profile_release *key, __u64 ns)
{
	struct profile_count *slot = bpf_map_lookup_elem(&releases, key), none = {};
	struct profile_losses *lost;

	if (!slot) {
		bpf_map_update_elem(&releases, key, &none, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&releases, key);
	}
	if (slot) {
		add_atomically(&slot->n, 1);
		add_atomically(&slot->sum, ns);
		return;
	}
	lost = our_losses();
	if (lost)
		add_atomically(&lost->releases_full, 1);
}

/*
 * The current thread ends WAIT, which a thread of its process has begun, by waking the futex: store
 * its stack.
 */
static __always_inline void store_release(void *ctx, const struct profile_wait *wait)
{
	const __u64 start_ns = cost_begin();
	struct stack_request request = { 0, WALK_MAX_DEPTH, STACK_NO_KERNEL };
	struct profile_release key = { .wait = wait->key.stack };
	const __u64 ns = wait->woken_ns - wait->since_ns;
	struct bpf_pidns_info ids = {};

	if (!current_ids(&ids) || ids.tgid != wait->key.tgid)
		return;
	request.tgid = key.tgid = ids.tgid;
	key.tid = ids.pid;
	bpf_get_current_comm(key.comm, sizeof(key.comm));
	if (store_stack(ctx, &request, &key.stack) == 0)
		count_release(&key, ns);
	cost_end(start_ns);
}

/* The argument of sched_waking is the thread that is woken: it waits for a CPU from now on. */
SEC("raw_tracepoint/sched_waking")
int thread_waking(struct bpf_raw_tracepoint_args *args)
{
	const struct task_struct *task = (const void *)args->args[0];
	const __u32 tid = (__u32)BPF_CORE_READ(task, pid);
	struct profile_wait *wait = bpf_map_lookup_elem(&waits, &tid);

	if (!config.samples_waits || !wait || wait->woken_ns)
		return 0;
	wait->woken_ns = bpf_ktime_get_ns();
	if (config.finds_releases && wait->futex &&
	    (__u32)BPF_CORE_READ(task, tgid) == bpf_get_current_pid_tgid() >> 32 &&
	    wakes_futex(wait->futex))
		store_release(args, wait);
	return 0;
}

/* ---- allocation ----------------------------------------------------------------------------- */

/*
 * Offsets in the state of a domain (runtime/caml/domain_state.tbl): young_ptr is member 1;
 * young_trigger is member 9 in OCaml 4.13 and 4.14, and member 4 in OCaml 5. A member has 8 bytes.
 */
enum { STATE_YOUNG_PTR = 8, STATE_TRIGGER_4 = 72, STATE_TRIGGER_5 = 32 };

static __always_inline int load_u64(__u64 at, __u64 *word)
{
	return bpf_probe_read_user(word, sizeof(*word), (const void *)at);
}

/*
 * Return 1 if caml_alloc_small_dispatch() was called because the minor heap has run out. The
 * runtime also calls it when a signal or a finaliser is pending; counting these calls would give
 * some callers too many samples.
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

static __always_inline void sample_words(void *ctx, const struct bpf_pidns_info *ids, __u64 words,
					 __u64 heaps)
{
	struct profile_key key = {};

	set_thread(&key, ids);
	if (store_current(ctx, ids, 0, &key.stack) == 0)
		count_for_key(&key, words, heaps);
}

/*
 * Return the entry of the current process in `sampled`, or NULL if the allocation of the process is
 * not sampled now.
 */
static __always_inline struct profile_sampled *sampled_process(struct bpf_pidns_info *ids)
{
	return is_profiled(ids) ? bpf_map_lookup_elem(&sampled, &ids->tgid) : (void *)0;
}

/* Begin a group of minor heaps. If the current interval is over, begin a new one, too. */
static __always_inline void begin_group(struct profile_pace *pace, __u64 now_ns)
{
	const __u32 heaps = pace->heaps;

	if (now_ns - pace->since_ns >= PROFILE_INTERVAL_NS) {
		pace->since_ns = now_ns;
		pace->heaps = 0;
		pace->shift = 0;
	}
	while (pace->shift < PROFILE_MAX_SHIFT &&
	       (heaps >> (pace->shift & PROFILE_MAX_SHIFT)) * PROFILE_INTERVALS_HZ >
		       config.heaps_hz)
		pace->shift++;
	pace->chosen = bpf_get_prandom_u32() & ((1u << (pace->shift & PROFILE_MAX_SHIFT)) - 1);
}

/*
 * A minor heap has just run out. Return 0 if it is not sampled, else the number of minor heaps that
 * it represents.
 */
static __always_inline __u64 weigh_minor_heap(void)
{
	const __u32 zero = 0;
	struct profile_pace *pace = bpf_map_lookup_elem(&paces, &zero);
	__u32 group, place;

	if (!pace)
		return 0;
	if (!pace->place)
		begin_group(pace, bpf_ktime_get_ns());
	group = 1u << (pace->shift & PROFILE_MAX_SHIFT);
	place = pace->place;
	pace->place = (place + 1) & (group - 1);
	pace->heaps++;
	return place == pace->chosen ? group : 0;
}

/* The uprobe on caml_alloc_small_dispatch(). */
SEC("uprobe.multi")
int small_blocks(struct pt_regs *ctx)
{
	const __u64 start_ns = cost_begin();
	struct bpf_pidns_info ids = {};
	struct profile_losses *lost = our_losses();
	struct profile_sampled *process = sampled_process(&ids);
	__u64 heaps;

	if (!config.samples_words || !lost || !process)
		return 0;
	add_atomically(&lost->small_hits, 1);
	if (has_run_out(ctx, bpf_get_attach_cookie(ctx), ids.tgid)) {
		add_atomically(&process->heaps, 1);
		heaps = weigh_minor_heap();
		if (heaps)
			sample_words(ctx, &ids, 0, heaps);
	}
	cost_end(start_ns);
	return 0;
}

/* The uprobe on caml_alloc_shr(words, tag) and similar functions. */
SEC("uprobe.multi")
int large_block(struct pt_regs *ctx)
{
	/* words: the size of the block, including its header */
	const __u64 start_ns = cost_begin(), words = ctx->di + 1;
	struct bpf_pidns_info ids = {};
	struct profile_losses *lost = our_losses();
	__u32 zero = 0;
	__u64 *sum = bpf_map_lookup_elem(&large_words, &zero);

	if (!config.samples_words || !sum || !lost || !sampled_process(&ids))
		return 0;
	add_atomically(&lost->large_hits, 1);
	if (__sync_fetch_and_add(sum, words) + words >= PROFILE_LARGE_WORDS)
		sample_words(ctx, &ids, __sync_lock_test_and_set(sum, 0), 0);
	cost_end(start_ns);
	return 0;
}

/* ---- processes that end --------------------------------------------------------------------- */

/*
 * Forget the current process, because it ends and another process may get its id, or because it
 * executes another program, which this user is perhaps not permitted to inspect.
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
	struct walk_inode process = { WALK_PROCESS, 0 };
	struct bpf_pidns_info ids = {};

	(void)unused;
	forget_current();
	if (current_ids(&ids) && is_newcomer()) {
		process.ino = ids.tgid;
		tell_user(&process, ids.tgid, 0);
	}
	return 0;
}

SEC("raw_tracepoint/sched_process_exit")
int thread_exit(void *unused)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	(void)unused;
	/*
	 * Forget the process when its last thread ends. The kernel has already subtracted this
	 * thread from `live`.
	 */
	if (!BPF_CORE_READ(task, signal, live.counter))
		forget_current();
	return 0;
}
