// SPDX-License-Identifier: MIT
/*
 * Passes printed hits and slow pairs to the caller: converts the engine's records to the types of
 * the public interface.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/thread_name.h"
#include "measure/meter.h"
#include "measure/args/value.h"
#include "measure/slower.h"
#include "measure_slower.h"
#include "program/arg_places.h"
#include "program/wrapper_args.h"

struct hit_receiver {
	struct ocp_meter *meter;
	ocp_hit_fn fn;
	void *data;
};

/*
 * Fill in HIT from RECORD, and set COMM, which belongs to HIT. Return false if the file of the site
 * was removed from the table.
 */
static bool make_hit(const struct ocp_meter *meter, const struct hit_record *record,
		     char comm[THREAD_NAME_BYTES], struct ocp_hit *hit)
{
	const struct site_table *table = &meter->table;
	const struct measured_site *site;
	int64_t time_ns = (int64_t)record->ts_ns - meter->start_ns;

	if (record->site >= table->n_sites)
		return false;
	site = &table->sites[record->site];
	if (site->file == NO_FILE)
		return false;
	thread_name_copy(comm, record->comm);
	*hit = (struct ocp_hit){
		/* A hit can happen before the attach has returned: then its time is 0. */
		.time_ns = time_ns > 0 ? time_ns : 0,
		.pid = (pid_t)record->pid,
		.tid = (pid_t)record->tid,
		.probe = table->probes[site->probe_index].name,
		.image = table->files[site->file].name,
		.va = site->va,
		.n_args = record->n_args,
		.n_left_out = record->n_left_out,
		.record = record,
		.arg_names = arg_table_names(&meter->arg_requests.table, site->args),
		.comm = comm,
	};
	return true;
}

static void take_slow(const struct hit_receiver *taking, const struct slow_record *record)
{
	const struct ocp_meter *meter = taking->meter;
	const struct request_pair *requested;
	char start_comm[THREAD_NAME_BYTES], stop_comm[THREAD_NAME_BYTES];
	struct ocp_hit start, stop;
	struct slow_pair pair;

	if (record->pair >= meter->request.n_pairs ||
	    !make_hit(meter, &record->stop, stop_comm, &stop))
		return;
	requested = &meter->request.pairs[record->pair];
	pair = (struct slow_pair){
		.start = requested->start.text,
		.stop = request_pair_stop(requested),
		.is_call = request_pair_is_calls(requested),
		.is_keyed = requested->key_arg >= 0,
		.ns = record->ns,
		.stop_hit = &stop,
	};
	if (record->has_start && make_hit(meter, &record->start, start_comm, &start))
		pair.start_hit = &start;
	stop.slow = &pair;
	taking->fn(taking->data, &stop);
}

void meter_pass_open(struct ocp_meter *meter, const struct engine_open *open, ocp_hit_fn fn,
		     void *data)
{
	const struct request_pair *requested = &meter->request.pairs[open->pair];
	struct hit_record *record = &open->record->hit;
	char comm[THREAD_NAME_BYTES];
	struct slow_pair pair;
	struct ocp_hit start;

	record->ts_ns = open->ns;
	if (!make_hit(meter, record, comm, &start))
		return;
	pair = (struct slow_pair){
		.start = requested->start.text,
		.stop = request_pair_stop(requested),
		.is_call = request_pair_is_calls(requested),
		.is_keyed = requested->key_arg >= 0,
		.is_open = true,
		.start_hit = &start,
	};
	start.slow = &pair;
	fn(data, &start);
}

static void pass_hit(void *data, const struct hit_record *record, const struct stored_stack *stack)
{
	const struct hit_receiver *taking = data;
	char comm[THREAD_NAME_BYTES];
	struct ocp_hit hit;

	if (record->kind == RECORD_SLOW) {
		take_slow(taking, (const struct slow_record *)record);
		return;
	}
	if (!make_hit(taking->meter, record, comm, &hit))
		return;
	hit.stack = stack;
	taking->fn(taking->data, &hit);
}

const struct slow_pair *slow_pair_of(const struct ocp_hit *hit)
{
	return hit->slow;
}

int ocp_meter_take_hits(struct ocp_meter *meter, ocp_hit_fn fn, void *data)
{
	struct hit_receiver taking = { .meter = meter, .fn = fn, .data = data };

	if (!meter->engine)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	return meter->ops->print(meter->engine, !meter->is_attached, pass_hit, &taking);
}

/*
 * Find operand number ARG in OPERANDS, which are separated by spaces. Return its beginning, and set
 * *BYTES to its length.
 */
static const char *find_operand(const char *operands, size_t arg, int *bytes)
{
	operands += strspn(operands, " ");
	while (arg-- && *operands) {
		operands += strcspn(operands, " ");
		operands += strspn(operands, " ");
	}
	*bytes = (int)strcspn(operands, " ");
	return operands;
}

char *meter_why_unread(const struct ocp_meter *meter, const struct ocp_hit *hit, size_t arg)
{
	const struct hit_record *record = hit->record;
	const struct site *site = meter->table.sites[record->site].site;
	const char *operand;
	char *why;
	int n;

	/* The file of the site was removed from the table meanwhile. */
	if (!site)
		return strdup("whose place cannot be read");
	if (site->corrected && site->corrected->fault)
		return asprintf(&why, "whose place is not known: %s", site->corrected->fault) < 0
			       ? NULL
			       : why;
	operand = find_operand(site->args, arg, &n);
	if (arg_is_in_float_register(operand, (size_t)n))
		return asprintf(&why, "which is %s (%.*s)", ARG_FLOAT_REGISTER, n, operand) < 0
			       ? NULL
			       : why;
	return asprintf(&why, "whose place cannot be read (%.*s)", n, operand) < 0 ? NULL : why;
}

static struct ocp_value to_public(const struct value *value)
{
	return (struct ocp_value){
		.kind = value->kind,
		.tag = value->tag,
		.is_cut = value->is_cut,
		.n_items = value->n_items,
		.number = value->number,
		.real = value->real,
		.bytes = value->bytes,
		.n_bytes = value->n_bytes,
		.size = value->kind == OCP_LIST ? 0 : value->size,
		.record = value->record,
		.node = value->node,
	};
}

struct ocp_value ocp_hit_arg(const struct ocp_hit *hit, size_t arg)
{
	const struct value value = value_of_arg(hit->record, (unsigned int)arg);

	return to_public(&value);
}

struct ocp_value ocp_value_item(const struct ocp_value *value, size_t item)
{
	const struct value of = {
		.kind = value->kind,
		.record = value->record,
		.node = value->node,
	};
	const struct value its = value_item(&of, (unsigned int)item);

	return to_public(&its);
}

void ocp_hit_write_args(FILE *out, const struct ocp_hit *hit)
{
	value_write_args(out, hit->record, hit->arg_names);
}
