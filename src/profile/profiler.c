// SPDX-License-Identifier: MIT
#include "profile/profiler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/search.h"
#include "kernel/bpf_object.h"
#include "kernel/bpf_support.h"
#include "kernel/kernel_file.h"
#include "kernel/link.h"
#include "kernel/maps.h"
#include "kernel/perf_event.h"
#include "kernel/pid_namespace.h"
#include "kernel/waiting.h"
#include "process/image.h"
#include "profile/allocation.h"
#include "profile/ready_time.h"
#include "profile/thread_sampler.h"
#include "profile.skel.h"

/*
 * A process that has just started is recognised as an OCaml program only when its runtime has
 * allocated memory. So try to sample its allocation up to MAX_TRIES times.
 */
enum { MAX_TRIES = 50, MAX_PENDING = 64 };

/* Room for 40 000 samples with their times, between two calls of profiler_take_moments(). */
enum { MOMENT_BYTES = 4 << 20 };

struct pending_process {
	uint32_t tgid;
	int tries;
};

struct added_process {
	uint32_t tgid; /* in the pid namespace that the counts in the kernel use */
	pid_t pid;     /* in the tool's pid namespace */
};

struct profiler {
	struct ocp_ctx *ctx;
	struct profiler_spec spec;
	struct thread_sampler *sampler; /* only if spec.by_ptrace is set; then there is no skel */
	struct profile_bpf *skel;
	struct stack_walker *walker;
	struct ring_buffer *moments; /* NULL until the first profiler_take_moments() */
	void (*take_moment)(void *data, const struct profile_moment *moment);
	void *taker;
	struct allocation *allocation; /* only for PROFILE_WORDS */
	struct ready_time *ready;      /* only for PROFILE_WAITS */
	struct pid_namespace ns;
	int exe_fd; /* descriptor of spec.exe; -1: none */
	int n_cpus; /* number of possible CPUs */
	int *links;
	size_t n_links;
	/* all processes that were added, including those that have ended */
	struct added_process *added;
	size_t n_added;
	struct pending_process pending[MAX_PENDING]; /* only for PROFILE_WORDS */
	size_t n_pending;
	uint64_t start_ns; /* CLOCK_MONOTONIC when everything was attached */
	uint64_t stop_ns;  /* CLOCK_MONOTONIC; 0: not stopped */
	size_t n_ends;	   /* the first n_ends links record ends of processes */
};

/* ---- start and stop ------------------------------------------------------------------------- */

static int keep_link(struct profiler *p, int fd)
{
	int *new = array_add(p->links, p->n_links);

	if (!new) {
		close(fd);
		return ctx_no_memory(p->ctx);
	}
	*new = fd;
	return 0;
}

static int sample_one_cpu(struct profiler *p, int cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_freq = p->spec.hz,
					.freq = 1 };
	const int event = perf_event(&attr, -1, cpu);
	int link;

	if (event == -ENODEV)
		return 0; /* the CPU is offline */
	link = event < 0 ? event : link_perf_event(p->skel->progs.sample_cpu.prog_fd, event, 0);
	return link < 0 ? bpf_support_explain(p->ctx, link, "sample the CPU") : keep_link(p, link);
}

static int attach_tracepoint(struct profiler *p, const char *name, int prog)
{
	const int fd = link_tracepoint(prog, name);

	return fd < 0 ? bpf_support_explain(p->ctx, fd, "attach to a tracepoint")
		      : keep_link(p, fd);
}

/*
 * Record ends of processes: a process that has ended must not be confused with a later process that
 * gets the same id.
 */
static int follow_ends(struct profiler *p)
{
	int err = attach_tracepoint(p, "sched_process_exec", p->skel->progs.process_exec.prog_fd);

	return err ? err
		   : attach_tracepoint(p, "sched_process_exit", p->skel->progs.thread_exit.prog_fd);
}

static int open_waiting(struct profiler *p, struct waiting **waiting)
{
#define MAP(name)                                                                                  \
	{                                                                                          \
#name, p->skel->maps.name.map_fd                                                   \
	}
	const struct waiting_map maps[] = {
		MAP(walk_tables),  MAP(walk_rules),	MAP(walk_cache),   MAP(walk_files),
		MAP(walk_news),	   MAP(walk_processes), MAP(walk_scratch), MAP(stacks),
		MAP(stack_losses), MAP(waits),
	};
#undef MAP

	return waiting_open(p->ctx, maps, sizeof(maps) / sizeof(*maps), waiting);
}

