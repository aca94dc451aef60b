// SPDX-License-Identifier: MIT
/*
 * Counting with the kernel's uprobes: an int3 on each site's nop, a BPF program that adds 1 to the
 * site's place in a map (bpf/count.bpf.c), one uprobe_multi link a file.
 *
 * Loading. The program comes as one of bpftool's light skeletons: a loader program that the kernel
 * runs. It takes 0.5 ms, needs no ELF or BTF parsing here, and above all it is silent and leaves
 * the process alone: libbpf's object loader reports through one callback a process (stderr unless
 * set) and raises RLIMIT_MEMLOCK, neither of which a library may do to its user. Of libbpf only
 * plain system call wrappers remain.
 *
 * Whose hits. The kernel filters for a process, except that before Linux 6.10 it filtered for a
 * thread (bpf_support.c asks which). There the uprobes go into every process that maps the file,
 * their semaphores too, and the program compares process ids. It does so in the pid namespace of
 * the target: the helper that knows a task's ids in a namespace answers only for tasks whose own
 * namespace that is.
 *
 * Exactness. All sites start and stop counting at one moment, by a gate in the program's memory
 * that is opened when all are attached and closed before the first is detached. Closing a link
 * returns after the kernel has taken the uprobes away and waited for handlers that run, so a read
 * after detach misses nothing. A slot of the map is written with atomic adds and copied by the
 * kernel in one 64-bit load.
 */
#include "count/engine_bpf.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "count.h"
#include "count.skel.h"
#include "count/bpf_support.h"
#include "count/uprobe_link.h"

/* Sites read by one system call; bounds the buffer to this times the number of CPUs. */
enum { READ_BATCH = 4096 };

struct engine {
	struct ocp_ctx *ctx;
	const struct engine_target *targets;
	size_t n_targets;
	size_t n_sites;
	size_t n_cpus;
	struct bpf_support support;
	bool any_process; /* the BPF program filters, not the kernel */
	bool attached;
	struct count_bpf *skel;
	int *links; /* one a target, -1 while there is none */
};

/* ---- open ----------------------------------------------------------------------------------- */

/* PID as the process itself sees it: in the innermost of its pid namespaces. */
static int read_own_pid(struct ocp_ctx *ctx, pid_t pid, __u32 *own)
{
	char path[64], line[256];
	FILE *f;
	int err = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "NSpid:", 6) == 0) {
			*own = (__u32)strtoul(strrchr(line, '\t') + 1, NULL, 10);
			err = 0;
			break;
		}
	}
	if (f)
		fclose(f);
	return err ? ctx_error(ctx, err, "%s: it ended", path) : 0;
}

static int configure_filter(struct engine *engine, struct count_config *config)
{
	pid_t pid = engine->targets[0].pid;
	char path[64];
	struct stat st;

	for (size_t i = 1; i < engine->n_targets; i++)
		if (engine->targets[i].pid != pid)
			return ctx_error(engine->ctx, -EOPNOTSUPP,
					 "counting: before Linux 6.10 only one process at a time");
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &st))
		return ctx_error(engine->ctx, -errno, "%s: %s", path, strerror(errno));
	/* stat packs device numbers in another way than the kernel does inside. */
	config->pidns_dev = (__u64)major(st.st_dev) << 20 | minor(st.st_dev);
	config->pidns_ino = st.st_ino;
	return read_own_pid(engine->ctx, pid, &config->tgid);
}

static int load(struct engine *engine)
{
	int err;

	engine->skel = count_bpf__open();
	if (!engine->skel)
		return ctx_no_memory(engine->ctx);
	if (engine->any_process) {
		err = configure_filter(engine, &engine->skel->rodata->config);
		if (err)
			return err;
	}
	if (engine->n_sites > UINT32_MAX)
		return ctx_error(engine->ctx, -E2BIG, "counting: %zu sites are too many",
				 engine->n_sites);
	engine->skel->maps.hits.max_entries = engine->n_sites ? (__u32)engine->n_sites : 1;
	err = count_bpf__load(engine->skel);
	return err ? bpf_support_explain(engine->ctx, err, "loading the counting program") : 0;
}

static void engine_close(struct engine *engine);

static struct engine *new_engine(struct ocp_ctx *ctx, const struct engine_target *targets,
				 size_t n_targets)
{
	struct engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return NULL;
	engine->ctx = ctx;
	engine->targets = targets;
	engine->n_targets = n_targets;
	engine->support.idle_prog_fd = -1;
	engine->links = calloc(n_targets ? n_targets : 1, sizeof(*engine->links));
	if (!engine->links) {
		free(engine);
		return NULL;
	}
	for (size_t i = 0; i < n_targets; i++) {
		engine->links[i] = -1;
		engine->n_sites += targets[i].n_sites;
	}
	return engine;
}

