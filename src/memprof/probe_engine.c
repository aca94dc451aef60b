// SPDX-License-Identifier: MIT
/*
 * Loads and attaches bpf/memprof.bpf.c, and reads its ring buffer in place. The reader of libbpf is
 * not used, since it prints errors. The kernel maps the data of the buffer twice in a row, so every
 * record is contiguous.
 */
#include "memprof/probe_engine.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "kernel/bpf_object.h"
#include "kernel/bpf_support.h"
#include "kernel/link.h"
#include "kernel/maps.h"
#include "kernel/pid_namespace.h"
#include "kernel/uprobe_link.h"
#include "memprof.skel.h"

enum { BUFFER_BYTES = 16 << 20, SERIAL = MEASURE_FIRST_SERIAL };

_Static_assert((int)EVENT_KINDS == (int)MEMPROF_KINDS &&
		       (int)EVENT_ALLOC_MAJOR == (int)MEMPROF_ALLOC_MAJOR,
	       "kinds are those of ring.h");
_Static_assert((int)EVENT_MAX_DEPTH == (int)MEMPROF_MAX_DEPTH, "stacks are those of ring.h");
_Static_assert((int)EVENT_ARGS == (int)MEMPROF_EVENT_ARGS &&
		       (int)EVENT_ARG_EVENT == (int)MEMPROF_ARG_EVENT,
	       "arguments are those of ring.h");

/* The uprobe link for the sites of one file. */
struct probe_link {
	size_t first_site;
	int fd;
};

struct engine {
	struct ocp_ctx *ctx;
	struct bpf_support support;
	struct memprof_bpf *skel;
	pid_t pid;
	size_t max_sites, max_args;
	struct probe_link *links;
	size_t n_links;
	/* The members below are for the ring buffer. */
	size_t page;
	unsigned long *consumer; /* positions count bytes and only increase */
	const unsigned long *producer;
	const char *data;
	unsigned long last; /* records from this position on are not read; 0: no limit */
};

/* ---- open and close -------------------------------------------------------------------------- */

static int open_buffer(struct engine *e)
{
	const int fd = e->skel->maps.events.map_fd;
	void *at;

	e->page = (size_t)sysconf(_SC_PAGESIZE);
	at = mmap(NULL, e->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED) {
		e->consumer = at;
		at = mmap(NULL, e->page + 2 * (size_t)BUFFER_BYTES, PROT_READ, MAP_SHARED, fd,
			  (off_t)e->page);
	}
	if (at == MAP_FAILED)
		return bpf_support_explain(e->ctx, -errno, "mapping the ring buffer");
	e->producer = at;
	e->data = (const char *)at + e->page;
	return 0;
}

static int set_process(struct engine *e)
{
	volatile struct memprof_config *config = &e->skel->bss->config;
	struct pid_namespace ns;
	__u32 tgid;
	int err = pid_namespace_choose(e->ctx, e->pid, &ns);

	if (!err)
		err = pid_namespace_id(e->ctx, &ns, e->pid, &tgid);
	if (err)
		return err;
	config->pidns_dev = ns.dev;
	config->pidns_ino = ns.ino;
	config->tgid = tgid;
	config->bytes = BUFFER_BYTES;
	return 0;
}

static int load_memprof_bpf(struct engine *e)
{
	const int n_cpus = possible_cpus();
	const struct bpf_object_sizes sizes = {
		.sites = (uint32_t)e->max_sites,
		.site_args = (uint32_t)e->max_args,
		.print_bytes = BUFFER_BYTES,
		.walks = (uint32_t)n_cpus * EVENT_SLOTS,
	};
	int err;

	if (n_cpus < 0)
		return ctx_error(e->ctx, n_cpus, "cannot tell the number of processors: %s",
				 strerror(-n_cpus));
	err = bpf_memprof_load(e->ctx, &sizes, &e->skel);
	if (!err)
		err = set_process(e);
	return err ? err : open_buffer(e);
}

static void close_links(struct engine *e)
{
	while (e->n_links)
		link_close(e->links[--e->n_links].fd);
}

static int engine_detach(struct engine *e)
{
	close_links(e);
	return 0;
}

static void engine_close(struct engine *e)
{
	if (!e)
		return;
	close_links(e);
	if (e->consumer)
		munmap(e->consumer, e->page);
	if (e->producer)
		munmap((void *)e->producer, e->page + 2 * (size_t)BUFFER_BYTES);
	if (e->skel)
		memprof_bpf__destroy(e->skel);
	if (e->support.idle_prog_fd >= 0)
		close(e->support.idle_prog_fd);
	free(e->links);
	free(e);
}

static int engine_open(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out)
{
	struct engine *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return ctx_no_memory(ctx);
	e->ctx = ctx;
	e->support.idle_prog_fd = -1;
	e->pid = spec->pid;
	e->max_sites = spec->max_sites;
	e->max_args = spec->max_args;
	err = bpf_support_probe(ctx, &e->support);
	if (!err && !e->support.has_uprobe_multi)
		err = ctx_error(ctx, -EOPNOTSUPP,
				"measuring: events through probes need uprobe_multi links "
				"(Linux 6.6)");
	if (!err)
		err = load_memprof_bpf(e);
	if (err)
		engine_close(e);
	else
		*out = e;
	return err;
}

/* ---- sites ----------------------------------------------------------------------------------- */

void probe_engine_set_depth(struct engine *e, uint32_t depth)
{
	e->skel->bss->config.depth = depth;
}

