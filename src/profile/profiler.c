// SPDX-License-Identifier: MIT
#include "profile/profiler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "measure/engine/bpf_support.h"
#include "measure/engine/pid_namespace.h"
#include "profile/allocation.h"
#include "profile.skel.h"

struct profiler {
	struct ocp_ctx *ctx;
	struct profiler_spec spec;
	struct profile_bpf *skel;
	struct stack_walker *walker;
	struct allocation *allocation; /* only for PROFILE_WORDS */
	struct pid_namespace ns;
	int n_cpus; /* possible ones */
	int *links;
	size_t n_links;
};

/* ---- start and stop ------------------------------------------------------------------------- */

static int keep_link(struct profiler *p, int fd)
{
	int *links = reallocarray(p->links, p->n_links + 1, sizeof(*links));

	if (!links) {
		close(fd);
		return ctx_no_memory(p->ctx);
	}
	p->links = links;
	p->links[p->n_links++] = fd;
	return 0;
}

static int sample_one_cpu(struct profiler *p, int cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_freq = p->spec.hz,
					.freq = 1 };
	const int event =
		(int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	int link, err;

	if (event < 0)
		return errno == ENODEV ? 0 /* the CPU is offline */
				       : bpf_support_explain(p->ctx, -errno, "sample the CPU");
	link = bpf_link_create(p->skel->progs.sample_cpu.prog_fd, event, BPF_PERF_EVENT, NULL);
	err = link < 0 ? bpf_support_explain(p->ctx, -errno, "sample the CPU") : 0;
	close(event); /* the link has it */
	return err ? err : keep_link(p, link);
}

static int attach_tracepoint(struct profiler *p, const char *name, int prog)
{
	const int fd = bpf_raw_tracepoint_open(name, prog);

	return fd < 0 ? bpf_support_explain(p->ctx, -errno, "attach to a tracepoint")
		      : keep_link(p, fd);
}

/* A process that ends must not be taken for the next one with its id. */
static int follow_ends(struct profiler *p)
{
	int err = attach_tracepoint(p, "sched_process_exec", p->skel->progs.process_exec.prog_fd);

	return err ? err
		   : attach_tracepoint(p, "sched_process_exit", p->skel->progs.thread_exit.prog_fd);
}

int profiler_start(struct profiler *p)
{
	int err = 0;

	if (p->spec.kind == PROFILE_WORDS)
		return 0; /* each process has its uprobes */
	if (p->spec.kind == PROFILE_WAITS)
		return attach_tracepoint(p, "sched_switch", p->skel->progs.thread_switch.prog_fd);
	for (int cpu = 0; cpu < p->n_cpus && !err; cpu++)
		err = sample_one_cpu(p, cpu);
	return err;
}

void profiler_stop(struct profiler *p)
{
	for (size_t i = 0; i < p->n_links; i++)
		close(p->links[i]);
	p->n_links = 0;
	if (p->allocation)
		allocation_stop(p->allocation);
}

/* ---- open and close ------------------------------------------------------------------------- */

static int load(struct profiler *p)
{
	struct profile_bpf *skel;
	int err = pid_namespace_choose(p->ctx, p->spec.pid, &p->ns);

	if (err)
		return err;
	skel = profile_bpf__open();
	if (!skel)
		return ctx_no_memory(p->ctx);
	skel->rodata->config.pidns_dev = p->ns.dev;
	skel->rodata->config.pidns_ino = p->ns.ino;
	skel->maps.walk_processes.max_entries = (uint32_t)p->spec.max_processes;
	skel->maps.walk_scratch.max_entries = (uint32_t)p->n_cpus * WALK_SLOTS;
	if (p->spec.kind == PROFILE_WAITS)
		skel->maps.waits.max_entries = PROFILE_MAX_WAITS;
	err = profile_bpf__load(skel);
	if (err) {
		profile_bpf__destroy(skel);
		return bpf_support_explain(p->ctx, err, "load the profiler");
	}
	p->skel = skel;
	return 0;
}