static int start_waits(struct profiler *p)
{
	struct waiting *waiting = NULL;
	int gap = open_waiting(p, &waiting); /* this is slow, so do it before the start */
	int err = attach_tracepoint(p, "sched_waking", p->skel->progs.thread_waking.prog_fd);

	if (!err)
		err = attach_tracepoint(p, "sched_switch", p->skel->progs.thread_switch.prog_fd);
	/* Record the threads that are already waiting. */
	for (size_t i = 0; i < p->n_added && !gap && !err; i++) {
		gap = waiting_record(waiting, p->added[i].pid, p->added[i].tgid, p->ns.ino != 0,
				     p->spec.by_thread);
		/* Ignore the failure if the process has ended. */
		if (gap && kill(p->added[i].pid, 0) != 0)
			gap = 0;
	}
	if (gap && !err) {
		ctx_log(p->ctx, OCP_LOG_WARN,
			"threads that already wait are missing until they next run: %s",
			ocp_error(p->ctx));
	}
	waiting_close(waiting);
	return err;
}

static int attach_all(struct profiler *p)
{
	int err = 0;

	if (p->sampler)
		return thread_sampler_start(p->sampler, &p->start_ns);
	/* Uprobes are attached to each process when it is added. */
	if (p->spec.kind == PROFILE_WORDS)
		return 0;
	if (p->spec.kind == PROFILE_WAITS)
		return start_waits(p);
	for (int cpu = 0; cpu < p->n_cpus && !err; cpu++)
		err = sample_one_cpu(p, cpu);
	return err;
}

