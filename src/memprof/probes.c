// SPDX-License-Identifier: MIT
#include "memprof/probes.h"

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
#include "measure/engine/engine.h"
#include "measure/meter.h"
#include "memprof.h"
#include "memprof.skel.h"
#include "memprof/ring_reader.h"
#include "memprof/session.h"

/* ---- the engine ------------------------------------------------------------------------------ */

/*
 * The engine of struct memprof_probes: loads and attaches bpf/memprof.bpf.c. A meter opens,
 * attaches and closes this engine like any other engine, but cannot read counts from it, since it
 * only produces records.
 *
 * The ring buffer is read in place. The reader of libbpf is not used, since it prints errors. The
 * kernel maps the data of the buffer twice in a row, so every record is contiguous.
 */

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
	unsigned long *consumer; /* the consumer's position in bytes; positions only increase */
	const unsigned long *producer;
	const char *data;
	unsigned long last; /* read only records before this position; 0: no limit */
};

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
		return ctx_error(e->ctx, n_cpus, "cannot determine the number of processors: %s",
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

/* Limit call stacks to DEPTH frames. Call this after opening the engine and before attaching it. */
static void probe_engine_set_depth(struct engine *e, uint32_t depth)
{
	e->skel->bss->config.depth = depth;
}

/*
 * Declare that site NUMBER reports events of KIND. ARGS indexes the array given to
 * probe_engine_set_args().
 */
static int probe_engine_set_site(struct engine *e, uint32_t number, enum memprof_kind kind,
				 uint32_t args)
{
	const struct memprof_site site = { .kind = kind, .args = args };
	const int err = bpf_map_update_elem(e->skel->maps.sites.map_fd, &number, &site, 0);

	return err ? bpf_support_explain(e->ctx, err, "writing the sites") : 0;
}

static int probe_engine_set_args(struct engine *e, const struct site_args *args, size_t n)
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
		 * Before Linux 6.10, the kernel takes this process id for the id of a single
		 * thread. There, pass 0, which stands for all processes; the BPF program ignores
		 * other processes.
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
 * Detach from the file whose sites have the N numbers from FIRST on. If HITS is not NULL, set
 * HITS[0..N) to 0, because this engine keeps no counts.
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
 * Detach from all sites of FILE. The meter calls this only if FILE is being overwritten; it never
 * switches single sites of this engine.
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

static const struct engine_ops probe_engine = {
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

/*
 * Copy the N bytes at AT, which should be a record, to *RECORD. Return the number of words after
 * record->session, or 0 if the record is too short or too long.
 */
static uint64_t copy_record(const char *at, size_t n, struct memprof_record *record)
{
	if (n < sizeof(record->session) + EVENT_WORDS * sizeof(*record->words) ||
	    n > sizeof(*record) || n % sizeof(*record->words))
		return 0;
	memcpy(record, at, n);
	return n / sizeof(*record->words) - 1;
}

/*
 * Take the next record out of the buffer. Set *WORDS to the number of words after record->session.
 * Return false if no record is waiting.
 */
static bool probe_engine_next(struct engine *e, struct memprof_record *record, uint64_t *words)
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

/* From now on, take only the records that are in the buffer at this moment. */
static void probe_engine_finish(struct engine *e)
{
	e->last = __atomic_load_n(e->producer, __ATOMIC_ACQUIRE);
}

/* Set *LOSSES to the numbers of events that were lost before they reached the buffer. */
static int probe_engine_losses(const struct engine *e, struct memprof_probe_losses *losses)
{
	const __u32 zero = 0;

	return bpf_map_lookup_elem(e->skel->maps.losses.map_fd, &zero, losses);
}

/* ---- the probes ------------------------------------------------------------------------------ */

static const char *const probe_names[MEMPROF_KINDS] = {
	[MEMPROF_ALLOC_MINOR] = "memprof_alloc_minor",
	[MEMPROF_ALLOC_MAJOR] = "memprof_alloc_major",
	[MEMPROF_PROMOTE] = "memprof_promote",
	[MEMPROF_DEALLOC_MINOR] = "memprof_dealloc_minor",
	[MEMPROF_DEALLOC_MAJOR] = "memprof_dealloc_major",
};

struct memprof_probes {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct ocp_process *process;
	struct ocp_meter *meter;
	struct memprof_record record;		       /* the newest record */
	uint64_t words[EVENT_STACK + EVENT_MAX_DEPTH]; /* the words of the newest record */
	uint64_t refused[MEMPROF_KINDS]; /* by kind: how many records were not sound */
};

/* ---- open ------------------------------------------------------------------------------------ */

static enum memprof_kind kind_of_memprof_probe(const char *name)
{
	enum memprof_kind kind = MEMPROF_ALLOC_MINOR;

	while (kind < MEMPROF_KINDS && strcmp(probe_names[kind], name) != 0)
		kind++;
	return kind;
}

/* Return true if a site of KIND has the arguments that the BPF program reads. */
static bool has_arguments(const struct site_args *args, enum memprof_kind kind)
{
	const __u32 n = (kind <= MEMPROF_ALLOC_MAJOR ? MEMPROF_ARG_EVENT : 0) + MEMPROF_EVENT_ARGS;

	for (__u32 i = 0; i < n && i < ARGS_MAX; i++)
		if (args->args[i].kind == ARG_NONE || args->args[i].kind == ARG_UNSUPPORTED ||
		    args->args[i].type != ARG_VALUE)
			return false;
	return args->n == n;
}

static int set_sites(struct memprof_probes *p)
{
	const struct site_table *table = &p->meter->table;
	const struct arg_table *args = &p->meter->arg_requests.table;
	int err = probe_engine_set_args(p->meter->engine, args->entries, args->n);

	for (uint32_t i = 0; i < table->n_sites && !err; i++) {
		const struct measured_site *site = &table->sites[i];
		const char *name = table->probes[site->probe_index].name;
		const enum memprof_kind kind = kind_of_memprof_probe(name);

		if (kind == MEMPROF_KINDS || site->args >= args->n ||
		    !has_arguments(&args->entries[site->args], kind))
			return ctx_error(p->ctx, -EPROTO,
					 "pid %d: probe '%s': has other arguments than this tool "
					 "can read",
					 (int)p->pid, name);
		err = probe_engine_set_site(p->meter->engine, i, kind, site->args);
	}
	return err;
}

static int open_probe_meter(struct memprof_probes *p, uint32_t depth)
{
	int err;

	p->meter = ocp_meter_new(p->ctx);
	if (!p->meter)
		return -ENOMEM;
	p->meter->ops = &probe_engine;
	err = ocp_meter_add_process(p->meter, p->process);
	for (enum memprof_kind kind = MEMPROF_ALLOC_MINOR; kind < MEMPROF_KINDS && !err; kind++)
		err = ocp_meter_print(p->meter, probe_names[kind]);
	if (!err)
		err = ocp_meter_open(p->meter);
	if (err)
		return err;
	probe_engine_set_depth(p->meter->engine, depth);
	err = set_sites(p);
	return err ? err : ocp_meter_attach(p->meter);
}

int memprof_probes_open(struct ocp_ctx *ctx, pid_t pid, uint32_t depth, struct memprof_probes **out)
{
	struct memprof_probes *p = calloc(1, sizeof(*p));
	int err;

	*out = NULL;
	if (!p)
		return ctx_no_memory(ctx);
	p->ctx = ctx;
	p->pid = pid;
	err = probe_engine.check(ctx);
	if (!err)
		err = ocp_process_open(ctx, pid, &p->process);
	if (!err)
		err = open_probe_meter(p, depth);
	if (err)
		memprof_probes_close(p);
	else
		*out = p;
	return err;
}

void memprof_probes_close(struct memprof_probes *p)
{
	if (!p)
		return;
	ocp_meter_free(p->meter);
	ocp_process_free(p->process);
	free(p);
}

size_t memprof_probes_count(const struct memprof_probes *p)
{
	return ocp_meter_probe_count(p->meter);
}

/* ---- while it runs --------------------------------------------------------------------------- */

/*
 * Decode the N words in P->words into EVENT. Return false if the record is not sound: the profiled
 * program is not trusted, so the words can have any values.
 */
static bool decode_probe_record(const struct memprof_probes *p, uint64_t n,
				struct memprof_event *event)
{
	const uint64_t *const at = p->words, head = at[EVENT_HEAD];

	*event = (struct memprof_event){ .kind = (enum memprof_kind)(head & 0xff),
					 .domain = (uint32_t)(head >> 32),
					 .time_ns = at[EVENT_TIME],
					 .id = at[EVENT_ID],
					 .minors = (uint32_t)at[EVENT_COLLECTIONS],
					 .majors = (uint32_t)(at[EVENT_COLLECTIONS] >> 32) };
	if (event->kind == MEMPROF_PADDING || event->kind >= MEMPROF_KINDS)
		return false;
	if (event->kind > MEMPROF_ALLOC_MAJOR)
		return n == EVENT_WORDS;
	if (n < EVENT_STACK)
		return false;
	event->n_samples = at[EVENT_SAMPLES];
	event->size = at[EVENT_SIZE];
	event->source = (uint8_t)at[EVENT_SOURCE];
	event->depth = (uint32_t)(at[EVENT_SOURCE] >> 8);
	event->stack = at + EVENT_STACK;
	return event->depth == n - EVENT_STACK && memprof_event_is_sound(event);
}

bool memprof_probes_next(struct memprof_probes *p, uint64_t session, struct memprof_event *event)
{
	uint64_t words;

	while (session && probe_engine_next(p->meter->engine, &p->record, &words)) {
		if (p->record.session != session)
			continue;
		memcpy(p->words, p->record.words, words * sizeof(*p->words));
		if (decode_probe_record(p, words, event))
			return true;
		if (event->kind < MEMPROF_KINDS)
			p->refused[event->kind]++;
	}
	return false;
}

void memprof_probes_finish(struct memprof_probes *p)
{
	probe_engine_finish(p->meter->engine);
}

int memprof_probes_add_losses(const struct memprof_probes *p, struct memprof_losses *losses)
{
	struct memprof_probe_losses lost;

	if (probe_engine_losses(p->meter->engine, &lost))
		return ctx_error(p->ctx, -EIO, "the number of lost events cannot be read");
	for (int i = 0; i < MEMPROF_KINDS; i++)
		losses->events[i] += lost.events[i] + p->refused[i];
	losses->samples += lost.samples;
	return 0;
}

int memprof_probes_refresh(struct memprof_probes *p)
{
	size_t n;

	return ocp_meter_refresh(p->meter, &n);
}
