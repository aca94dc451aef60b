// SPDX-License-Identifier: MIT
/*
 * Records the events of Gc.Memprof at the probes of the library ocaml-probes.memprof, for `memprof
 * --events=probes`. The cookie of a site is its number.
 *
 * A record is made in scratch memory, because its length depends on the call stack, and is then
 * copied into the ring buffer. Each processor has scratch memory for EVENT_SLOTS simultaneous
 * programs, because a program can be preempted or wait for a page. An event that cannot be recorded
 * or read completely is counted as lost. When the ring buffer is three quarters full, only
 * promotions and deallocations are recorded, as in the ring of the library.
 *
 * A call stack is an OCaml block with one word per frame. A word is an address: of debug
 * information if bit 1 is set, otherwise of a frame descriptor. Bit 0 is always set, so that OCaml
 * takes the word for an int. A frame descriptor begins with the return address.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "memprof.h"
#pragma clang diagnostic push
/* args.bpf.h also has functions for keys and printed records */
#pragma clang diagnostic ignored "-Wunused-function"
#include "site_args.bpf.h"
#pragma clang diagnostic pop
#include "pid_namespace.bpf.h"

enum {
	AVAILABLE_DATA = 0, /* BPF_RB_AVAIL_DATA in linux/bpf.h */
	NO_WAKEUP = 1,	    /* BPF_RB_NO_WAKEUP: the reader polls */
};

#define DEBUGINFO (1ULL << 63)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

volatile struct memprof_config config;

/* Where max_entries is 1, user space sets the real number before the load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct memprof_site);
	__uint(max_entries, 1);
} sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct memprof_scratch);
	__uint(max_entries, 1);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct memprof_probe_losses);
	__uint(max_entries, 1);
} losses SEC(".maps");

/* Take a slot of this processor's scratch memory. Return NULL if all slots are taken. */
static __always_inline struct memprof_scratch *take_scratch(void)
{
	const __u32 first = bpf_get_smp_processor_id() * EVENT_SLOTS;

	for (__u32 i = 0; i < EVENT_SLOTS; i++) {
		const __u32 place = first + i;
		struct memprof_scratch *s = bpf_map_lookup_elem(&scratch, &place);

		if (s && __sync_val_compare_and_swap(&s->is_taken, 0, 1) == 0)
			return s;
	}
	return (void *)0;
}

static __always_inline void release_scratch(struct memprof_scratch *s)
{
	__sync_lock_test_and_set(&s->is_taken, 0);
}

static __always_inline void lose(__u32 kind, __u64 n_samples)
{
	__u32 zero = 0;
	struct memprof_probe_losses *lost = bpf_map_lookup_elem(&losses, &zero);

	if (!lost || kind >= EVENT_KINDS)
		return;
	__sync_fetch_and_add(&lost->events[kind], 1);
	__sync_fetch_and_add(&lost->samples, n_samples);
}

/*
 * Set *OUT to argument NUMBER, which must be an int. Returns 0 if the argument cannot be read or is
 * not an int.
 */
static __noinline int read_int(struct pt_regs *regs, const struct site_args *args, __u32 number,
			       __u64 *out)
{
	__u64 word;

	*out = 0;
	if (number >= ARGS_MAX || !arg_read(regs, &args->args[number], &word) || !(word & 1))
		return 0;
	*out = (__u64)((__s64)word >> 1);
	return 1;
}

/* The body of a loop: convert word I of the call stack to a frame. */
static long read_frame(__u32 i, void *context)
{
	struct memprof_scratch *s = *(struct memprof_scratch **)context;
	__u64 *frame = &s->record.words[EVENT_STACK + (i & (EVENT_MAX_DEPTH - 1))];
	const __u64 address = *frame & ~3ULL;

	if (*frame & 2) {
		*frame = address | DEBUGINFO;
	} else if (!args_read_word(address, frame)) {
		s->failed = 1;
		return 1;
	}
	return 0;
}

/* Read the call stack, which is an OCaml value. Returns the number of frames, or -1. */
static __noinline int read_stack(struct memprof_scratch *s, __u64 callstack)
{
	struct ocaml_block block;
	__u64 bytes;

	if (!ocaml_read_block(callstack, &block))
		return -1;
	bytes = block.words;
	if (bytes > config.depth)
		bytes = config.depth;
	bytes *= OCAML_WORD;
	args_keep(bytes);
	if (bytes > EVENT_MAX_DEPTH * OCAML_WORD)
		return -1;
	if (bytes && args_copy(&s->record.words[EVENT_STACK], bytes, callstack))
		return -1;
	s->failed = 0;
	bpf_loop((__u32)bytes / OCAML_WORD, read_frame, &s, 0);
	return s->failed ? -1 : (int)(bytes / OCAML_WORD);
}

