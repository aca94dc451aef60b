// SPDX-License-Identifier: MIT
#include "process/trampolines.h"

#include <stdlib.h>
#include <string.h>

#include "inside/block.h"

enum {
	MAX_SITES = 1 << 23,
	TRIES = 100, /* to read blocks of which one has gone: each time it is another one */
};

/* A block while it is read: its header, and the array of the data mapping's bytes that belong to it. */
struct block {
	struct ocp_ctx *ctx;
	const struct memory *memory;
	struct block_header header;
	uint64_t data_bytes; /* of the mapping */
	struct block_site *sites;
	uint16_t *gates;
};

static int read_at(const struct block *block, uint64_t addr, void *to, size_t bytes)
{
	const struct iovec remote = { (void *)(uintptr_t)addr, bytes };

	return bytes ? memory_read_in_order(block->memory, &remote, 1, to, bytes) : 0;
}

static bool is_in(uint64_t off, uint64_t bytes, uint64_t limit)
{
	return off <= limit && bytes <= limit - off;
}

/* Does the header of the block at ADDR fit its mapping? */
static bool is_sound(const struct block *block, uint64_t addr)
{
	const struct block_header *h = &block->header;

	return h->magic == BLOCK_MAGIC && h->version == BLOCK_VERSION && h->addr == addr &&
	       h->n_sites <= MAX_SITES &&
	       is_in(h->sites_off, h->n_sites * sizeof(struct block_site), block->data_bytes) &&
	       is_in(h->gates_off, h->n_sites * sizeof(uint16_t), block->data_bytes) &&
	       is_in(h->code_off, h->code_bytes, h->bytes);
}

/* Are the trampolines still mapped? */
static bool has_code(const struct block *block, const struct maps *maps)
{
	const struct block_header *h = &block->header;
	const struct mapping *m = maps_find(maps, h->addr + h->code_off);

	return m && m->executable &&
	       is_in(h->addr + h->code_off - m->start, h->code_bytes, m->end - m->start);
}

/* Can what the block says of its site number I be true? */
static bool is_possible(const struct block *block, size_t i)
{
	const struct block_header *h = &block->header;
	const struct block_site *site = &block->sites[i];

	if (site->trampoline - h->addr - h->code_off >= h->code_bytes)
		return false;
	if (site->gate == BLOCK_GATE_PRIVATE)
		return site->gate_addr == h->addr + h->gates_off + i * sizeof(uint16_t);
	return site->gate == BLOCK_GATE_SEMAPHORE;
}

static int add_sites(const struct block *block, struct trampolines *to)
{
	struct trampoline *larger =
		reallocarray(to->list, to->n + block->header.n_sites + 1, sizeof(*larger));

	if (!larger)
		return ctx_no_memory(block->ctx);
	to->list = larger;
	for (size_t i = 0; i < block->header.n_sites; i++) {
		const struct block_site *site = &block->sites[i];

		if (!is_possible(block, i))
			continue;
		to->list[to->n++] = (struct trampoline){
			.site = site->addr,
			.addr = site->trampoline,
			.gate_addr = site->gate_addr,
			.has_private_gate = site->gate == BLOCK_GATE_PRIVATE,
			.gate = block->gates[i],
		};
	}
	return 0;
}

/* Add the sites of the block whose data are mapped at M, if it is one. */
static int read_block(struct block *block, const struct maps *maps, const struct mapping *m,
		      struct trampolines *to)
{
	int err;

	block->data_bytes = m->end - m->start;
	if (block->data_bytes < sizeof(block->header))
		return 0;
	err = read_at(block, m->start, &block->header, sizeof(block->header));
	if (err || !is_sound(block, m->start) || !has_code(block, maps))
		return err;
	block->sites = calloc(block->header.n_sites + 1, sizeof(*block->sites));
	block->gates = calloc(block->header.n_sites + 1, sizeof(*block->gates));
	if (!block->sites || !block->gates)
		err = ctx_no_memory(block->ctx);
	if (!err)
		err = read_at(block, m->start + block->header.sites_off, block->sites,
			      block->header.n_sites * sizeof(*block->sites));
	if (!err)
		err = read_at(block, m->start + block->header.gates_off, block->gates,
			      block->header.n_sites * sizeof(*block->gates));
	if (!err)
		err = add_sites(block, to);
	free(block->sites);
	free(block->gates);
	return err;
}

