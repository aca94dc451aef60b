// SPDX-License-Identifier: MIT
/*
 * A site is written in three steps: the opcode 3d, the displacement, the wanted opcode. While the
 * opcode is 3d the displacement means nothing: the instruction is a comparison whose result is not
 * used. So a tool that is killed after any byte leaves a valid program, and the bytes show how far
 * the tool got. A window is written in one step.
 */
#include "change/inside/site_bytes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/search.h"
#include "code/window_copy.h"

/* ---- what they are -------------------------------------------------------------------------- */

enum { JMP = 0xe9, CALL = 0xe8 };

/* Set JUMP to the jump or call from the window SITE to its trampoline, or to its original bytes. */
static void window_bytes(const struct block_site *site, bool to_trampoline,
			 uint8_t jump[PATCH_JUMP_BYTES])
{
	const uint32_t rest = to_trampoline ? inside_displacement(site) : site->displacement;

	jump[0] = !to_trampoline ? site->opcode : window_is_call(site->opcode) ? CALL : JMP;
	memcpy(jump + 1, &rest, sizeof(rest));
}

static enum site_now window_now(const struct block_site *site, const struct site_bytes *bytes)
{
	uint8_t jump[PATCH_JUMP_BYTES], original[PATCH_JUMP_BYTES];

	window_bytes(site, true, jump);
	window_bytes(site, false, original);
	if (memcmp(bytes->code, original, sizeof(original)) == 0)
		return SITE_NOW_ORIGINAL;
	return memcmp(bytes->code, jump, sizeof(jump)) == 0 ? SITE_NOW_COUNTS : SITE_NOW_FOREIGN;
}

static enum site_now probe_site_now(const struct block_site *site, const struct site_bytes *bytes)
{
	const uint32_t ours = inside_displacement(site);
	const uint8_t opcode = bytes->code[1];
	uint32_t displacement;

	memcpy(&displacement, bytes->code + 2, sizeof(displacement));
	if ((bytes->code[0] != SITE_NOP && bytes->code[0] != SITE_INT3) ||
	    (opcode != SITE_ON && opcode != SITE_OFF))
		return SITE_NOW_FOREIGN;
	if (displacement == ours)
		return opcode == SITE_ON ? SITE_NOW_COUNTS : SITE_NOW_SWITCHED;
	if (displacement == site->displacement)
		return SITE_NOW_ORIGINAL;
	for (int shift = 0; shift < 32; shift += 8) {
		const uint8_t byte = (uint8_t)(displacement >> shift);

		if (opcode != SITE_OFF || (byte != (uint8_t)(ours >> shift) &&
					   byte != (uint8_t)(site->displacement >> shift)))
			return SITE_NOW_FOREIGN;
	}
	return SITE_NOW_CUT;
}

enum site_now site_now(const struct block_site *site, const struct site_bytes *bytes)
{
	if (is_window(site))
		return window_now(site, bytes);
	return probe_site_now(site, bytes);
}

/* ---- writing -------------------------------------------------------------------------------- */

enum step { STEP_OFF, STEP_DISPLACEMENT, STEP_OPCODE, N_STEPS };

static void add_write(struct patch_write *writes, size_t *n, uint64_t addr, uint8_t old,
		      uint8_t new)
{
	if (old != new)
		writes[(*n)++] = (struct patch_write){
			.addr = addr, .old = old, .new = new, .bytes = 1, .phase = PATCH_SITES_ON
		};
}

/* A change of the five bytes behind the nop, in each site whose `store` is not 0. */
struct site_changes {
	struct patcher *patcher;
	const struct block_site *sites;
	const struct site_bytes *bytes;
	size_t n;
	const uint32_t *order; /* see site_reader_order() */
	bool to_trampolines;
	struct patch_write *writes; /* the writes of one step */
};

static void add_step(const struct site_changes *changes, size_t i, enum step step, size_t *n)
{
	const struct block_site *site = &changes->sites[i];
	const uint8_t *old = changes->bytes[i].code;
	const uint32_t new =
		changes->to_trampolines ? inside_displacement(site) : site->displacement;
	const bool moves = memcmp(old + 2, &new, sizeof(new)) != 0;
	const uint8_t between = moves ? SITE_OFF : old[1];

	if (step == STEP_OFF)
		add_write(changes->writes, n, site->addr + 1, old[1], between);
	else if (step == STEP_OPCODE)
		add_write(changes->writes, n, site->addr + 1, between, site->store);
	else
		for (size_t k = 0; k < sizeof(new); k++)
			add_write(changes->writes, n, site->addr + 2 + k, old[2 + k],
				  (uint8_t)(new >> 8 * k));
}

static int write_step(const struct site_changes *changes, enum step step, bool undo)
{
	struct patch_write *writes = changes->writes;
	size_t n_writes = 0;

	for (size_t i = 0; i < changes->n; i++)
		if (changes->sites[i].store && !is_window(&changes->sites[i]))
			add_step(changes, i, step, &n_writes);
	for (size_t i = 0; undo && i < n_writes; i++) {
		const uint16_t old = writes[i].old;

		writes[i].old = writes[i].new;
		writes[i].new = old;
	}
	return n_writes ? patcher_apply(changes->patcher, writes, n_writes) : 0;
}