int profiler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec, struct profiler **out)
{
	struct profiler *p = calloc(1, sizeof(*p));
	struct walk_maps maps;
	int err;

	*out = NULL;
	if (!p)
		return ctx_no_memory(ctx);
	p->ctx = ctx;
	p->spec = *spec;
	p->n_cpus = libbpf_num_possible_cpus();
	err = p->n_cpus < 0 ? ctx_error(ctx, p->n_cpus, "cannot tell the number of CPUs: %s",
					strerror(-p->n_cpus))
			    : load(p);
	if (!err) {
		maps = (struct walk_maps){
			.tables = p->skel->maps.walk_tables.map_fd,
			.rules = p->skel->maps.walk_rules.map_fd,
			.processes = p->skel->maps.walk_processes.map_fd,
		};
		err = stack_walker_open(ctx, &maps, &p->walker);
	}
	if (!err)
		err = follow_ends(p);
	if (!err && spec->kind == PROFILE_WORDS)
		err = allocation_open(ctx, p->skel->progs.small_blocks.prog_fd,
				      p->skel->progs.large_block.prog_fd, &p->allocation);
	if (err)
		profiler_close(p);
	else
		*out = p;
	return err;
}

void profiler_close(struct profiler *p)
{
	if (!p)
		return;
	profiler_stop(p);
	allocation_close(p->allocation);
	stack_walker_close(p->walker);
	if (p->skel)
		profile_bpf__destroy(p->skel);
	free(p->links);
	free(p);
}

const struct stack_walker *profiler_walker(const struct profiler *p)
{
	return p->walker;
}

int profiler_add_process(struct profiler *p, pid_t pid)
{
	__u32 tgid;
	int err = pid_namespace_id(p->ctx, &p->ns, pid, &tgid);

	if (!err)
		err = stack_walker_add_process(p->walker, pid, tgid);
	if (!err && p->allocation)
		err = allocation_add_process(p->allocation, pid, tgid);
	return err;
}

int profiler_refresh(struct profiler *p)
{
	if (p->allocation)
		allocation_refresh(p->allocation);
	return stack_walker_refresh(p->walker);
}

/* ---- read ----------------------------------------------------------------------------------- */

/* Read a whole hash map: *KEYS and *VALUES, which the caller frees, have *N entries. */
static int read_map(struct ocp_ctx *ctx, int fd, size_t key_bytes, size_t value_bytes, size_t room,
		    void **keys, void **values, size_t *n)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint64_t position = 0; /* the kernel's; 4 bytes of it are used */
	bool is_first = true;
	int err = 0;

	*n = 0;
	*keys = calloc(room, key_bytes);
	*values = calloc(room, value_bytes);
	if (!*keys || !*values)
		return ctx_no_memory(ctx);
	while (!err && *n < room) {
		uint32_t count = (uint32_t)(room - *n);

		err = bpf_map_lookup_batch(fd, is_first ? NULL : &position, &position,
					   (char *)*keys + *n * key_bytes,
					   (char *)*values + *n * value_bytes, &count, &opts);
		if (err && errno != ENOENT)
			return ctx_error(ctx, -errno, "cannot read samples: %s", strerror(errno));
		*n += count;
		is_first = false;
	}
	return 0;
}

static int compare_stacks(const void *a, const void *b)
{
	const struct walk_stack *x = a, *y = b;

	return (x->hash > y->hash) - (x->hash < y->hash);
}

static const struct walk_stack *find_stack(const struct profile_reading *reading, uint64_t hash)
{
	const struct walk_stack key = { .hash = hash };

	return bsearch(&key, reading->stacks, reading->n_stacks, sizeof(key), compare_stacks);
}

static void add_sample(struct profile_reading *reading, const struct profile_key *key, uint64_t n,
		       uint64_t sum)
{
	const struct walk_stack *stack = find_stack(reading, key->stack);

	if (!stack)
		reading->n_without_stack += n;
	else
		reading->samples[reading->n++] =
			(struct profile_sample){ stack, key->tgid, key->tid, n, sum, 0 };
}

static int read_counts(struct profiler *p, struct profile_reading *reading)
{
	void *keys, *values;
	size_t n;
	int err = read_map(p->ctx, p->skel->maps.counts.map_fd, sizeof(struct profile_key),
			   sizeof(struct profile_count), PROFILE_MAX_COUNTS, &keys, &values, &n);

	for (size_t i = 0; i < n && !err; i++) {
		const struct profile_count *count = (struct profile_count *)values + i;

		add_sample(reading, (struct profile_key *)keys + i, count->n, count->sum);
	}
	free(keys);
	free(values);
	return err;
}

/* Threads that still wait: up to now. */
static int read_waits(struct profiler *p, struct profile_reading *reading)
{
	struct timespec ts;
	uint64_t now_ns;
	void *keys, *values;
	size_t n;
	int err = read_map(p->ctx, p->skel->maps.waits.map_fd, sizeof(uint32_t),
			   sizeof(struct profile_wait), PROFILE_MAX_WAITS, &keys, &values, &n);

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	for (size_t i = 0; i < n && !err; i++) {
		const struct profile_wait *wait = (struct profile_wait *)values + i;

		add_sample(reading, &wait->key, 1,
			   now_ns > wait->since_ns ? now_ns - wait->since_ns : 0);
	}
	free(keys);
	free(values);
	return err;
}