int engine_bpf_open(struct ocp_ctx *ctx, const struct engine_target *targets, size_t n_targets,
		    const struct engine_bpf_options *options, struct engine **out)
{
	struct engine *engine = new_engine(ctx, targets, n_targets);
	int err;

	if (!engine)
		return ctx_no_memory(ctx);
	err = libbpf_num_possible_cpus();
	if (err < 0) {
		ctx_error(ctx, err, "/sys/devices/system/cpu/possible: %s", strerror(-err));
		goto fail;
	}
	engine->n_cpus = (size_t)err;
	err = bpf_support_probe(ctx, &engine->support);
	if (err)
		goto fail;
	engine->any_process =
		!engine->support.pid_filter_is_sound || (options && options->filter_in_bpf);
	if (engine->any_process)
		ctx_log(ctx, OCP_LOG_INFO, "counting: the BPF program tells processes apart");
	err = load(engine);
	if (err)
		goto fail;
	*out = engine;
	return 0;
fail:
	engine_close(engine);
	return err;
}

static int open_default(struct ocp_ctx *ctx, const struct engine_target *targets, size_t n_targets,
			struct engine **out)
{
	return engine_bpf_open(ctx, targets, n_targets, NULL, out);
}

/* ---- attach, detach ------------------------------------------------------------------------- */

static void set_gate(struct engine *engine, bool open)
{
	if (engine->skel && engine->skel->bss)
		__atomic_store_n(&engine->skel->bss->gate_open, open, __ATOMIC_SEQ_CST);
}

static int engine_detach(struct engine *engine)
{
	set_gate(engine, false);
	for (size_t i = 0; i < engine->n_targets; i++) {
		if (engine->links[i] >= 0)
			close(engine->links[i]);
		engine->links[i] = -1;
	}
	engine->attached = false;
	return 0;
}

static int engine_attach(struct engine *engine)
{
	struct uprobe_link_spec spec = {
		.prog_fd = engine->skel->progs.count_hit.prog_fd,
		.idle_prog_fd = engine->support.idle_prog_fd,
		.any_process = engine->any_process,
	};

	if (engine->attached)
		return ctx_error(engine->ctx, -EINVAL, "counting: attached already");
	for (size_t i = 0; i < engine->n_targets; i++) {
		int err = 0;

		spec.target = &engine->targets[i];
		if (spec.target->n_sites)
			err = uprobe_link_create(engine->ctx, &spec, &engine->links[i]);
		if (err) {
			engine_detach(engine);
			return err;
		}
		spec.first_cookie += spec.target->n_sites;
	}
	engine->attached = true;
	set_gate(engine, true);
	return 0;
}

/* ---- read, close ---------------------------------------------------------------------------- */

/* Read N sites after the one whose number is *CURSOR, or the first ones if CURSOR is NULL. */
static int read_batch(struct engine *engine, __u32 *cursor, __u32 n, __u32 *keys, __u64 *values,
		      uint64_t *hits)
{
	__u32 next, got = n;
	int err = bpf_map_lookup_batch(engine->skel->maps.hits.map_fd, cursor, &next, keys, values,
				       &got, NULL);

	/* The last batch ends with ENOENT where it asks for more than there is. */
	if ((err && err != -ENOENT) || got != n)
		return ctx_error(engine->ctx, err ? err : -EIO, "counting: reading the counts: %s",
				 strerror(err ? -err : EIO));
	for (__u32 i = 0; i < n; i++) {
		uint64_t sum = 0;

		for (size_t cpu = 0; cpu < engine->n_cpus; cpu++)
			sum += values[i * engine->n_cpus + cpu];
		hits[keys[i]] = sum;
	}
	return 0;
}

static int engine_read(struct engine *engine, uint64_t *hits)
{
	size_t batch = engine->n_sites < READ_BATCH ? engine->n_sites : READ_BATCH;
	__u32 *keys = calloc(batch + 1, sizeof(*keys));
	__u64 *values = calloc(batch + 1, sizeof(*values) * engine->n_cpus);
	int err = 0;

	if (!keys || !values) {
		err = ctx_no_memory(engine->ctx);
		goto out;
	}
	for (size_t done = 0; !err && done < engine->n_sites; done += batch) {
		__u32 cursor = (__u32)done - 1;

		if (batch > engine->n_sites - done)
			batch = engine->n_sites - done;
		err = read_batch(engine, done ? &cursor : NULL, (__u32)batch, keys, values, hits);
	}
out:
	free(keys);
	free(values);
	return err;
}

static void engine_close(struct engine *engine)
{
	if (!engine)
		return;
	engine_detach(engine);
	count_bpf__destroy(engine->skel);
	if (engine->support.idle_prog_fd >= 0)
		close(engine->support.idle_prog_fd);
	free(engine->links);
	free(engine);
}

const struct engine_ops engine_bpf = {
	.name = "bpf",
	.open = open_default,
	.attach = engine_attach,
	.read = engine_read,
	.detach = engine_detach,
	.close = engine_close,
};