static uint64_t monotonic_ns(void)
{
	return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

int profiler_start(struct profiler *p)
{
	int err = attach_all(p);

	if (!p->sampler)
		p->start_ns = monotonic_ns();
	if (p->ready)
		ready_time_start(p->ready);
	return err;
}

int64_t profiler_start_ns(const struct profiler *p)
{
	return (int64_t)p->start_ns;
}

int64_t profiler_stop_ns(const struct profiler *p)
{
	return (int64_t)p->stop_ns;
}

void profiler_pause(struct profiler *p)
{
	uint64_t now_ns;

	if (p->sampler)
		thread_sampler_stop(p->sampler, &now_ns);
	while (p->n_links > p->n_ends)
		close(p->links[--p->n_links]);
}

void profiler_stop(struct profiler *p)
{
	if (p->sampler)
		thread_sampler_stop(p->sampler, &p->stop_ns);
	else if (!p->stop_ns)
		p->stop_ns = monotonic_ns();
	if (p->allocation)
		allocation_stop(p->allocation);
	if (p->ready)
		ready_time_stop(p->ready);
	for (size_t i = 0; i < p->n_links; i++)
		close(p->links[i]);
	p->n_links = 0;
}

/* ---- open and close ------------------------------------------------------------------------- */

/*
 * Set up spec.exe: processes that execute this file later are profiled, if this user may access
 * them.
 */
static int choose_exe(struct profiler *p, struct profile_config *config)
{
	struct measure_config access = { 0 };
	struct kernel_file exe;
	int err;

	if (!p->spec.exe)
		return 0;
	err = kernel_file_find(p->spec.exe, &exe);
	if (err)
		return ctx_error(p->ctx, err, "%s: %s", p->spec.exe, strerror(-err));
	p->exe_fd = open(p->spec.exe, O_PATH | O_CLOEXEC);
	if (p->exe_fd < 0)
		return ctx_error(p->ctx, -errno, "%s: %s", p->spec.exe, strerror(errno));
	err = bpf_support_access(p->ctx, &access);
	config->exe_dev = exe.dev;
	config->exe_ino = exe.ino;
	config->checks_access = access.checks_access;
	config->uid = access.uid;
	config->gid = access.gid;
	config->userns_ino = access.userns_ino;
	config->capabilities = access.capabilities;
	return err;
}

static int load_profile_bpf(struct profiler *p)
{
	const struct bpf_object_sizes sizes = {
		.walked_processes = (uint32_t)p->spec.max_processes,
		.walks = (uint32_t)p->n_cpus * WALK_SLOTS,
		.waits = p->spec.kind == PROFILE_WAITS ? PROFILE_MAX_WAITS : 0,
		.releases = p->spec.finds_releases ? PROFILE_MAX_RELEASES : 0,
		.moment_bytes = p->spec.keeps_moments ? MOMENT_BYTES : 0,
	};
	struct profile_config config = { 0 };
	int err = pid_namespace_choose(p->ctx, p->spec.pid, &p->ns);

	if (!err)
		err = choose_exe(p, &config);
	if (err)
		return err;
	config.pidns_dev = p->ns.dev;
	config.pidns_ino = p->ns.ino;
	config.counts_cost = p->spec.counts_cost;
	config.names_threads = p->spec.by_thread;
	config.finds_releases = p->spec.finds_releases;
	config.keeps_moments = p->spec.keeps_moments;
	config.heaps_hz = p->spec.hz ? p->spec.hz : PROFILE_HEAPS_HZ;
	/* As attach_all() does. */
	config.samples_waits = p->spec.kind == PROFILE_WAITS;
	config.samples_words = p->spec.kind == PROFILE_WORDS;
	config.samples_cpu = !config.samples_waits && !config.samples_words;
	return bpf_profile_load(p->ctx, &config, &sizes, &p->skel);
}

static int open_allocation(struct profiler *p)
{
	const struct allocation_bpf bpf = { .small = p->skel->progs.small_blocks.prog_fd,
					    .large = p->skel->progs.large_block.prog_fd,
					    .sampled = p->skel->maps.sampled.map_fd };

	return allocation_open(p->ctx, &bpf, &p->allocation);
}

static int open_bpf(struct profiler *p)
{
	const struct profiler_spec *spec = &p->spec;
	struct ocp_ctx *ctx = p->ctx;
	struct walk_maps maps;
	struct walk_inode exe;
	int err;

	p->n_cpus = possible_cpus();
	err = p->n_cpus < 0 ? ctx_error(ctx, p->n_cpus, "cannot determine the number of CPUs: %s",
					strerror(-p->n_cpus))
			    : load_profile_bpf(p);
	if (!err) {
		maps = (struct walk_maps){
			.tables = p->skel->maps.walk_tables.map_fd,
			.rules = p->skel->maps.walk_rules.map_fd,
			.processes = p->skel->maps.walk_processes.map_fd,
			.files = p->skel->maps.walk_files.map_fd,
			.news = p->skel->maps.walk_news.map_fd,
		};
		err = stack_walker_open(ctx, &maps, &p->walker);
	}
	if (!err && spec->exe) {
		exe = (struct walk_inode){ p->skel->rodata->config.exe_dev,
					   p->skel->rodata->config.exe_ino };
		err = stack_walker_add_file(p->walker, spec->exe, &exe);
	}
	if (!err)
		err = follow_ends(p);
	if (!err && spec->kind == PROFILE_WORDS)
		err = open_allocation(p);
	p->n_ends = p->n_links;
	return err;
}

int profiler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec, struct profiler **out)
{
	struct profiler *p = calloc(1, sizeof(*p));
	int err;

	*out = NULL;
	if (!p)
		return ctx_no_memory(ctx);
	p->ctx = ctx;
	p->spec = *spec;
	p->exe_fd = -1;
	err = spec->by_ptrace ? thread_sampler_open(ctx, spec, &p->sampler) : open_bpf(p);
	if (!err && spec->kind == PROFILE_WAITS)
		err = ready_time_open(ctx, &p->ready);
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
	thread_sampler_close(p->sampler);
	ready_time_close(p->ready);
	allocation_close(p->allocation);
	stack_walker_close(p->walker);
	ring_buffer__free(p->moments);
	if (p->skel)
		profile_bpf__destroy(p->skel);
	if (p->exe_fd >= 0)
		close(p->exe_fd);
	free(p->links);
	free(p->added);
	free(p);
}

const struct stack_walker *profiler_walker(const struct profiler *p)
{
	return p->sampler ? thread_sampler_walker(p->sampler) : p->walker;
}

static int remember_process(struct profiler *p, pid_t pid, uint32_t tgid)
{
	struct added_process *new = array_add(p->added, p->n_added);

	if (!new)
		return ctx_no_memory(p->ctx);
	*new = (struct added_process){ .tgid = tgid, .pid = pid };
	return 0;
}

