/* SPDX-License-Identifier: MIT */
/*
 * Splits the calls of functions of the runtime by the domain of OCaml 5 in which they run. In a
 * thread that runs a function of the runtime, the thread-local variable caml_state points to the
 * state of the thread's domain. This variable is at a fixed distance from the base of the FS
 * segment. This holds for the threads of the program, and for the backup thread, which stands in
 * for the domain while its threads wait.
 */
#ifndef MEASURE_DOMAINS_BPF_H
#define MEASURE_DOMAINS_BPF_H

#include "measure_core.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_domain_key);
	__type(value, struct measure_pair);
	__uint(max_entries, 1);
} domain_pairs SEC(".maps");

/*
 * One entry of zeros: the initial value of an entry of domain_pairs. It is too large for the stack
 * of a BPF program.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_pair);
	__uint(max_entries, 1);
} no_pair SEC(".maps");

struct thread_struct___fs {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct___fs {
	struct thread_struct___fs thread;
} __attribute__((preserve_access_index));

/*
 * Return the statistics of PAIR in the domain of this thread. Return NULL if the thread has no
 * domain, or if the map is full.
 */
static __always_inline struct measure_pair *pair_of_domain(__u32 pair)
{
	struct task_struct___fs *task = (void *)bpf_get_current_task();
	struct measure_domain_key key = { .pair = pair };
	struct measure_pair *found, *none;
	__u64 base = BPF_CORE_READ(task, thread.fsbase), state = 0, id = 0;
	__u32 zero = 0;

	bpf_probe_read_user(&state, sizeof(state),
			    (const void *)(base + (__u64)(__s64)config.domain_tls));
	if (!state ||
	    bpf_probe_read_user(&id, sizeof(id), (const void *)(state + config.domain_id)))
		return (void *)0;
	key.domain = (__u32)id;
	found = bpf_map_lookup_elem(&domain_pairs, &key);
	none = found ? (void *)0 : bpf_map_lookup_elem(&no_pair, &zero);
	if (none) {
		/*
		 * The update fails if the map is full, or if another thread has just made the
		 * entry.
		 */
		bpf_map_update_elem(&domain_pairs, &key, none, 1 /* BPF_NOEXIST */);
		found = bpf_map_lookup_elem(&domain_pairs, &key);
	}
	return found;
}

#endif