int probe_engine_set_site(struct engine *e, uint32_t number, enum memprof_kind kind, uint32_t args)
{
	const struct memprof_site site = { .kind = kind, .args = args };
	const int err = bpf_map_update_elem(e->skel->maps.sites.map_fd, &number, &site, 0);

	return err ? bpf_support_explain(e->ctx, err, "writing the sites") : 0;
}

int probe_engine_set_args(struct engine *e, const struct site_args *args, size_t n)
{
	int err = 0;

	for (__u32 i = 0; i < n && !err; i++)
		err = bpf_map_update_elem(e->skel->maps.site_args.map_fd, &i, &args[i], 0);
	return err ? bpf_support_explain(e->ctx, err, "writing the arguments") : 0;
}

static int attach_file(struct engine *e, const struct engine_file *file)
{
	struct uprobe_link_spec spec = {
		.prog_fd = e->skel->progs.memprof_event.prog_fd,
		.idle_prog_fd = e->support.idle_prog_fd,
		.path = file->path,
		.name = file->name,
		.uprobes = calloc(file->n_sites + 1, sizeof(*spec.uprobes)),
		/*
		 * Before Linux 6.10, the kernel takes this id for that of a single thread, so pass
		 * 0, for all processes. The BPF program itself ignores other processes.
		 */
		.pid = e->support.pid_filter_is_sound ? e->pid : 0,
	};
	struct probe_link *link = spec.uprobes ? array_add(e->links, e->n_links) : NULL;
	int err = link ? 0 : ctx_no_memory(e->ctx);

	for (size_t i = 0; !err && i < file->n_sites; i++)
		if (!file->sites[i].is_off)
			spec.uprobes[spec.n++] = (struct uprobe){
				.off = file->sites[i].nop_off,
				.ref_ctr_off = file->sites[i].ref_ctr_off,
				.cookie = measure_cookie(SERIAL, (__u32)(file->first_site + i)),
			};
	if (!err) {
		link->first_site = file->first_site;
		err = uprobe_link_create(e->ctx, &spec, &link->fd);
	}
	if (link && err)
		e->n_links--;
	free(spec.uprobes);
	return err;
}

static int engine_attach(struct engine *e, const struct engine_file *files, size_t n)
{
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		if (files[i].first_site + files[i].n_sites > e->max_sites)
			err = ctx_error(e->ctx, -E2BIG, "%s: no room for %zu more sites",
					files[i].name, files[i].n_sites);
		else if (files[i].n_sites)
			err = attach_file(e, &files[i]);
	}
	if (err)
		close_links(e);
	return err;
}

/*
 * Detach the file whose sites have numbers from FIRST on. If HITS is not NULL, set HITS[0..N) to 0:
 * this engine keeps no counts.
 */
static void detach_overwritten(struct engine *e, size_t first, size_t n, uint64_t *hits)
{
	for (size_t i = e->n_links; i-- > 0;) {
		if (e->links[i].first_site != first)
			continue;
		link_close(e->links[i].fd);
		e->links[i] = e->links[--e->n_links];
	}
	if (hits)
		memset(hits, 0, n * sizeof(*hits));
}

/*
 * This engine never switches single sites: the meter calls this only to detach all sites of a file
 * that is being overwritten.
 */
static int switch_sites(struct engine *e, const struct engine_file *file)
{
	detach_overwritten(e, file->first_site, file->n_sites, NULL);
	return 0;
}

static void unlist(struct engine *e, pid_t pid)
{
	(void)e;
	(void)pid;
}

static int check_memprof_support(struct ocp_ctx *ctx)
{
	return engine_bpf.check(ctx);
}

const struct engine_ops probe_engine = {
	.name = "probes of memprof",
	.has_no_costs = true,
	.check = check_memprof_support,
	.open = engine_open,
	.attach = engine_attach,
	.switch_sites = switch_sites,
	.give_up = detach_overwritten,
	.unlist = unlist,
	.detach = engine_detach,
	.close = engine_close,
};

/* ---- records --------------------------------------------------------------------------------- */

/*
 * Copy the record of N bytes at AT. Return the number of words after record->session, or 0 if the
 * record is too short or too long.
 */
static uint64_t copy_record(const char *at, size_t n, struct memprof_record *record)
{
	if (n < sizeof(record->session) + EVENT_WORDS * sizeof(*record->words) ||
	    n > sizeof(*record) || n % sizeof(*record->words))
		return 0;
	memcpy(record, at, n);
	return n / sizeof(*record->words) - 1;
}

bool probe_engine_next(struct engine *e, struct memprof_record *record, uint64_t *words)
{
	unsigned long at = *e->consumer;
	const unsigned long end =
		e->last ? e->last : __atomic_load_n(e->producer, __ATOMIC_ACQUIRE);

	*words = 0;
	while (at < end && !*words) {
		const char *header = e->data + (at & (BUFFER_BYTES - 1));
		const uint32_t state = __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);
		const size_t n = state & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (state & BPF_RINGBUF_BUSY_BIT)
			break;
		if (!(state & BPF_RINGBUF_DISCARD_BIT))
			*words = copy_record(header + BPF_RINGBUF_HDR_SZ, n, record);
		at += (BPF_RINGBUF_HDR_SZ + n + 7) & ~7UL;
		__atomic_store_n(e->consumer, at, __ATOMIC_RELEASE);
	}
	return *words != 0;
}

void probe_engine_finish(struct engine *e)
{
	e->last = __atomic_load_n(e->producer, __ATOMIC_ACQUIRE);
}

int probe_engine_losses(const struct engine *e, struct memprof_probe_losses *losses)
{
	const __u32 zero = 0;

	return bpf_map_lookup_elem(e->skel->maps.losses.map_fd, &zero, losses);
}