int profiler_add_process(struct profiler *p, pid_t pid)
{
	__u32 tgid;
	int err = p->ready ? ready_time_add(p->ready, pid) : 0;

	if (!err && p->sampler)
		return thread_sampler_add_process(p->sampler, pid);
	if (!err)
		err = pid_namespace_id(p->ctx, &p->ns, pid, &tgid);
	if (!err)
		err = remember_process(p, pid, tgid);
	if (!err)
		err = stack_walker_add_process(p->walker, pid, tgid);
	if (!err && p->allocation)
		err = allocation_add_process(p->allocation, pid, tgid);
	return err;
}

int profiler_process_id(const struct profiler *p, pid_t pid, uint32_t *tgid)
{
	if (!p->sampler)
		return pid_namespace_id(p->ctx, &p->ns, pid, tgid);
	*tgid = (uint32_t)pid;
	return 0;
}

bool profiler_has_process(const struct profiler *p, uint32_t tgid)
{
	struct walk_process image;

	if (p->sampler)
		return thread_sampler_has_process(p->sampler, (pid_t)tgid);
	return bpf_map_lookup_elem(p->skel->maps.walk_processes.map_fd, &tgid, &image) == 0;
}

void profiler_forget_process(const struct profiler *p, uint32_t tgid)
{
	if (p->sampler)
		thread_sampler_forget_process(p->sampler, (pid_t)tgid);
	else
		bpf_map_delete_elem(p->skel->maps.walk_processes.map_fd, &tgid);
}

double profiler_minor_words(const struct profiler *p, uint32_t tgid)
{
	return p->allocation ? allocation_minor_words(p->allocation, tgid) : 0;
}

/*
 * Add process TGID, which has begun to execute the file spec.exe. Even without being added, it is
 * sampled by the BPF programs, except for its allocation. So do nothing if the process has ended,
 * or if it is in a pid namespace where it has another id than in ours. And do nothing if it has
 * executed another program since, which must not be profiled.
 */
static int add_newcomer(struct profiler *p, uint32_t tgid)
{
	int err;
	__u32 id;

	if (pid_namespace_id(p->ctx, &p->ns, (pid_t)tgid, &id) != 0 || id != tgid)
		return 0;
	if (!image_is_exe((pid_t)tgid, p->exe_fd))
		return 0;
	stack_walker_add_process(p->walker, (pid_t)tgid, tgid);
	/*
	 * From now on, BPF programs forget the process when it executes another program. But it may
	 * have done so between the check above and stack_walker_add_process(), so check again.
	 */
	if (!image_is_exe((pid_t)tgid, p->exe_fd)) {
		profiler_forget_process(p, tgid);
		return 0;
	}
	if (p->allocation && p->n_pending < MAX_PENDING)
		p->pending[p->n_pending++] = (struct pending_process){ tgid, 0 };
	err = p->ready ? ready_time_add(p->ready, (pid_t)tgid) : 0;
	return err ? err : remember_process(p, (pid_t)tgid, tgid);
}

static void try_pending(struct profiler *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_pending; i++) {
		struct pending_process process = p->pending[i];

		if (allocation_add_process(p->allocation, (pid_t)process.tgid, process.tgid) == 0 ||
		    (kill((pid_t)process.tgid, 0) != 0 && errno == ESRCH))
			continue;
		if (++process.tries < MAX_TRIES)
			p->pending[n++] = process;
		else
			ctx_log(p->ctx, OCP_LOG_WARN, "pid %u: its allocation is not sampled: %s",
				process.tgid, ocp_error(p->ctx));
	}
	p->n_pending = n;
}

int profiler_refresh(struct profiler *p)
{
	const uint32_t *newcomers;
	size_t n;
	int err;

	if (p->ready)
		ready_time_refresh(p->ready);
	if (p->sampler)
		return thread_sampler_refresh(p->sampler);
	err = stack_walker_refresh(p->walker);
	newcomers = stack_walker_newcomers(p->walker, &n);
	for (size_t i = 0; i < n && !err; i++)
		err = add_newcomer(p, newcomers[i]);
	try_pending(p);
	if (p->allocation)
		allocation_refresh(p->allocation);
	return err;
}

/* ---- read ----------------------------------------------------------------------------------- */

