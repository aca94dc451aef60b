// SPDX-License-Identifier: MIT
/* Printed hits: converts the engine's records into the types of the public interface. */
#include <errno.h>

#include "measure/meter.h"
#include "measure/args/value.h"

struct taking {
	struct ocp_meter *meter;
	ocp_hit_fn fn;
	void *data;
};

static void take(void *data, const struct hit_record *record)
{
	const struct taking *taking = data;
	const struct ocp_meter *meter = taking->meter;
	const struct site_table *table = &meter->table;
	const struct measured_site *site;
	int64_t time_ns = (int64_t)record->ts_ns - meter->start_ns;

	if (record->site >= table->n_sites)
		return;
	site = &table->sites[record->site];
	if (site->file == NO_FILE)
		return;
	taking->fn(taking->data, &(const struct ocp_hit){
					 /* A hit can come before the attach has returned. */
					 .time_ns = time_ns > 0 ? time_ns : 0,
					 .pid = (pid_t)record->pid,
					 .tid = (pid_t)record->tid,
					 .probe = table->probes[site->probe_index].name,
					 .image = table->files[site->file].name,
					 .va = site->va,
					 .n_args = record->n_args,
					 .n_left_out = record->n_left_out,
					 .record = record,
				 });
}

int ocp_meter_take_hits(struct ocp_meter *meter, ocp_hit_fn fn, void *data)
{
	struct taking taking = { .meter = meter, .fn = fn, .data = data };

	if (!meter->engine)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	return meter->ops->print(meter->engine, !meter->is_attached, take, &taking);
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
	value_write_args(out, hit->record);
}
