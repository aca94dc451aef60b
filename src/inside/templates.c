// SPDX-License-Identifier: MIT
/* Fill the holes of the machine code in templates_code.c. */
#include <linux/rseq.h>
#include <string.h>
#include "inside/pairs.h"
#include "inside/templates.h"
#include "inside/templates_code.h"

enum { TRAMPOLINE_ALIGN = 32, ROUTINES_ALIGN = 64, BREAKPOINT = 0xcc };

/* Code that is being written, and what its holes get: addresses where the name has TO, else numbers. */
struct assembly {
	uint8_t *code; /* where the next byte is written */
	uint64_t addr; /* and its address in the process */
	int64_t values[N_HOLES];
	bool is_too_far;
};

static bool is_distance(uint16_t hole)
{
	switch (hole) {
	case HOLE_TO_COUNTER:
	case HOLE_TO_BLOCK_ADDR:
	case HOLE_TO_GATE:
	case HOLE_TO_WRAPPER:
	case HOLE_TO_PAIR:
	case HOLE_TO_START:
	case HOLE_TO_STOP:
	case HOLE_TO_NS_PER_TICK:
	case HOLE_TO_ROOM:
	case HOLE_TO_STACK_PAGE:
	case HOLE_TO_GATE_CODE:
	case HOLE_TO_SEQUENCE:
		return true;
	default:
		return false;
	}
}

/* Returns where it has put the template. */
static uint8_t *put(struct assembly *assembly, const uint8_t *begin, const uint8_t *end)
{
	uint8_t *code = assembly->code;
	const size_t bytes = (size_t)(end - begin), off = (size_t)(begin - templates_text);

	memcpy(assembly->code, begin, bytes);
	/* Both are labels of one table in an asm(). */
	/* cppcheck-suppress comparePointers */
	for (const struct template_hole *hole = templates_holes; hole < templates_holes_end;
	     hole++) {
		const size_t at = hole->off - off;
		int64_t value;
		int32_t filled;

		if (hole->off < off)
			continue;
		if (hole->off >= off + bytes)
			break;
		value = assembly->values[hole->value];
		if (is_distance(hole->value))
			value -= (int64_t)(assembly->addr + at + sizeof(filled) + hole->after);
		filled = (int32_t)value;
		if (filled != value)
			assembly->is_too_far = true;
		memcpy(assembly->code + at, &filled, sizeof(filled));
	}
	assembly->code += bytes;
	assembly->addr += bytes;
	return code;
}

/* Nobody jumps to what is behind the code. */
static void align(struct assembly *assembly, size_t bytes, size_t room)
{
	memset(assembly->code, BREAKPOINT, room - bytes);
}