/* Write N windows, in ascending order of their addresses: this takes the kernel the least time. */
static int write_windows(struct ocp_ctx *ctx, const struct site_changes *changes, size_t n)
{
	struct patch_jump *jumps = malloc((n + 1) * sizeof(*jumps));
	size_t n_jumps = 0;
	int err;

	if (!jumps)
		return ctx_no_memory(ctx);
	for (size_t k = 0; k < changes->n; k++) {
		const size_t i = changes->order[k];
		struct patch_jump *jump = &jumps[n_jumps];

		if (!changes->sites[i].store || !is_window(&changes->sites[i]))
			continue;
		jump->addr = changes->sites[i].addr;
		memcpy(jump->old, changes->bytes[i].code, sizeof(jump->old));
		window_bytes(&changes->sites[i], changes->to_trampolines, jump->new);
		n_jumps++;
	}
	err = n_jumps ? patcher_write_jumps(changes->patcher, jumps, n_jumps) : 0;
	free(jumps);
	return err;
}

int site_bytes_write(struct ocp_ctx *ctx, struct patcher *patcher, const struct block_site *sites,
		     const struct site_bytes *bytes, const uint32_t *order, size_t n,
		     bool to_trampolines)
{
	struct site_changes changes = { patcher, sites, bytes, n, order, to_trampolines, NULL };
	size_t n_windows = 0, n_others = 0;
	int step, err = 0;

	for (size_t i = 0; i < n; i++)
		*(is_window(&sites[i]) ? &n_windows : &n_others) += sites[i].store != 0;
	changes.writes = calloc(4 * n_others + 1, sizeof(*changes.writes));
	if (!changes.writes)
		return ctx_no_memory(ctx);
	for (step = 0; !err && step < N_STEPS; step++)
		err = write_step(&changes, (enum step)step, false);
	/* If the windows fail, undo all steps below: count a step that need not be undone. */
	if (!err) {
		err = n_windows ? write_windows(ctx, &changes, n_windows) : 0;
		step++;
	}
	/* The step that failed has undone its own writes: undo those of the steps before it. */
	if (err && err != -ESRCH)
		for (step -= 2; step >= 0; step--)
			write_step(&changes, (enum step)step, true);
	free(changes.writes);
	return err;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct site_reader {
	size_t n;
	/* for each site: its address, and that of its gate (0: not read) */
	uint64_t *addrs, *gates;
	uint64_t *sorted; /* addrs, ascending */
	uint32_t *order;  /* the numbers of the sites in this order */
	/*
	 * The plan for reading. NULL if an address is invalid: the sites are then read one by one.
	 */
	struct memory_plan *plan;
	struct site_bytes *bytes;
};

static uint64_t gate_to_read(const struct block_site *site)
{
	return site->gate == BLOCK_GATE_SEMAPHORE ? site->gate_addr : 0;
}

static int compare_addrs(const void *a, const void *b, void *addrs)
{
	const uint64_t x = ((const uint64_t *)addrs)[*(const uint32_t *)a],
		       y = ((const uint64_t *)addrs)[*(const uint32_t *)b];

	return COMPARE(x, y);
}

/*
 * Fill reader->order and reader->sorted. If there is a plan, its pieces are sorted already: take
 * the sites from these pieces, in their order.
 */
static void sort_addrs(struct site_reader *reader, size_t n_pieces)
{
	const struct memory_piece *pieces = reader->plan ? memory_plan_pieces(reader->plan) : NULL;
	size_t n = 0;

	for (size_t i = 0; pieces && i < n_pieces; i++)
		if (pieces[i].to % sizeof(struct site_bytes) == offsetof(struct site_bytes, code))
			reader->order[n++] = pieces[i].to / sizeof(struct site_bytes);
	for (; n < reader->n; n++)
		reader->order[n] = (uint32_t)n;
	if (!pieces)
		qsort_r(reader->order, reader->n, sizeof(*reader->order), compare_addrs,
			reader->addrs);
	for (size_t i = 0; i < reader->n; i++)
		reader->sorted[i] = reader->addrs[reader->order[i]];
}

/*
 * Return true if the gate of site I needs a separate piece. Consecutive sites often share a
 * semaphore, which is read once, for the first of these sites.
 */
static bool has_own_gate(const struct site_reader *reader, size_t i)
{
	return reader->gates[i] && (!i || reader->gates[i] != reader->gates[i - 1]);
}

/*
 * Make the plan: each piece goes to its place in the array of struct site_bytes. If an address is
 * invalid, make no plan; this is not an error.
 */
static int make_plan(struct site_reader *reader, struct ocp_ctx *ctx, const struct memory *memory)
{
	struct memory_piece *pieces = malloc((2 * reader->n + 1) * sizeof(*pieces));
	size_t n_pieces = 0;
	int err;

	if (!pieces)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < reader->n; i++) {
		const size_t to = i * sizeof(struct site_bytes);

		pieces[n_pieces++] = (struct memory_piece){
			.addr = reader->addrs[i],
			.bytes = SITE_BYTES,
			.to = (uint32_t)(to + offsetof(struct site_bytes, code)),
		};
		if (has_own_gate(reader, i))
			pieces[n_pieces++] = (struct memory_piece){
				.addr = reader->gates[i],
				.bytes = sizeof(reader->bytes->gate),
				.to = (uint32_t)(to + offsetof(struct site_bytes, gate)),
			};
	}
	err = memory_plan_make(memory, pieces, n_pieces, &reader->plan);
	if (err == -EFAULT)
		err = 0;
	if (!err)
		sort_addrs(reader, n_pieces);
	return err;
}