bool trampolines_are_in(const struct mapping *m)
{
	return strcmp(m->path, BLOCK_PATH) == 0 || strcmp(m->path, STORES_PATH) == 0;
}

int trampolines_are_mapped(struct ocp_ctx *ctx, pid_t pid, bool *mapped)
{
	struct maps maps;
	const int err = maps_read(ctx, pid, &maps);

	*mapped = false;
	for (size_t i = 0; !err && i < maps.n; i++)
		*mapped |= trampolines_are_in(&maps.mappings[i]);
	maps_free(&maps);
	return err;
}

static int compare(const void *a, const void *b)
{
	const struct trampoline *x = a, *y = b;
	int order = (x->site > y->site) - (x->site < y->site);

	return order ? order : (x->addr > y->addr) - (x->addr < y->addr);
}

/* -EFAULT: a tool has removed a block meanwhile. */
static int read_once(struct ocp_ctx *ctx, const struct memory *memory, struct trampolines *found)
{
	struct maps maps;
	int err = maps_read(ctx, memory_pid(memory), &maps);

	*found = (struct trampolines){ 0 };
	if (err)
		return err;
	for (size_t i = 0; !err && i < maps.n; i++) {
		const struct mapping *m = &maps.mappings[i];
		struct block block = { .ctx = ctx, .memory = memory };

		if (trampolines_are_in(m) && m->off == 0 && m->readable && !m->executable)
			err = read_block(&block, &maps, m, found);
	}
	maps_free(&maps);
	return err;
}

int trampolines_read(struct ocp_ctx *ctx, const struct memory *memory, struct trampolines *found)
{
	int err = read_once(ctx, memory, found);

	for (int i = 1; err == -EFAULT && i < TRIES; i++) {
		trampolines_free(found);
		err = read_once(ctx, memory, found);
	}
	/* The mappings may be those of another program, after an exec. */
	if (!err)
		err = memory_check_alive(memory);
	if (err)
		trampolines_free(found);
	else if (found->n)
		qsort(found->list, found->n, sizeof(*found->list), compare);
	return err;
}

void trampolines_free(struct trampolines *trampolines)
{
	free(trampolines->list);
	*trampolines = (struct trampolines){ 0 };
}

bool trampolines_equal(const struct trampolines *a, const struct trampolines *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (compare(&a->list[i], &b->list[i]) != 0 ||
		    a->list[i].gate_addr != b->list[i].gate_addr ||
		    a->list[i].gate != b->list[i].gate)
			return false;
	return true;
}

const struct trampoline *trampolines_find(const struct trampolines *trampolines,
					  const struct site *site, uint64_t addr,
					  const uint8_t *code)
{
	struct trampoline wanted = { .site = addr };
	int32_t displacement;

	if (!trampolines->n || site->dormant)
		return NULL;
	memcpy(&displacement, code + SITE_OPCODE_OFF + 1, sizeof(displacement));
	wanted.addr = addr + SITE_BYTES + (uint64_t)(int64_t)displacement;
	return bsearch(&wanted, trampolines->list, trampolines->n, sizeof(wanted), compare);
}

enum site_form trampoline_site_form(const struct site *site, const uint8_t *code, uint16_t gate)
{
	const uint8_t opcode = code[site->opcode_at];

	if (code[0] != SITE_NOP && code[0] != SITE_INT3)
		return SITE_FORM_NO_NOP;
	if (opcode == SITE_INT3)
		return SITE_FORM_BREAKPOINT;
	if (opcode != site->off_opcode && opcode != site->on_opcode)
		return SITE_FORM_OPCODE;
	return opcode == site->on_opcode && gate ? SITE_FORM_ON : SITE_FORM_OFF;
}