static size_t aligned(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static size_t template_bytes(const uint8_t *begin, const uint8_t *end)
{
	return (size_t)(end - begin);
}

size_t templates_routines_bytes(void)
{
	return aligned(template_bytes(templates_routine_start, templates_end), ROUTINES_ALIGN);
}

static size_t count_bytes(uint32_t n_shards)
{
	return n_shards > 1 ? template_bytes(templates_count_cpu, templates_gate)
			    : template_bytes(templates_count, templates_count_cpu);
}

uint64_t templates_entry_off(uint32_t n_shards)
{
	return n_shards > 1 ? template_bytes(templates_count_cpu, templates_count_cpu_entry) : 0;
}

static size_t gate_bytes(void)
{
	return template_bytes(templates_gate, templates_enter);
}

static size_t site_bytes(uint32_t n_shards, size_t n_roles, size_t n_stops)
{
	size_t bytes = count_bytes(n_shards) + gate_bytes();

	if (n_roles)
		bytes += template_bytes(templates_leave, templates_routine_start) +
			 (n_stops ? template_bytes(templates_enter_stop, templates_start)
				  : template_bytes(templates_enter, templates_enter_stop));
	return bytes + (n_roles - n_stops) * template_bytes(templates_start, templates_stop) +
	       n_stops * template_bytes(templates_stop, templates_leave);
}

size_t templates_site_bytes(uint32_t n_shards, size_t n_roles, size_t n_stops)
{
	return aligned(site_bytes(n_shards, n_roles, n_stops), TRAMPOLINE_ALIGN);
}

static bool is_power_of_2(uint64_t number, uint64_t max)
{
	return number && number <= max && !(number & (number - 1));
}

static int check(struct ocp_ctx *ctx, const struct block_header *header,
		 const struct templates_process *process)
{
	if (!header->n_shards || header->n_shards > TEMPLATES_MAX_SHARDS)
		return ctx_error(ctx, -ERANGE,
				 "counting inside a process: %u shards are not from 1 to %d",
				 header->n_shards, TEMPLATES_MAX_SHARDS);
	if (header->n_shards > 1 && !process->rseq_off)
		return ctx_error(
			ctx, -ENOTSUP,
			"counting inside a process: it is not known where the C library keeps the "
			"number of the CPU");
	if (!header->n_pairs)
		return 0;
	if (!process->tid_off)
		return ctx_error(
			ctx, -ENOTSUP,
			"timing inside a process: it is not known where the C library keeps the ids "
			"of threads");
	if (!header->ns_per_tick)
		return ctx_error(
			ctx, -ENOTSUP,
			"timing inside a process: the rate of the time stamp counter is not known");
	if (!is_power_of_2(header->n_threads, PAIRS_MAX_THREADS) ||
	    header->n_threads < PAIRS_WINDOW)
		return ctx_error(
			ctx, -ERANGE,
			"timing inside a process: room for %u threads is not a power of 2 from %d to %d",
			header->n_threads, PAIRS_WINDOW, PAIRS_MAX_THREADS);
	if (!header->depth || header->depth > PAIRS_DEPTH)
		return ctx_error(ctx, -ERANGE,
				 "timing inside a process: depth %u is not in 1 to %d",
				 header->depth, PAIRS_DEPTH);
	return 0;
}

/* In place: it is done once a site. */
static void set_values(struct assembly *assembly, const struct block_header *header,
		       const struct templates_process *process)
{
	const uint64_t routines = header->addr + header->code_off;
	int64_t *values = assembly->values;

	values[HOLE_TO_BLOCK_ADDR] = (int64_t)(header->addr + offsetof(struct block_header, addr));
	values[HOLE_TO_NS_PER_TICK] =
		(int64_t)(header->addr + offsetof(struct block_header, ns_per_tick));
	values[HOLE_TO_START] = (int64_t)routines;
	values[HOLE_TO_STOP] = (int64_t)(routines + template_bytes(templates_routine_start,
								   templates_routine_stop));
	values[HOLE_TO_ROOM] = (int64_t)(routines + template_bytes(templates_routine_start,
								   templates_routine_room));
	values[HOLE_TO_STACK_PAGE] = (int64_t)(header->addr + header->pairs_off +
					       offsetof(struct pairs_shared, stack_page));
	values[HOLE_N_CPUS] = header->n_shards - 1;
	values[HOLE_SHARD_BYTES] = (int64_t)(header->shard_stride * sizeof(uint64_t));
	values[HOLE_CPU_ID] = process->rseq_off + (int64_t)offsetof(struct rseq, cpu_id);
	values[HOLE_RSEQ_CS] = process->rseq_off + (int64_t)offsetof(struct rseq, rseq_cs);
	values[HOLE_TID] = process->tid_off;
	values[HOLE_SLOT_MASK] = (int64_t)header->n_threads - 1;
	values[HOLE_SLOTS_OFF] = (int64_t)pairs_slots_off(header->n_threads);
	values[HOLE_DEPTH] = (int64_t)header->depth << 16;
	values[HOLE_MAY_CALL] = process->may_call_kernel;
}

static int too_far(struct ocp_ctx *ctx, uint64_t addr)
{
	return ctx_error(ctx, -ERANGE,
			 "the code at 0x%llx does not reach its counter, gate, wrapper or pair",
			 (unsigned long long)addr);
}

int templates_routines(struct ocp_ctx *ctx, const struct block_header *header,
		       const struct templates_process *process, uint8_t *code)
{
	const uint64_t addr = header->addr + header->code_off;
	const int ret = check(ctx, header, process);
	struct assembly assembly = { .code = code, .addr = addr };

	set_values(&assembly, header, process);
	if (ret)
		return ret;
	if (!header->n_pairs) {
		align(&assembly, 0, templates_routines_bytes());
		return 0;
	}
	put(&assembly, templates_routine_start, templates_end);
	align(&assembly, template_bytes(templates_routine_start, templates_end),
	      templates_routines_bytes());
	return assembly.is_too_far ? too_far(ctx, addr) : 0;
}

static size_t stops_of(const struct templates_site *site)
{
	size_t n = 0;

	for (size_t i = 0; i < site->n_roles; i++)
		n += site->roles[i].is_stop;
	return n;
}

/* Where a part of count_cpu is in the process, whose copy of it begins at ADDR. */
static uint64_t in_count_cpu(uint64_t addr, const uint8_t *part)
{
	return addr + template_bytes(templates_count_cpu, part);
}

static void put_count(struct assembly *assembly, uint32_t n_shards)
{
	const uint64_t addr = assembly->addr;
	const struct rseq_cs sequence = {
		.start_ip = in_count_cpu(addr, templates_count_cpu_sequence),
		.post_commit_offset = template_bytes(templates_count_cpu_sequence,
						     templates_count_cpu_sequence_end),
		.abort_ip = in_count_cpu(addr, templates_count_cpu_moved),
	};

	if (n_shards == 1) {
		put(assembly, templates_count, templates_count_cpu);
		return;
	}
	memcpy(put(assembly, templates_count_cpu, templates_gate), &sequence, sizeof(sequence));
}

static void put_role(struct assembly *assembly, const struct block_header *header,
		     const struct inside_role *role)
{
	assembly->values[HOLE_TO_PAIR] = (int64_t)(header->addr + header->pairs_off +
						   role->pair * pairs_stride(header->n_threads));
	if (role->is_stop)
		put(assembly, templates_stop, templates_leave);
	else
		put(assembly, templates_start, templates_stop);
}

int templates_site(struct ocp_ctx *ctx, const struct block_header *header,
		   const struct templates_process *process, const struct templates_site *site,
		   uint8_t *code)
{
	const size_t n_stops = stops_of(site),
		     bytes = site_bytes(header->n_shards, site->n_roles, n_stops);
	struct assembly assembly = { .code = code, .addr = site->trampoline };

	set_values(&assembly, header, process);
	assembly.values[HOLE_TO_COUNTER] =
		(int64_t)site->counter + (header->n_shards - 1) * assembly.values[HOLE_SHARD_BYTES];
	assembly.values[HOLE_COUNTER_OFF] = (int64_t)(site->counter - header->addr);
	assembly.values[HOLE_TO_GATE] = (int64_t)site->gate;
	assembly.values[HOLE_TO_WRAPPER] = (int64_t)site->wrapper;
	assembly.values[HOLE_TO_GATE_CODE] = (int64_t)(site->trampoline + bytes - gate_bytes());
	assembly.values[HOLE_TO_SEQUENCE] = (int64_t)site->trampoline;
	put_count(&assembly, header->n_shards);
	if (n_stops)
		put(&assembly, templates_enter_stop, templates_start);
	else if (site->n_roles)
		put(&assembly, templates_enter, templates_enter_stop);
	for (size_t i = 0; i < site->n_roles; i++)
		put_role(&assembly, header, &site->roles[i]);
	if (site->n_roles)
		put(&assembly, templates_leave, templates_routine_start);
	put(&assembly, templates_gate, templates_enter);
	align(&assembly, bytes, templates_site_bytes(header->n_shards, site->n_roles, n_stops));
	return assembly.is_too_far ? too_far(ctx, site->trampoline) : 0;
}
