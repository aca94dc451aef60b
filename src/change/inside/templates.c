// SPDX-License-Identifier: MIT
/* Fill the holes of the machine code in templates_code.c. */
#include <linux/rseq.h>
#include <string.h>
#include "change/inside/block.h"
#include "change/inside/filter_code.h"
#include "change/inside/groups.h"
#include "change/inside/rings.h"
#include "change/inside/templates.h"
#include "change/inside/templates_code.h"
#include "code/runtime_facts.h"

enum {
	TRAMPOLINE_ALIGN = 32,
	HANDLER_PARENT = 24, /* as in bpf/measure.h */
	ROUTINES_ALIGN = 64,
	BREAKPOINT = 0xcc
};

/*
 * Code that is being written, and the values for its holes. Holes with TO in their names get
 * addresses, all other holes get numbers.
 */
struct assembly {
	uint8_t *code; /* the next byte to write */
	uint64_t addr; /* the address of that byte in the process */
	int64_t values[N_HOLES];
	bool is_too_far;
	bool rejects; /* starts are those of hits that a filter has rejected */
};

static bool is_distance(uint16_t hole)
{
	switch (hole) {
	case HOLE_TO_COUNTER:
	case HOLE_TO_BLOCK_ADDR:
	case HOLE_TO_GATE:
	case HOLE_TO_WRAPPER:
	case HOLE_TO_PAIR:
	case HOLE_TO_PIDS:
	case HOLE_TO_START:
	case HOLE_TO_STOP:
	case HOLE_TO_NS_PER_TICK:
	case HOLE_TO_ROOM:
	case HOLE_TO_STACK_PAGE:
	case HOLE_TO_WINDOW_ROOM:
	case HOLE_TO_REST:
	case HOLE_TO_SEQUENCE:
	case HOLE_TO_KEY_START:
	case HOLE_TO_KEY_STOP:
	case HOLE_TO_EVENT:
	case HOLE_TO_RINGS:
	case HOLE_TO_WITHOUT_STACK:
	case HOLE_TO_GROUP:
	case HOLE_TO_COUNT_GROUP:
	case HOLE_TO_FIND_TIMES:
	case HOLE_TO_TIMES:
	case HOLE_TO_TIMES_USED:
		return true;
	default:
		return false;
	}
}

/*
 * Append the template that lies from BEGIN to END, and fill its holes. Return the address of the
 * first byte appended.
 */