int site_reader_make(struct ocp_ctx *ctx, const struct memory *memory,
		     const struct block_site *sites, size_t n, struct site_reader **out)
{
	struct site_reader *reader = calloc(1, sizeof(*reader));
	int err;

	*out = reader;
	if (!reader)
		return ctx_no_memory(ctx);
	reader->n = n;
	reader->addrs = malloc((n + 1) * sizeof(*reader->addrs));
	reader->gates = malloc((n + 1) * sizeof(*reader->gates));
	reader->sorted = malloc((n + 1) * sizeof(*reader->sorted));
	reader->order = malloc((n + 1) * sizeof(*reader->order));
	reader->bytes = calloc(n + 1, sizeof(*reader->bytes));
	if (!reader->addrs || !reader->gates || !reader->sorted || !reader->order ||
	    !reader->bytes) {
		err = ctx_no_memory(ctx);
	} else {
		for (size_t i = 0; i < n; i++) {
			reader->addrs[i] = sites[i].addr;
			reader->gates[i] = gate_to_read(&sites[i]);
		}
		err = make_plan(reader, ctx, memory);
	}
	if (err) {
		site_reader_free(reader);
		*out = NULL;
	}
	return err;
}

void site_reader_free(struct site_reader *reader)
{
	if (!reader)
		return;
	memory_plan_free(reader->plan);
	free(reader->addrs);
	free(reader->gates);
	free(reader->sorted);
	free(reader->order);
	free(reader->bytes);
	free(reader);
}

bool site_reader_is_for(const struct site_reader *reader, const struct block_site *sites, size_t n)
{
	bool same = n == reader->n;

	for (size_t i = 0; same && i < n; i++)
		same = sites[i].addr == reader->addrs[i] &&
		       (sites[i].gate != BLOCK_GATE_SEMAPHORE ||
			sites[i].gate_addr == reader->gates[i]);
	return same;
}

const uint64_t *site_reader_addrs(const struct site_reader *reader)
{
	return reader->sorted;
}

const uint32_t *site_reader_order(const struct site_reader *reader)
{
	return reader->order;
}

/*
 * The pages that could not be read. The sites of an unloaded plugin are adjacent and lie on few
 * pages. A hostile process can put each site on a different page: after MAX_HOLES failed reads,
 * reading stops.
 */
struct holes {
	uint64_t page; /* the number of the page that most recently could not be read */
	size_t n;
};

/* 4096 pages of 4096 bytes are 16 MiB of code. */
enum { PAGE_BYTES = 4096, MAX_HOLES = 4096 };

static bool read_piece(const struct memory *memory, struct holes *holes, uint64_t addr, void *buf,
		       size_t bytes)
{
	const uint64_t page = addr / PAGE_BYTES;

	if (holes->n >= MAX_HOLES || (holes->n && page == holes->page))
		return false;
	if (memory_try_read(memory, addr, buf, bytes))
		return true;
	/*
	 * Remember the page, but only if the whole piece is on it: otherwise the next page may be
	 * the one that cannot be read.
	 */
	if ((addr + bytes - 1) / PAGE_BYTES == page)
		holes->page = page;
	holes->n++;
	return false;
}

/*
 * Read the sites one by one. A site whose plugin was unloaded reads as zeros, which count as
 * foreign.
 */
static void read_singly(struct site_reader *reader, const struct memory *memory)
{
	struct holes code = { 0 }, gates = { 0 };

	for (size_t i = 0; i < reader->n; i++) {
		struct site_bytes *bytes = &reader->bytes[i];

		if (!read_piece(memory, &code, reader->addrs[i], bytes->code, SITE_BYTES))
			memset(bytes->code, 0, SITE_BYTES);
		if (!reader->gates[i] || !read_piece(memory, &gates, reader->gates[i], &bytes->gate,
						     sizeof(bytes->gate)))
			bytes->gate = 0;
	}
}

int site_reader_read(struct site_reader *reader, const struct memory *memory,
		     struct site_bytes **bytes)
{
	int err = reader->plan ? memory_plan_read(memory, reader->plan, reader->bytes) : -EFAULT;

	for (size_t i = 1; !err && i < reader->n; i++)
		if (reader->gates[i] && !has_own_gate(reader, i))
			reader->bytes[i].gate = reader->bytes[i - 1].gate;
	if (err == -EFAULT) {
		read_singly(reader, memory);
		err = memory_check_alive(memory);
	}
	*bytes = err ? NULL : reader->bytes;
	return err;
}