/*
 * Read the words that only allocations have. Returns the number of words of the record, or 0 if an
 * argument cannot be read.
 */
static __noinline __u32 read_allocation(struct pt_regs *regs, const struct site_args *args,
					struct memprof_scratch *s)
{
	__u64 callstack, source;
	int depth;

	if (!read_int(regs, args, EVENT_ARG_SAMPLES, &s->record.words[EVENT_SAMPLES]) ||
	    !read_int(regs, args, EVENT_ARG_SIZE, &s->record.words[EVENT_SIZE]) ||
	    !read_int(regs, args, EVENT_ARG_SOURCE, &source) || source > 0xff ||
	    !arg_read(regs, &args->args[EVENT_ARG_CALLSTACK], &callstack))
		return 0;
	depth = read_stack(s, callstack);
	if (depth < 0)
		return 0;
	s->record.words[EVENT_SOURCE] = source | (__u64)depth << 8;
	return EVENT_STACK + (__u32)depth;
}

/*
 * Read the words that all events have. The arguments that all events have are at successive
 * positions; FIRST is the position of the first of these, the id of the block. Returns 0 if an
 * argument cannot be read.
 */
static __noinline int read_event(struct pt_regs *regs, const struct site_args *args, __u32 first,
				 struct memprof_scratch *s)
{
	__u64 minors, majors, domain;

	if (!read_int(regs, args, first + EVENT_ARG_SESSION, &s->record.session) ||
	    !read_int(regs, args, first + EVENT_ARG_MINORS, &minors) ||
	    !read_int(regs, args, first + EVENT_ARG_MAJORS, &majors) ||
	    !read_int(regs, args, first + EVENT_ARG_DOMAIN, &domain))
		return 0;
	s->record.words[EVENT_TIME] = bpf_ktime_get_ns();
	s->record.words[EVENT_COLLECTIONS] = (__u32)minors | majors << 32;
	s->record.words[EVENT_HEAD] = domain << 32;
	return 1;
}

static __always_inline int has_room(__u32 kind)
{
	return kind > EVENT_ALLOC_MAJOR ||
	       bpf_ringbuf_query(&events, AVAILABLE_DATA) < config.bytes - config.bytes / 4;
}

/* Record an event. Returns 0 if it is lost. */
static __always_inline int record_event(struct pt_regs *regs, const struct site_args *args,
					__u32 kind, __u64 id, struct memprof_scratch *s)
{
	const __u32 is_allocation = kind <= EVENT_ALLOC_MAJOR;
	__u32 words = EVENT_WORDS;
	__u64 bytes;

	if (!has_room(kind) || !read_event(regs, args, is_allocation ? EVENT_ARG_EVENT : 0, s))
		return 0;
	if (is_allocation)
		words = read_allocation(regs, args, s);
	if (!words)
		return 0;
	s->record.words[EVENT_ID] = id;
	s->record.words[EVENT_HEAD] |= kind | words << 8;
	bytes = (__u64)(words + 1) * sizeof(__u64);
	args_keep(bytes);
	if (bytes > sizeof(s->record))
		return 0;
	return bpf_ringbuf_output(&events, &s->record, bytes, NO_WAKEUP) == 0;
}

/*
 * Return 1 if the current process is the profiled one. This check is necessary, because before
 * Linux 6.10 the kernel also runs the program for other processes.
 */
static __always_inline int is_profiled_process(void)
{
	struct bpf_pidns_info ids = {};

	return ids_in_namespace(config.pidns_dev, config.pidns_ino, &ids) &&
	       ids.tgid == config.tgid;
}

SEC("uprobe.multi.s")
int memprof_event(struct pt_regs *regs)
{
	__u32 number = (__u32)bpf_get_attach_cookie(regs), kind;
	const struct memprof_site *site = bpf_map_lookup_elem(&sites, &number);
	const struct site_args *args;
	struct memprof_scratch *s;
	__u64 id = 0, n_samples = 0;
	int known;

	if (!site || !site->kind || !is_profiled_process())
		return 0;
	kind = site->kind;
	number = site->args;
	args = bpf_map_lookup_elem(&site_args, &number);
	if (!args)
		return 0;
	if (kind <= EVENT_ALLOC_MAJOR)
		read_int(regs, args, EVENT_ARG_SAMPLES, &n_samples);
	known = read_int(regs, args, kind <= EVENT_ALLOC_MAJOR ? EVENT_ARG_EVENT : 0, &id);
	/* The session has ended, so the library gave no id to the block. */
	if (known && (__s64)id <= 0)
		return 0;
	s = take_scratch();
	if (!s || !known || !record_event(regs, args, kind, id, s))
		lose(kind, n_samples);
	if (s)
		release_scratch(s);
	return 0;
}