/* Add COUNT samples of KEY. WAIT: they are of this wait, which was in `waits`; NULL: it is over. */
static void add_reading_sample(struct profile_reading *reading, const struct profile_key *key,
			       const struct profile_count *count, const struct profile_wait *wait)
{
	const struct stored_stack *stack = stack_store_find(reading->stacks, key->stack);
	struct profile_sample *sample = &reading->samples[reading->n];

	if (!stack) {
		reading->n_without_stack += count->n;
		return;
	}
	*sample = (struct profile_sample){ .stack = stack,
					   .tgid = key->tgid,
					   .tid = key->tid,
					   .n = count->n,
					   .sum = count->sum,
					   .heaps = count->heaps,
					   .is_open = wait && !wait->woken_ns };
	sample->is_idle = sample->is_open && wait->is_first;
	thread_name_copy(sample->comm, key->comm);
	reading->n++;
}

static int read_counts(struct profiler *p, struct profile_reading *reading)
{
	void *keys, *values;
	size_t n;
	int err =
		map_read_all(p->ctx, p->skel->maps.counts.map_fd, sizeof(struct profile_key),
			     sizeof(struct profile_count), PROFILE_MAX_COUNTS, &keys, &values, &n);

	for (size_t i = 0; i < n && !err; i++) {
		add_reading_sample(reading, (struct profile_key *)keys + i,
				   (struct profile_count *)values + i, NULL);
	}
	free(keys);
	free(values);
	return err;
}

/*
 * Read the threads that still wait, or that were woken but have not run yet. For each thread, count
 * the time from the start of the wait or the start of the profile, whichever is later, until it was
 * woken, or until now.
 */
static int read_waits(struct profiler *p, struct profile_reading *reading)
{
	const uint64_t now_ns = p->stop_ns ? p->stop_ns : monotonic_ns();
	void *keys, *values;
	size_t n;
	int err = map_read_all(p->ctx, p->skel->maps.waits.map_fd, sizeof(uint32_t),
			       sizeof(struct profile_wait), PROFILE_MAX_WAITS, &keys, &values, &n);

	for (size_t i = 0; i < n && !err; i++) {
		const struct profile_wait *wait = (struct profile_wait *)values + i;
		const uint64_t since_ns =
			wait->since_ns > p->start_ns ? wait->since_ns : p->start_ns;
		const uint64_t end_ns = wait->woken_ns ? wait->woken_ns : now_ns;
		const struct profile_count count = {
			.n = 1,
			.sum = end_ns > since_ns ? end_ns - since_ns : 0,
		};

		reading->n_always_waiting += wait->is_first && !wait->woken_ns;
		add_reading_sample(reading, &wait->key, &count, wait);
	}
	free(keys);
	free(values);
	return err;
}

static void add_release(struct profile_reading *reading, const struct profile_release *key,
			const struct profile_count *count)
{
	struct release_sample *sample = &reading->releases[reading->n_releases];

	*sample = (struct release_sample){ .wait = stack_store_find(reading->stacks, key->wait),
					   .stack = stack_store_find(reading->stacks, key->stack),
					   .tgid = key->tgid,
					   .tid = key->tid,
					   .n = count->n,
					   .ns = count->sum };
	thread_name_copy(sample->comm, key->comm);
	if (sample->wait && sample->stack)
		reading->n_releases++;
}

static int read_releases(struct profiler *p, struct profile_reading *reading)
{
	void *keys, *values;
	size_t n;
	int err = map_read_all(p->ctx, p->skel->maps.releases.map_fd,
			       sizeof(struct profile_release), sizeof(struct profile_count),
			       PROFILE_MAX_RELEASES, &keys, &values, &n);

	if (!err) {
		reading->releases = calloc(n + 1, sizeof(*reading->releases));
		err = reading->releases ? 0 : ctx_no_memory(p->ctx);
	}
	for (size_t i = 0; !err && i < n; i++)
		add_release(reading, (struct profile_release *)keys + i,
			    (struct profile_count *)values + i);
	free(keys);
	free(values);
	return err;
}

static int read_losses(struct profiler *p, struct profile_losses *losses)
{
	int err = map_sum_counters(p->skel->maps.losses.map_fd, losses,
				   sizeof(*losses) / sizeof(losses->run_ns));

	return err ? ctx_error(p->ctx, err, "cannot read samples: %s", strerror(-err)) : 0;
}

