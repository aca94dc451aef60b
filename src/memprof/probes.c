// SPDX-License-Identifier: MIT
#include "memprof/probes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "measure/meter.h"
#include "memprof/probe_engine.h"
#include "memprof/ring_reader.h"

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
	struct memprof_record record;		       /* the last record */
	uint64_t words[EVENT_STACK + EVENT_MAX_DEPTH]; /* the words of the last record */
	uint64_t refused[MEMPROF_KINDS]; /* numbers of records that were not sound, by kind */
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
 * Decode the record of N words into EVENT. Return false if the record is not sound: the program is
 * not trusted, and its words can be anything.
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
	event->source = memprof_source_of(at[EVENT_SOURCE] & 0xff);
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