static int read_losses(struct profiler *p, struct profile_losses *losses)
{
	struct profile_losses *of_cpu = calloc((size_t)p->n_cpus, sizeof(*of_cpu));
	const uint32_t zero = 0;
	int err = 0;

	if (!of_cpu)
		return ctx_no_memory(p->ctx);
	if (bpf_map_lookup_elem(p->skel->maps.losses.map_fd, &zero, of_cpu) != 0)
		err = ctx_error(p->ctx, -errno, "cannot read samples: %s", strerror(errno));
	for (int cpu = 0; cpu < p->n_cpus && !err; cpu++) {
		losses->stacks_full += of_cpu[cpu].stacks_full;
		losses->counts_full += of_cpu[cpu].counts_full;
		losses->waits_full += of_cpu[cpu].waits_full;
		losses->collisions += of_cpu[cpu].collisions;
		losses->large_hits += of_cpu[cpu].large_hits;
		for (int end = 0; end < WALK_ENDS; end++)
			losses->ended[end] += of_cpu[cpu].ended[end];
	}
	free(of_cpu);
	return err;
}

static int compare_tgids(const void *a, const void *b)
{
	const struct profile_sample *x = a, *y = b;

	return (x->tgid > y->tgid) - (x->tgid < y->tgid);
}

/* The samples in which the minor heap of TGID had run out. */
static uint64_t count_small(const struct profile_reading *reading, uint32_t tgid)
{
	uint64_t n = 0;

	for (size_t i = 0; i < reading->n; i++)
		if (reading->samples[i].tgid == tgid && !reading->samples[i].sum)
			n += reading->samples[i].n;
	return n;
}

/*
 * Between two of these samples a process allocates the same number of words, so each of them stands for
 * its share of the words that the process has allocated.
 */
static void weigh_samples(struct profiler *p, struct profile_reading *reading)
{
	uint32_t tgid = 0;
	double words = 0;

	for (size_t i = 0; i < reading->n; i++) {
		struct profile_sample *sample = &reading->samples[i];

		if (!i || sample->tgid != tgid) {
			const uint64_t n = count_small(reading, sample->tgid);

			tgid = sample->tgid;
			words = n ? allocation_minor_words(p->allocation, tgid) / (double)n : 0;
		}
		sample->value = sample->sum ? sample->sum : (uint64_t)((double)sample->n * words);
	}
}

static void weigh(struct profiler *p, struct profile_reading *reading)
{
	if (p->spec.kind == PROFILE_WORDS) {
		qsort(reading->samples, reading->n, sizeof(*reading->samples), compare_tgids);
		weigh_samples(p, reading);
		return;
	}
	for (size_t i = 0; i < reading->n; i++) {
		struct profile_sample *sample = &reading->samples[i];

		sample->value = p->spec.kind != PROFILE_WAITS
					? sample->n * (UINT64_C(1000000000) / p->spec.hz)
					: sample->sum;
	}
}

int profiler_read(struct profiler *p, struct profile_reading *reading)
{
	void *hashes = NULL, *stacks = NULL;
	int err;

	*reading = (struct profile_reading){ 0 };
	err = read_map(p->ctx, p->skel->maps.stacks.map_fd, sizeof(uint64_t),
		       sizeof(struct walk_stack), PROFILE_MAX_STACKS, &hashes, &stacks,
		       &reading->n_stacks);
	free(hashes);
	reading->stacks = stacks;
	reading->samples =
		calloc(PROFILE_MAX_COUNTS + PROFILE_MAX_WAITS, sizeof(*reading->samples));
	if (!err && !reading->samples)
		err = ctx_no_memory(p->ctx);
	if (!err) {
		qsort(reading->stacks, reading->n_stacks, sizeof(*reading->stacks), compare_stacks);
		err = read_counts(p, reading);
	}
	if (!err && p->spec.kind == PROFILE_WAITS)
		err = read_waits(p, reading);
	if (!err)
		err = read_losses(p, &reading->losses);
	if (!err)
		weigh(p, reading);
	if (err)
		profile_reading_free(reading);
	return err;
}

void profile_reading_free(struct profile_reading *reading)
{
	free(reading->stacks);
	free(reading->samples);
	*reading = (struct profile_reading){ 0 };
}