int profiler_cost(struct profiler *p, const struct ocp_costs *costs, struct profiler_cost *cost)
{
	const bool is_stepped = p->allocation && allocation_large_is_stepped(p->allocation);
	struct profile_losses losses;
	int err;

	if (p->sampler) {
		*cost = (struct profiler_cost){ .ns = thread_sampler_stopped_ns(p->sampler) };
		return 0;
	}
	err = read_losses(p, &losses);
	if (err)
		return err;
	cost->large_ns = (double)losses.large_hits *
			 (is_stepped ? costs->cost_per_stepped_hit_ns : costs->cost_per_hit_ns);
	cost->ns = (double)losses.run_ns + cost->large_ns +
		   costs->cost_per_hit_ns * (double)losses.small_hits;
	return 0;
}

void profiler_stop_large(struct profiler *p)
{
	if (p->allocation)
		allocation_stop_large(p->allocation);
}

static int compare_tgids(const void *a, const void *b)
{
	const struct profile_sample *x = a, *y = b;

	return COMPARE(x->tgid, y->tgid);
}

/* Return how many minor heaps of process TGID the samples in READING stand for. */
static uint64_t count_heaps(const struct profile_reading *reading, uint32_t tgid)
{
	uint64_t n = 0;

	for (size_t i = 0; i < reading->n; i++)
		if (reading->samples[i].tgid == tgid)
			n += reading->samples[i].heaps;
	return n;
}

/*
 * Set the values of samples. All minor heaps of a process have the same size, so each of them
 * stands for an equal share of the words that the process has allocated in minor heaps.
 */
static void weigh_samples(struct profiler *p, struct profile_reading *reading)
{
	uint32_t tgid = 0;
	double words = 0;

	for (size_t i = 0; i < reading->n; i++) {
		struct profile_sample *sample = &reading->samples[i];

		if (!i || sample->tgid != tgid) {
			const uint64_t n = count_heaps(reading, sample->tgid);

			tgid = sample->tgid;
			words = n ? allocation_minor_words(p->allocation, tgid) / (double)n : 0;
		}
		sample->value = sample->sum + (uint64_t)((double)sample->heaps * words);
		if (sample->heaps && words <= 0)
			reading->n_without_words += sample->n;
	}
	reading->unsure_words = allocation_unsure_words(p->allocation);
}

/*
 * Return the number of words that processes without any sample of a minor heap have allocated in
 * small blocks. This can happen: the allocation of large blocks can make the collector empty each
 * minor heap before it has run out.
 */
static double count_missing(const struct profiler *p, const struct profile_reading *reading)
{
	double words = 0;

	for (size_t i = 0; i < p->n_added; i++)
		if (!count_heaps(reading, p->added[i].tgid))
			words += allocation_minor_words(p->allocation, p->added[i].tgid);
	return words;
}

static void weigh(struct profiler *p, struct profile_reading *reading)
{
	if (p->spec.kind == PROFILE_WORDS) {
		qsort(reading->samples, reading->n, sizeof(*reading->samples), compare_tgids);
		weigh_samples(p, reading);
		reading->missing_words = count_missing(p, reading);
		return;
	}
	for (size_t i = 0; i < reading->n; i++) {
		struct profile_sample *sample = &reading->samples[i];

		sample->value = p->spec.kind != PROFILE_WAITS
					? sample->n * (UINT64_C(1000000000) / p->spec.hz)
					: sample->sum;
	}
}