static uint8_t *put_template(struct assembly *assembly, const uint8_t *begin, const uint8_t *end)
{
	uint8_t *code = assembly->code;
	const size_t bytes = (size_t)(end - begin), off = (size_t)(begin - templates_text);

	memcpy(assembly->code, begin, bytes);
	/* The pointers can be compared: both are labels of one table, which an asm() defines. */
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

/*
 * Fill the gap behind the code, which has BYTES of ROOM bytes, with breakpoint instructions.
 * Nothing jumps to them.
 */
static void pad(struct assembly *assembly, size_t bytes, size_t room)
{
	memset(assembly->code, BREAKPOINT, room - bytes);
	assembly->code += room - bytes;
	assembly->addr += room - bytes;
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

/* The code that counts in the shard of a CPU, and places in it. */
struct shard_template {
	const uint8_t *begin, *moved, *entry, *sequence, *sequence_end, *end;
};

static const struct shard_template of_sites = {
	templates_count_cpu,	      templates_count_cpu_moved,	templates_count_cpu_entry,
	templates_count_cpu_sequence, templates_count_cpu_sequence_end, templates_window_cpu,
};

static const struct shard_template of_windows = {
	templates_window_cpu,
	templates_window_cpu_moved,
	templates_window_cpu_entry,
	templates_window_cpu_sequence,
	templates_window_cpu_sequence_end,
	templates_gate,
};

static size_t count_bytes(uint32_t n_shards, const struct shard_template *shard)
{
	return n_shards > 1 ? template_bytes(shard->begin, shard->end)
			    : template_bytes(templates_count, templates_count_cpu);
}

uint64_t templates_entry_off(uint32_t n_shards)
{
	return n_shards > 1 ? template_bytes(templates_count_cpu, templates_count_cpu_entry) : 0;
}

static size_t gate_bytes(void)
{
	return template_bytes(templates_gate, templates_room);
}

/*
 * Set *BEGIN to the first byte of the template for ROLE, and *END to the byte after its last one.
 */
static void template_of(const struct inside_role *role, const uint8_t **begin, const uint8_t **end)
{
	if (role->event) {
		*begin = templates_event;
		*end = templates_arg;
	} else if (role->has_group) {
		*begin = templates_group;
		*end = templates_by;
	} else if (role->is_keyed) {
		*begin = role->is_stop ? templates_key_stop : templates_key_start;
		*end = role->is_stop ? templates_event : templates_key_stop;
	} else if (role->is_framed) {
		*begin = role->is_stop ? templates_frame_stop : templates_frame_start;
		*end = role->is_stop ? templates_key_start : templates_frame_stop;
	} else {
		*begin = role->is_stop ? templates_stop : templates_start;
		*end = role->is_stop ? templates_frame_start : templates_stop;
	}
}

static bool writes_event(const struct inside_role *roles, size_t n_roles)
{
	return n_roles && roles[0].event;
}

/* Return the role of ROLES that counts in a group, or NULL. */
static const struct inside_role *group_role(const struct inside_role *roles, size_t n_roles)
{
	for (size_t i = 0; i < n_roles; i++)
		if (roles[i].has_group)
			return &roles[i];
	return NULL;
}

/* Return true if ROLE finds the place for the times of its value. */
static bool finds_times(const struct inside_role *role)
{
	return role->is_grouped && !role->is_stop;
}

static bool has_stop(const struct inside_role *roles, size_t n_roles)
{
	for (size_t i = 0; i < n_roles; i++)
		if (roles[i].is_stop)
			return true;
	return false;
}

/* Return the size of the code that plays the roles, without room and window_leave. */
static size_t roles_bytes(const struct inside_role *roles, size_t n_roles)
{
	size_t bytes =
		template_bytes(templates_leave, templates_window_leave) +
		(has_stop(roles, n_roles) ? template_bytes(templates_enter_stop, templates_start)
					  : template_bytes(templates_enter, templates_enter_stop));

	for (size_t i = 0; i < n_roles; i++) {
		const uint8_t *begin, *end;

		template_of(&roles[i], &begin, &end);
		bytes += template_bytes(begin, end);
		if (finds_times(&roles[i]))
			bytes += template_bytes(templates_by, templates_leave);
		if (roles[i].event)
			bytes += roles[i].event->n_args *
					 template_bytes(templates_arg, templates_commit) +
				 template_bytes(templates_commit, templates_group);
	}
	return bytes;
}

/*
 * Set *BEGIN and *END to the template that checks the stack of a site with ROLES or, if IS_WINDOW,
 * of a window.
 */
static void room_template(const struct inside_role *roles, size_t n_roles, bool is_window,
			  const uint8_t **begin, const uint8_t **end)
{
	if (writes_event(roles, n_roles) || group_role(roles, n_roles)) {
		*begin = is_window ? templates_window_event_room : templates_event_room;
		*end = is_window ? templates_window_gap : templates_window_event_room;
	} else {
		*begin = is_window ? templates_window_room : templates_room;
		*end = is_window ? templates_event_room : templates_window_room;
	}
}

static size_t site_bytes(uint32_t n_shards, const struct inside_role *roles, size_t n_roles)
{
	const uint8_t *begin, *end;
	size_t bytes = count_bytes(n_shards, &of_sites) + gate_bytes();

	room_template(roles, n_roles, false, &begin, &end);
	if (n_roles)
		bytes += template_bytes(begin, end) + roles_bytes(roles, n_roles);
	return bytes;
}

size_t templates_site_bytes(uint32_t n_shards, const struct inside_role *roles, size_t n_roles)
{
	return aligned(site_bytes(n_shards, roles, n_roles), TRAMPOLINE_ALIGN);
}

/* The trampoline of a window that keeps r11 changes rax instead, which it saves on the stack. */
static const struct shard_template *shard_of(const struct inside_site *site)
{
	return site->keeps_r11 ? &of_sites : &of_windows;
}

/* Return the size of the code that checks the stack of the window SITE, and leaves a gap. */
static size_t window_room_bytes(const struct inside_site *site)
{
	const size_t gap = template_bytes(templates_window_gap, templates_enter);
	const uint8_t *begin, *end;

	room_template(site->roles, site->n_roles, true, &begin, &end);
	return gap + (site->keeps_r11 ? 0 : template_bytes(begin, end));
}

size_t templates_before_off(uint32_t n_shards, const struct inside_site *site)
{
	return count_bytes(n_shards, shard_of(site));
}

size_t templates_rest_off(uint32_t n_shards, const struct inside_site *site)
{
	size_t bytes = templates_before_off(n_shards, site) + site->n_before;

	if (site->n_roles)
		bytes += window_room_bytes(site) + roles_bytes(site->roles, site->n_roles) +
			 template_bytes(templates_window_leave, templates_routine_start);
	return bytes;
}

size_t templates_window_bytes(uint32_t n_shards, const struct inside_site *site)
{
	return aligned(templates_rest_off(n_shards, site) - site->n_before + TEMPLATES_COPY_BYTES,
		       TRAMPOLINE_ALIGN);
}

/* ---- with a filter -------------------------------------------------------------------------- */

enum { JMP_BYTES = 5 };

/* Return the offset of the part for rejected hits in the trampoline of SITE. */
static size_t rejected_off(uint32_t n_shards, const struct inside_site *site)
{
	return site->window ? templates_window_bytes(n_shards, site)
			    : templates_site_bytes(n_shards, site->roles, site->n_roles);
}

/* Return how many of the roles the hits play that a filter rejects: all, or none. */
static size_t count_rejected_roles(const struct inside_role *roles, size_t n_roles)
{
	return writes_event(roles, n_roles) && !roles[0].event->has_rejected ? 0 : n_roles;
}

uint64_t templates_filter_off(uint32_t n_shards, const struct inside_site *site)
{
	size_t bytes = count_bytes(n_shards, site->window ? &of_windows : &of_sites) + JMP_BYTES;
	const size_t n_roles = count_rejected_roles(site->roles, site->n_roles);
	const uint8_t *begin, *end;

	room_template(site->roles, n_roles, site->window, &begin, &end);
	if (n_roles)
		bytes += template_bytes(begin, end) + roles_bytes(site->roles, n_roles);
	if (n_roles && site->window)
		bytes += template_bytes(templates_window_gap, templates_enter) +
			 template_bytes(templates_window_leave, templates_routine_start);
	return rejected_off(n_shards, site) + aligned(bytes, TRAMPOLINE_ALIGN);
}

size_t templates_filtered_bytes(uint32_t n_shards, const struct inside_site *site)
{
	const struct filter_code code = { .filter = site->filter, .is_window = site->window };

	return templates_filter_off(n_shards, site) +
	       aligned(filter_code_make(&code, NULL, NULL), TRAMPOLINE_ALIGN);
}

/* ---- the process ---------------------------------------------------------------------------- */

static bool is_power_of_2(uint64_t number, uint64_t max)
{
	return number && number <= max && !(number & (number - 1));
}

static int check_limits(struct ocp_ctx *ctx, const struct block_header *header,
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
	if (!header->n_pairs && !header->n_rings)
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
	if (!header->n_pairs)
		return 0;
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

/* Return the address of ROUTINE in the process, whose routines begin at ROUTINES. */
static int64_t routine_at(uint64_t routines, const uint8_t *routine)
{
	return (int64_t)(routines + template_bytes(templates_routine_start, routine));
}

/*
 * Set the values for groups. Without pairs, they have the page that pairs have otherwise.
 */
static void set_group_values(int64_t *values, const struct block_header *header)
{
	if (header->n_groups && !header->n_pairs)
		values[HOLE_TO_STACK_PAGE] = (int64_t)(header->addr + header->groups_off +
						       offsetof(struct groups_shared, stack_page));
	values[HOLE_N_GROUP_BUCKETS] = groups_n_buckets(header->n_groups);
	values[HOLE_FIRST_TIMES] = header->n_pairs;
	values[HOLE_N_TIMES] = header->n_times;
	values[HOLE_TO_TIMES] = (int64_t)(header->addr + groups_times_off(header, 0));
	values[HOLE_TO_TIMES_USED] = (int64_t)(header->addr + header->groups_off +
					       offsetof(struct groups_shared, times_used));
}

/*
 * Set the values for events. Without pairs, the rings have the page that pairs have otherwise. A
 * block without rings has the routine, too, which nothing calls.
 */
static void set_event_values(int64_t *values, const struct block_header *header,
			     const struct templates_process *process)
{
	const uint64_t shared = header->addr + header->rings_off;

	if (header->n_rings && !header->n_pairs)
		values[HOLE_TO_STACK_PAGE] =
			(int64_t)(shared + offsetof(struct rings_shared, stack_page));
	values[HOLE_TO_WITHOUT_STACK] =
		(int64_t)(shared + offsetof(struct rings_shared, without_stack));
	values[HOLE_TO_RINGS] = (int64_t)(shared + sizeof(struct rings_shared));
	values[HOLE_RING_HINT] =
		process->rseq_off ? process->rseq_off + (int64_t)offsetof(struct rseq, cpu_id)
				  : process->tid_off;
	values[HOLE_RING_MASK] = (int64_t)header->n_rings - 1;
	values[HOLE_RING_BYTES] = (int64_t)rings_stride(header);
	values[HOLE_RING_FULL] = (int64_t)header->ring_slots - RINGS_SPARE;
	values[HOLE_RING_SLOT_MASK] = (int64_t)header->ring_slots - 1;
	values[HOLE_RING_SLOT_BYTES] = header->slot_bytes;
	values[HOLE_TRASH_OFF] = (int64_t)(sizeof(struct event_ring) +
					   header->ring_slots * (uint64_t)header->slot_bytes);
}

/*
 * Set the values that depend on HEADER and PROCESS. They are set in ASSEMBLY itself: to copy them
 * for each site would take time.
 */
static void set_values(struct assembly *assembly, const struct block_header *header,
		       const struct templates_process *process)
{
	const uint64_t routines = header->addr + header->code_off;
	int64_t *values = assembly->values;

	values[HOLE_TO_BLOCK_ADDR] = (int64_t)(header->addr + offsetof(struct block_header, addr));
	values[HOLE_TO_NS_PER_TICK] =
		(int64_t)(header->addr + offsetof(struct block_header, ns_per_tick));
	values[HOLE_TO_ROOM] = routine_at(routines, templates_routine_room);
	values[HOLE_TO_WINDOW_ROOM] = routine_at(routines, templates_routine_window_room);
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
	values[HOLE_N_BUCKETS] = pairs_n_keys(header->n_threads) / PAIRS_BUCKET_KEYS;
	values[HOLE_KEYS_OFF] = values[HOLE_SLOTS_OFF] + (int64_t)pairs_keys_off(header->n_threads);
	values[HOLE_TOTALS_MASK] = (int64_t)pairs_n_totals(header->n_threads) - 1;
	values[HOLE_TO_PIDS] = (int64_t)(header->addr + pairs_pids_off(header));
	set_event_values(values, header, process);
	set_group_values(values, header);
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
	const int ret = check_limits(ctx, header, process);
	struct assembly assembly = { .code = code, .addr = addr };

	set_values(&assembly, header, process);
	if (ret)
		return ret;
	if (!header->n_pairs && !header->n_rings && !header->n_groups) {
		pad(&assembly, 0, templates_routines_bytes());
		return 0;
	}
	put_template(&assembly, templates_routine_start, templates_end);
	pad(&assembly, template_bytes(templates_routine_start, templates_end),
	    templates_routines_bytes());
	return assembly.is_too_far ? too_far(ctx, addr) : 0;
}

static void put_count(struct assembly *assembly, uint32_t n_shards,
		      const struct shard_template *shard)
{
	const uint64_t addr = assembly->addr;
	const struct rseq_cs sequence = {
		.start_ip = addr + template_bytes(shard->begin, shard->sequence),
		.post_commit_offset = template_bytes(shard->sequence, shard->sequence_end),
		.abort_ip = addr + template_bytes(shard->begin, shard->moved),
	};

	if (n_shards == 1) {
		put_template(assembly, templates_count, templates_count_cpu);
		return;
	}
	memcpy(put_template(assembly, shard->begin, shard->end), &sequence, sizeof(sequence));
}

/* Append a jump to ADDR, which is in the same trampoline. */
static void put_jump(struct assembly *assembly, uint64_t addr)
{
	enum { JMP = 0xe9 };
	const int32_t distance = (int32_t)(addr - (assembly->addr + JMP_BYTES));

	assembly->code[0] = JMP;
	memcpy(assembly->code + 1, &distance, sizeof(distance));
	assembly->code += JMP_BYTES;
	assembly->addr += JMP_BYTES;
}

/* ---- the key -------------------------------------------------------------------------------- */

/* Register numbers of the processor. */
enum { RAX, RCX, RDX, RSP = 4, RSI = 6, RDI };

/*
 * Return the offset on the stack at which a trampoline has saved REG, or -1 if a trampoline does
 * not change REG: see enter in templates_code.c.
 */
static int saved_at(int64_t reg)
{
	switch (reg) {
	case RDI:
		return 8;
	case RSI:
		return 16;
	case RDX:
		return 24;
	case RCX:
		return 32;
	case RAX:
		return 40;
	default:
		return -1;
	}
}

enum { SITE_RSP = 56 }; /* distance from rsp in a trampoline to rsp at the site */

/* Write the code: mov OFF(%rsp), %rsi, and a nop of two bytes */
static void load_stack(uint8_t *code, int32_t off)
{
	static const uint8_t mov[] = { 0x48, 0x8b, 0xb4, 0x24 }, nop[] = { 0x66, 0x90 };

	memcpy(code, mov, sizeof(mov));
	memcpy(code + sizeof(mov), &off, sizeof(off));
	memcpy(code + sizeof(mov) + sizeof(off), nop, sizeof(nop));
}

/* Write the code: lea OFF(%rsp), %rsi, and a nop of two bytes */
static void load_address(uint8_t *code, int32_t off)
{
	enum { LEA = 0x8d };

	load_stack(code, off);
	code[1] = LEA;
}

/* Write the code: mov %REG, %rsi, and a nop of seven bytes */
static void load_register(uint8_t *code, int64_t reg)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x80, 0, 0, 0, 0 };

	code[0] = (uint8_t)(0x48 | (reg >> 3 << 2));
	code[1] = 0x89;
	code[2] = (uint8_t)(0xc0 | (reg & 7) << 3 | RSI);
	memcpy(code + 3, nop, sizeof(nop));
}

/* Write the code that loads the current stack of OCaml 5: mov 40(%r14), %rsi, and a nop. */
static void load_fiber(uint8_t *code)
{
	static const uint8_t load[TEMPLATES_KEY_BYTES] = { 0x49, 0x8b, 0x76, KERNEL_CURRENT_STACK,
							   0x66, 0x0f, 0x1f, 0x44 };

	memcpy(code, load, sizeof(load));
}

/* ... that follows it to its parent: mov 16(%rsi), %rsi; mov 24(%rsi), %rsi, and a nop. */
static void load_parent(uint8_t *code)
{
	static const uint8_t load[TEMPLATES_KEY_BYTES] = { 0x48, 0x8b, 0x76, KERNEL_STACK_HANDLER,
							   0x48, 0x8b, 0x76, HANDLER_PARENT,
							   0x66, 0x90 };

	memcpy(code, load, sizeof(load));
}

/* Write the code: movabs $NUMBER, %rsi */
static void load_constant(uint8_t *code, int64_t number)
{
	code[0] = 0x48;
	code[1] = 0xb8 | RSI;
	memcpy(code + 2, &number, sizeof(number));
}

/*
 * Write to CODE the TEMPLATES_KEY_BYTES bytes that load the key from PLACE. Return false if PLACE
 * is out of range.
 */
static bool put_key(const struct inside_place *place, uint8_t *code)
{
	const int64_t number = place->number;

	switch (place->kind) {
	case INSIDE_REGISTER:
		if (number < RAX || number > 15 || number == RSP)
			return false;
		if (saved_at(number) >= 0)
			load_stack(code, saved_at(number));
		else
			load_register(code, number);
		return true;
	case INSIDE_STACK:
		if (number < 0 || number > INSIDE_STACK_MAX)
			return false;
		load_stack(code, SITE_RSP + (int32_t)number);
		return true;
	case INSIDE_CONSTANT:
		load_constant(code, number);
		return true;
	case INSIDE_FRAME:
	case INSIDE_FIBER_FRAME:
		if (number < 0 || number > INSIDE_STACK_MAX)
			return false;
		/* The routines for stacks of OCaml 5 add the 1 themselves. */
		load_address(code, SITE_RSP + (int32_t)number + (place->kind == INSIDE_FRAME));
		return true;
	case INSIDE_FIBER:
		load_fiber(code);
		return true;
	case INSIDE_FIBER_PARENT:
		load_parent(code);
		return true;
	}
	return false;
}

/* Assemble EVENT. Return false if one of its places is out of range. */
static bool put_event(struct assembly *assembly, const struct block_header *header,
		      const struct inside_event *event)
{
	const uint64_t routines = header->addr + header->code_off;
	const uint32_t room = header->slot_bytes - (uint32_t)sizeof(struct event_slot);
	bool has_places = event->n_args <= INSIDE_EVENT_ARGS && 8 * event->n_args <= room;
	uint8_t *code;

	assembly->values[HOLE_POINT] =
		(int32_t)(assembly->rejects ? event->rejected_point : event->point);
	assembly->values[HOLE_TO_EVENT] = routine_at(
		routines, event->frame.kind == INSIDE_FIBER_FRAME ? templates_routine_fiber_event
								  : templates_routine_event);
	code = put_template(assembly, templates_event, templates_arg);
	has_places &= put_key(&event->frame,
			      code + template_bytes(templates_event, templates_event_load));
	for (uint32_t i = 0; has_places && i < event->n_args; i++) {
		assembly->values[HOLE_ARG_OFF] =
			(int64_t)(sizeof(struct event_slot) + i * sizeof(uint64_t));
		code = put_template(assembly, templates_arg, templates_commit);
		has_places = put_key(&event->args[i], code);
	}
	put_template(assembly, templates_commit, templates_group);
	return has_places;
}

/* Return the address of the group of ROLE in the process. */
static int64_t group_at(const struct block_header *header, const struct inside_role *role)
{
	return (int64_t)(header->addr + groups_group_off(header, role->group));
}

/* Assemble ROLE, which counts in a group. Return false if its place is out of range. */
static bool put_group(struct assembly *assembly, const struct block_header *header,
		      const struct inside_role *role)
{
	uint8_t *code;

	assembly->values[HOLE_TO_GROUP] = group_at(header, role);
	assembly->values[HOLE_TO_COUNT_GROUP] = routine_at(
		header->addr + header->code_off,
		assembly->rejects ? templates_routine_no_group : templates_routine_group);
	code = put_template(assembly, templates_group, templates_by);
	return put_key(&role->key, code + template_bytes(templates_group, templates_group_load));
}

/*
 * Assemble the code that finds the place for the times of the value of ROLE. Return false if the
 * place of the value is out of range. A rejected start needs no place.
 */
static bool put_by(struct assembly *assembly, const struct block_header *header,
		   const struct inside_role *role)
{
	uint8_t *code;

	assembly->values[HOLE_TO_GROUP] = group_at(header, role);
	assembly->values[HOLE_OTHER_TIMES] = role->pair;
	assembly->values[HOLE_TO_FIND_TIMES] = routine_at(
		header->addr + header->code_off,
		assembly->rejects ? templates_routine_no_group : templates_routine_times);
	code = put_template(assembly, templates_by, templates_leave);
	return put_key(&role->value, code + template_bytes(templates_by, templates_by_load));
}

/*
 * The routines for starts: of pairs without groups, of pairs with groups, and of hits that a filter
 * rejects.
 */
struct start_routines {
	const uint8_t *plain, *by, *rejected;
};

/* What the key of a role is: an int, or the frame of a call, on a stack of OCaml 5 or another. */
enum key_kind { KEY_INT, KEY_CALL, KEY_FIBER };

static enum key_kind kind_of_key(const struct inside_role *role)
{
	if (role->key.kind == INSIDE_FIBER_FRAME)
		return KEY_FIBER;
	return role->key.kind == INSIDE_FRAME ? KEY_CALL : KEY_INT;
}

/* Set the values for the routines that ROLE calls. */
static void set_routines(struct assembly *assembly, const struct block_header *header,
			 const struct inside_role *role)
{
	const uint64_t routines = header->addr + header->code_off;
	const enum key_kind kind = kind_of_key(role);
	const struct start_routines starts[] = {
		{ templates_routine_start, templates_routine_by_start, templates_routine_reject },
		{ templates_routine_frame_start, templates_routine_by_frame_start,
		  templates_routine_frame_reject },
	};
	const struct start_routines key_starts[] = {
		{ templates_routine_key_start, templates_routine_by_key_start,
		  templates_routine_key_reject },
		{ templates_routine_call_start, templates_routine_by_call_start,
		  templates_routine_call_reject },
		{ templates_routine_fiber_start, templates_routine_by_fiber_start,
		  templates_routine_fiber_reject },
	};
	const uint8_t *const stops[][2] = {
		{ templates_routine_stop, templates_routine_by_stop },
		{ templates_routine_frame_stop, templates_routine_by_frame_stop },
	};
	const uint8_t *const key_stops[][2] = {
		{ templates_routine_key_stop, templates_routine_by_key_stop },
		{ templates_routine_call_stop, templates_routine_by_call_stop },
		{ templates_routine_fiber_stop, templates_routine_by_fiber_stop },
	};
	const struct start_routines *start = &starts[role->is_framed],
				    *key_start = &key_starts[kind];

	assembly->values[HOLE_TO_START] = routine_at(routines, assembly->rejects  ? start->rejected
							       : role->is_grouped ? start->by
										  : start->plain);
	assembly->values[HOLE_TO_KEY_START] =
		routine_at(routines, assembly->rejects	? key_start->rejected
				     : role->is_grouped ? key_start->by
							: key_start->plain);
	assembly->values[HOLE_TO_STOP] =
		routine_at(routines, stops[role->is_framed][role->is_grouped]);
	assembly->values[HOLE_TO_KEY_STOP] =
		routine_at(routines, key_stops[kind][role->is_grouped]);
}

/* Assemble ROLE. Return false if the place of its key or value is out of range. */
static bool put_role(struct assembly *assembly, const struct block_header *header,
		     const struct inside_role *role)
{
	const uint8_t *begin, *end, *load;
	bool has_place = true;
	uint8_t *code;

	if (role->event)
		return put_event(assembly, header, role->event);
	if (role->has_group)
		return put_group(assembly, header, role);
	if (finds_times(role))
		has_place = put_by(assembly, header, role);
	assembly->values[HOLE_TO_PAIR] =
		(int64_t)(header->addr + pairs_area_off(header, role->pair));
	assembly->values[HOLE_FRAME_OFF] = SITE_RSP + role->key.number;
	set_routines(assembly, header, role);
	template_of(role, &begin, &end);
	code = put_template(assembly, begin, end);
	load = role->is_stop ? templates_key_stop_load : templates_key_start_load;
	if (role->is_framed)
		return has_place && role->key.number >= 0 && role->key.number <= INSIDE_STACK_MAX;
	if (role->is_keyed)
		has_place &= put_key(&role->key, code + template_bytes(begin, load));
	return has_place;
}

/* Set the values for counting in the counter at COUNTER, in shard 0, by code at TRAMPOLINE. */
static void set_counter(struct assembly *assembly, const struct block_header *header,
			uint64_t counter, uint64_t trampoline)
{
	int64_t *values = assembly->values;

	values[HOLE_TO_COUNTER] =
		(int64_t)counter + (header->n_shards - 1) * values[HOLE_SHARD_BYTES];
	values[HOLE_COUNTER_OFF] = (int64_t)(counter - header->addr);
	values[HOLE_TO_SEQUENCE] = (int64_t)trampoline;
}

/* Append the code that checks the stack before ROLES, of a window if IS_WINDOW. */
static void put_room(struct assembly *assembly, const struct block_header *header,
		     const struct inside_role *roles, size_t n_roles, bool is_window)
{
	const struct inside_role *group = group_role(roles, n_roles);
	const uint8_t *begin, *end;

	if (group)
		assembly->values[HOLE_TO_WITHOUT_STACK] =
			group_at(header, group) + (int64_t)offsetof(struct group, others);
	room_template(roles, n_roles, is_window, &begin, &end);
	put_template(assembly, begin, end);
}

/*
 * Assemble the N_ROLES roles ROLES, with the code before and behind them. Return false if the place
 * of a key is out of range.
 */
static bool put_roles(struct assembly *assembly, const struct block_header *header,
		      const struct inside_role *roles, size_t n_roles)
{
	bool has_places = true;

	if (has_stop(roles, n_roles))
		put_template(assembly, templates_enter_stop, templates_start);
	else
		put_template(assembly, templates_enter, templates_enter_stop);
	for (size_t i = 0; i < n_roles; i++)
		has_places &= put_role(assembly, header, &roles[i]);
	put_template(assembly, templates_leave, templates_window_leave);
	return has_places;
}

static int check_roles(struct ocp_ctx *ctx, const struct templates_process *process,
		       const struct inside_role *roles, size_t n_roles)
{
	for (size_t i = 0; i < n_roles; i++)
		if (roles[i].is_keyed && !process->may_call_kernel)
			return ctx_error(
				ctx, -ENOTSUP,
				"timing inside a process: it has a seccomp filter, and neither "
				"pairs that are matched by an argument nor calls can be timed there");
	return 0;
}

static int place_error(struct ocp_ctx *ctx)
{
	return ctx_error(ctx, -EINVAL,
			 "the place of a key or of a filter's argument is out of range");
}

/* The parts of a trampoline with a filter. All addresses are those in the process. */
struct filtered {
	const struct templates_filter *filter;
	const struct inside_role *roles;
	size_t n_roles;
	bool is_window;
	uint64_t matched; /* the part for hits that match */
	uint64_t rest;	  /* the end of this part: the gate, or the copy of the window */
};

/*
 * Assemble the part for rejected hits, and the code of the filter. Return false if the place of a
 * key or of an argument is out of range.
 */
static bool put_filtered(struct assembly *assembly, const struct block_header *header,
			 const struct filtered *of)
{
	const uint64_t addr = assembly->addr, entry_off = templates_entry_off(header->n_shards);
	const struct shard_template *shard = of->is_window ? &of_windows : &of_sites;
	const size_t n_roles = count_rejected_roles(of->roles, of->n_roles);
	uint8_t *const code = assembly->code;
	const uint8_t *begin, *end;
	bool has_places = true, is_sound;
	struct filter_code filter = {
		.filter = of->filter->filter,
		.is_window = of->is_window,
		.number = of->filter->number,
		.matched = of->matched + entry_off,
		.rejected = addr + entry_off,
		.mismatches = of->filter->mismatches,
	};
	size_t n;

	assembly->rejects = true;
	set_counter(assembly, header, of->filter->rejected, addr);
	put_count(assembly, header->n_shards, shard);
	if (n_roles) {
		room_template(of->roles, n_roles, of->is_window, &begin, &end);
		put_template(assembly, begin, end);
		if (of->is_window)
			put_template(assembly, templates_window_gap, templates_enter);
		has_places = put_roles(assembly, header, of->roles, n_roles);
		if (of->is_window)
			put_template(assembly, templates_window_leave, templates_routine_start);
	}
	put_jump(assembly, of->rest);
	n = (size_t)(assembly->code - code);
	pad(assembly, n, aligned(n, TRAMPOLINE_ALIGN));
	filter.addr = assembly->addr;
	n = filter_code_make(&filter, assembly->code, &is_sound);
	assembly->code += n;
	assembly->addr += n;
	pad(assembly, n, aligned(n, TRAMPOLINE_ALIGN));
	return has_places && is_sound;
}

int templates_site(struct ocp_ctx *ctx, const struct block_header *header,
		   const struct templates_process *process, const struct templates_site *site,
		   uint8_t *code)
{
	const size_t bytes = site_bytes(header->n_shards, site->roles, site->n_roles);
	struct assembly assembly = { .code = code, .addr = site->trampoline };
	const int err = check_roles(ctx, process, site->roles, site->n_roles);
	bool has_places = true;

	if (err)
		return err;
	set_values(&assembly, header, process);
	set_counter(&assembly, header, site->counter, site->trampoline);
	assembly.values[HOLE_TO_GATE] = (int64_t)site->gate;
	assembly.values[HOLE_TO_WRAPPER] = (int64_t)site->wrapper;
	assembly.values[HOLE_TO_REST] = (int64_t)(site->trampoline + bytes - gate_bytes());
	put_count(&assembly, header->n_shards, &of_sites);
	if (site->n_roles) {
		put_room(&assembly, header, site->roles, site->n_roles, false);
		has_places = put_roles(&assembly, header, site->roles, site->n_roles);
	}
	put_template(&assembly, templates_gate, templates_room);
	pad(&assembly, bytes, aligned(bytes, TRAMPOLINE_ALIGN));
	if (site->filter.filter)
		has_places &= put_filtered(&assembly, header,
					   &(struct filtered){
						   .filter = &site->filter,
						   .roles = site->roles,
						   .n_roles = site->n_roles,
						   .matched = site->trampoline,
						   .rest = site->trampoline + bytes - gate_bytes(),
					   });
	if (!has_places)
		return place_error(ctx);
	return assembly.is_too_far ? too_far(ctx, site->trampoline) : 0;
}

/* Append a part of the copy of a window. */
static void put_copy(struct assembly *assembly, const uint8_t *bytes, size_t n)
{
	if (n)
		memcpy(assembly->code, bytes, n);
	assembly->code += n;
	assembly->addr += n;
}

int templates_window(struct ocp_ctx *ctx, const struct block_header *header,
		     const struct templates_process *process, const struct templates_window *window,
		     uint8_t *code)
{
	const struct inside_site *site = window->site;
	const size_t rest_off = templates_rest_off(header->n_shards, site);
	struct assembly assembly = { .code = code, .addr = window->trampoline };
	const int err = check_roles(ctx, process, site->roles, site->n_roles);
	bool has_places = true;

	if (err)
		return err;
	set_values(&assembly, header, process);
	set_counter(&assembly, header, window->counter, window->trampoline);
	assembly.values[HOLE_TO_REST] = (int64_t)(window->trampoline + rest_off);
	put_count(&assembly, header->n_shards, shard_of(site));
	put_copy(&assembly, window->before.bytes, window->before.n);
	if (site->n_roles) {
		if (!site->keeps_r11)
			put_room(&assembly, header, site->roles, site->n_roles, true);
		put_template(&assembly, templates_window_gap, templates_enter);
		has_places = put_roles(&assembly, header, site->roles, site->n_roles);
		put_template(&assembly, templates_window_leave, templates_routine_start);
	}
	put_copy(&assembly, window->rest.bytes, window->rest.n);
	pad(&assembly, rest_off + window->rest.n, templates_window_bytes(header->n_shards, site));
	if (window->filter.filter)
		has_places &= !site->n_before && !site->keeps_r11 &&
			      put_filtered(&assembly, header,
					   &(struct filtered){
						   .filter = &window->filter,
						   .roles = site->roles,
						   .n_roles = site->n_roles,
						   .is_window = true,
						   .matched = window->trampoline,
						   .rest = window->trampoline + rest_off,
					   });
	if (!has_places)
		return place_error(ctx);
	return assembly.is_too_far ? too_far(ctx, window->trampoline) : 0;
}
