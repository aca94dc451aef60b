// SPDX-License-Identifier: MIT
/*
 * Stores in `waits` the threads of a process that already wait when a profile of waits begins:
 * thread_switch() of profile.bpf.c has not seen the beginning of these waits. The program is an
 * iterator, which runs once for each thread of the process and uses the maps of profile.bpf.c. Only
 * a sleepable program can read the memory of another process. So this program is sleepable, and is
 * compiled with its own copy of the walker.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define WALK_OTHERS
#define bpf_probe_read_user read_of_thread

extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *task) __ksym;

/*
 * User space sets these three. tgid: the id of the process, as in walk_processes. has_namespace:
 * nonzero if the ids of the process and its threads belong to a pid namespace other than the
 * initial one. names_threads: as in struct profile_config.
 */
__u32 tgid, has_namespace, names_threads;

static __s32 thread; /* the id of the thread whose stack is walked */

static __always_inline long read_of_thread(void *to, __u32 bytes, const void *from)
{
	struct task_struct *task = bpf_task_from_pid(thread);
	long err = -1;

	if (task) {
		err = bpf_copy_from_user_task(to, bytes, from, task, 0);
		bpf_task_release(task);
	}
	return err;
}

#include "samples.h"
#include "stacks.bpf.h"
#include "waits.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline int waits_now(const struct task_struct *task)
{
	const __u32 state = BPF_CORE_READ(task, __state);

	return state != TASK_RUNNING && !(state & TASK_DEAD);
}

/* Return how often TASK has left a CPU. The number grows when TASK runs and then waits again. */
static __always_inline __u64 times_off_cpu(const struct task_struct *task)
{
	return BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
}

static __always_inline __u32 id_of(const struct task_struct *task)
{
	const struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u64 at;
	__u32 id = 0;

	if (!has_namespace)
		return BPF_CORE_READ(task, pid);
	at = (__u64)pid + bpf_core_field_offset(pid->numbers) +
	     BPF_CORE_READ(pid, level) * bpf_core_type_size(struct upid);
	/* reads upid.nr, the first member */
	bpf_probe_read_kernel(&id, sizeof(id), (const void *)at);
	return id;
}

static __always_inline int store_thread(struct task_struct *task, __u64 *hash)
{
	struct walk_scratch *s = walk_take();
	struct stack_losses *lost;
	__u32 zero = 0;
	int err = -1;
	long bytes;

	lost = bpf_map_lookup_elem(&stack_losses, &zero);
	if (s && lost) {
		walk_thread(s, task, tgid, WALK_MAX_DEPTH, 0);
		bytes = bpf_get_task_stack(task, &s->stack.frames[WALK_MAX_DEPTH],
					   WALK_KERNEL_DEPTH * sizeof(*s->stack.frames), 0);
		if (bytes > 0)
			s->stack.n_kernel = (__u32)bytes / sizeof(*s->stack.frames);
		err = store_walked(s, lost, hash);
	}
	if (s)
		walk_release(s);
	return err;
}

/*
 * Return 1 if TASK has run since times_off_cpu() returned TIMES. In this case the stack that was
 * read meanwhile is invalid.
 */
static __always_inline int has_run(const struct task_struct *task, __u64 times)
{
	return !waits_now(task) || times_off_cpu(task) != times;
}

SEC("iter.s/task")
int waiting_thread(struct bpf_iter__task *ctx)
{
	struct profile_wait wait = { .key.tgid = tgid, .is_first = 1 };
	struct task_struct *task = ctx->task;
	const struct profile_wait *now;
	__u64 times;
	__u32 id;

	if (!task)
		return 0;
	times = times_off_cpu(task);
	if (!waits_now(task))
		return 0;
	id = thread = BPF_CORE_READ(task, pid);
	wait.key.tid = id_of(task);
	if (names_threads)
		BPF_CORE_READ_STR_INTO(&wait.key.comm, task, comm);
	wait.since_ns = bpf_ktime_get_ns();
	wait.cpu_ns = cpu_time_of(task);
	wait.futex = futex_of(task);
	if (store_thread(task, &wait.key.stack) || has_run(task, times) ||
	    bpf_map_update_elem(&waits, &id, &wait, 1 /* BPF_NOEXIST */))
		return 0;
	/*
	 * If TASK began to run just before the update, thread_switch() did not find the new entry
	 * and could not remove it, so remove it here.
	 */
	now = bpf_map_lookup_elem(&waits, &id);
	if (now && now->is_first && has_run(task, times))
		bpf_map_delete_elem(&waits, &id);
	return 0;
}