static int compare_ids(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

/*
 * Set reading->n_processes to the number of processes that were added, plus the number of those
 * that have samples, but ended before they could be added.
 */
static int count_processes(const struct profiler *p, struct profile_reading *reading)
{
	uint32_t *tgids = calloc(p->n_added + reading->n + 1, sizeof(*tgids));
	size_t n = 0;

	if (!tgids)
		return ctx_no_memory(p->ctx);
	for (size_t i = 0; i < p->n_added; i++)
		tgids[n++] = p->added[i].tgid;
	for (size_t i = 0; i < reading->n; i++)
		tgids[n++] = reading->samples[i].tgid;
	qsort(tgids, n, sizeof(*tgids), compare_ids);
	for (size_t i = 0; i < n; i++)
		reading->n_processes += !i || tgids[i] != tgids[i - 1];
	free(tgids);
	return 0;
}

static int read_bpf(struct profiler *p, struct profile_reading *reading)
{
	const struct stack_maps maps = { p->skel->maps.stacks.map_fd,
					 p->skel->maps.stack_losses.map_fd };
	int err;

	reading->samples =
		calloc(PROFILE_MAX_COUNTS + PROFILE_MAX_WAITS, sizeof(*reading->samples));
	err = reading->samples ? stack_store_read(p->ctx, &maps, &reading->stacks)
			       : ctx_no_memory(p->ctx);
	if (!err)
		err = read_counts(p, reading);
	if (!err && p->spec.kind == PROFILE_WAITS)
		err = read_waits(p, reading);
	if (!err && p->spec.finds_releases)
		err = read_releases(p, reading);
	if (!err)
		err = stack_losses_read(p->ctx, &maps, &reading->stack_losses);
	if (!err)
		err = read_losses(p, &reading->losses);
	if (!err)
		weigh(p, reading);
	if (!err)
		err = count_processes(p, reading);
	return err;
}

static int pass_moment(void *data, void *record, size_t bytes)
{
	const struct profiler *p = data;

	if (bytes >= sizeof(struct profile_moment))
		p->take_moment(p->taker, record);
	return 0;
}

int profiler_take_moments(struct profiler *p,
			  void (*fn)(void *data, const struct profile_moment *moment), void *data)
{
	int err;

	if (!p->moments)
		p->moments = ring_buffer__new(p->skel->maps.moments.map_fd, pass_moment, p, NULL);
	if (!p->moments)
		return ctx_error(p->ctx, -errno, "cannot read samples: %s", strerror(errno));
	p->take_moment = fn;
	p->taker = data;
	err = ring_buffer__consume(p->moments);
	return err < 0 ? ctx_error(p->ctx, err, "cannot read samples: %s", strerror(-err)) : 0;
}

int profiler_take_open_waits(struct profiler *p,
			     void (*fn)(void *data, const struct profile_moment *moment),
			     void *data)
{
	const uint64_t now_ns = monotonic_ns();
	void *keys, *values;
	size_t n;
	int err = map_read_all(p->ctx, p->skel->maps.waits.map_fd, sizeof(uint32_t),
			       sizeof(struct profile_wait), PROFILE_MAX_WAITS, &keys, &values, &n);

	for (size_t i = 0; i < n && !err; i++) {
		const struct profile_wait *wait = (struct profile_wait *)values + i;
		const struct profile_moment moment = { .key = wait->key,
						       .begin_ns = wait->since_ns,
						       .end_ns = now_ns,
						       .woken_ns = wait->woken_ns };

		fn(data, &moment);
	}
	free(keys);
	free(values);
	return err;
}

int profiler_n_lost(struct profiler *p, uint64_t *n)
{
	const struct stack_maps maps = { p->skel->maps.stacks.map_fd,
					 p->skel->maps.stack_losses.map_fd };
	struct stack_losses of_stacks = { 0 };
	struct profile_losses losses;
	int err = read_losses(p, &losses);

	if (!err)
		err = stack_losses_read(p->ctx, &maps, &of_stacks);
	if (!err)
		*n = losses.moments_full + losses.waits_full + of_stacks.full +
		     of_stacks.collisions + of_stacks.ended[WALK_BUSY];
	return err;
}

int profiler_read_stacks(struct profiler *p, struct stack_store **stacks)
{
	const struct stack_maps maps = { p->skel->maps.stacks.map_fd,
					 p->skel->maps.stack_losses.map_fd };

	return stack_store_read(p->ctx, &maps, stacks);
}

int profiler_read(struct profiler *p, struct profile_reading *reading)
{
	int err;

	*reading = (struct profile_reading){ 0 };
	err = p->sampler ? thread_sampler_read(p->sampler, reading) : read_bpf(p, reading);
	if (p->ready)
		reading->knows_ready = ready_time_ns(p->ready, &reading->ready_ns);
	if (err)
		profile_reading_free(reading);
	return err;
}

void profile_reading_free(struct profile_reading *reading)
{
	stack_store_free(reading->stacks);
	free(reading->samples);
	free(reading->releases);
	*reading = (struct profile_reading){ 0 };
}
