// SPDX-License-Identifier: MIT
#include "process/site_form.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "change/inside/blocks.h"

/*
 * Return true if the call at a site leads into the program's code. The site may be on or off: the
 * displacement is the same.
 */
static bool calls_code(const struct elf_file *elf, const struct site *site, const uint8_t *code)
{
	const struct elf_segment *seg;
	int32_t displacement;

	memcpy(&displacement, code + SITE_OPCODE_OFF + 1, sizeof(displacement));
	seg = elf_file_segment_of(elf, site->va + SITE_BYTES + (uint64_t)(int64_t)displacement, 1);
	return seg && seg->executable;
}

/*
 * Return true if the bytes of a dormant site are as in the file, apart from the first byte and the
 * opcode byte.
 */
static bool is_as_in_file(const struct site *site, const uint8_t *code)
{
	const uint8_t *in_file = site->dormant->code;
	size_t after = site->opcode_at + 1u;

	return memcmp(code + 1, in_file + 1, site->opcode_at - 1u) == 0 &&
	       memcmp(code + after, in_file + after, site->n_bytes - after) == 0;
}

enum site_form site_form(const struct elf_file *elf, const struct site *site, const uint8_t *code)
{
	uint8_t first = site->dormant ? site->dormant->code[0] : SITE_NOP,
		opcode = code[site->opcode_at];

	if (code[0] != first && code[0] != SITE_INT3)
		return site->dormant ? SITE_FORM_CHANGED : SITE_FORM_NO_NOP;
	if (opcode == SITE_INT3)
		return SITE_FORM_BREAKPOINT;
	if (opcode != site->off_opcode && opcode != site->on_opcode)
		return SITE_FORM_OPCODE;
	if (site->dormant && !is_as_in_file(site, code))
		return SITE_FORM_CHANGED;
	if (!site->dormant && !calls_code(elf, site, code))
		return SITE_FORM_WRAPPER;
	return opcode == site->on_opcode ? SITE_FORM_ON : SITE_FORM_OFF;
}

const char *site_form_fault(enum site_form form)
{
	switch (form) {
	case SITE_FORM_OFF:
	case SITE_FORM_ON:
		break;
	case SITE_FORM_BREAKPOINT:
		return "a breakpoint is on the byte to be switched";
	case SITE_FORM_NO_NOP:
		return "does not start with a nop";
	case SITE_FORM_CHANGED:
		return "differs from the code in the program's file";
	case SITE_FORM_OPCODE:
		return "is neither a disabled nor an enabled probe";
	case SITE_FORM_WRAPPER:
		return "calls outside of the program's code";
	}
	return "nothing";
}

const char *site_code_text(const uint8_t *code, size_t n_bytes, char text[SITE_CODE_TEXT_BYTES])
{
	text[0] = '\0';
	for (size_t i = 0; i < n_bytes && i < SITE_CODE_SHOWN; i++)
		sprintf(text + 3 * i, " %02x", code[i]);
	return text;
}

/* ---- trampolines ----------------------------------------------------------------------------- */

/*
 * Limit of attempts to read the blocks. An attempt fails if a tool removes a block during it, so
 * each block can make only one attempt fail.
 */
enum { TRIES = 100 };

/* What is needed to read the sites of one block. */
struct block_reader {
	struct ocp_ctx *ctx;
	const struct memory *memory;
	const struct block_header *header;
	struct block_site *sites;
	uint16_t *gates;
};

static int add_block_sites(const struct block_reader *block, struct trampolines *to)
{
	struct trampoline *larger =
		reallocarray(to->list, to->n + block->header->n_sites + 1, sizeof(*larger));

	if (!larger)
		return ctx_no_memory(block->ctx);
	to->list = larger;
	for (size_t i = 0; i < block->header->n_sites; i++) {
		const struct block_site *site = &block->sites[i];

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

/*
 * Add the sites of the complete block BLOCK to TO. If the block describes a site that cannot exist,
 * add none of its sites.
 */
static int read_block(struct block_reader *block, struct trampolines *to)
{
	const struct block_header *h = block->header;
	int err = 0;

	block->sites = calloc(h->n_sites + 1, sizeof(*block->sites));
	block->gates = calloc(h->n_sites + 1, sizeof(*block->gates));
	if (!block->sites || !block->gates)
		err = ctx_no_memory(block->ctx);
	if (!err)
		err = block_copy_sites(block->memory, h, NULL, block->sites);
	if (!err)
		err = block_copy(block->memory, h, h->gates_off, h->n_sites * sizeof(*block->gates),
				 block->gates);
	if (!err)
		err = add_block_sites(block, to);
	if (err == -EBADMSG)
		err = 0;
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

static int compare_trampolines(const void *a, const void *b)
{
	const struct trampoline *x = a, *y = b;
	int order = COMPARE(x->site, y->site);

	return order ? order : COMPARE(x->addr, y->addr);
}

/*
 * Try once to read the trampolines of all blocks. Return -EFAULT if a tool has removed a block
 * meanwhile.
 */
static int read_blocks_once(struct ocp_ctx *ctx, const struct memory *memory,
			    struct trampolines *found)
{
	struct block_found *blocks = NULL;
	struct maps maps;
	size_t n = 0;
	int err = maps_read(ctx, memory_pid(memory), &maps);

	*found = (struct trampolines){ 0 };
	if (err)
		return err;
	err = blocks_find(ctx, memory, &maps, &blocks, &n);
	for (size_t i = 0; !err && i < n; i++) {
		struct block_reader block = { .ctx = ctx,
					      .memory = memory,
					      .header = &blocks[i].header };

		if (blocks[i].is_gone)
			err = -EFAULT;
		else if (blocks[i].is_complete)
			err = read_block(&block, found);
	}
	free(blocks);
	maps_free(&maps);
	return err;
}

int trampolines_read(struct ocp_ctx *ctx, const struct memory *memory, struct trampolines *found)
{
	int err = read_blocks_once(ctx, memory, found);

	for (int i = 1; err == -EFAULT && i < TRIES; i++) {
		trampolines_free(found);
		err = read_blocks_once(ctx, memory, found);
	}
	/*
	 * If the process has made an exec, the mappings may be those of the new program: check
	 * this.
	 */
	if (!err)
		err = memory_check_alive(memory);
	if (err)
		trampolines_free(found);
	else if (found->n)
		qsort(found->list, found->n, sizeof(*found->list), compare_trampolines);
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
		if (compare_trampolines(&a->list[i], &b->list[i]) != 0 ||
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
	return bsearch(&wanted, trampolines->list, trampolines->n, sizeof(wanted),
		       compare_trampolines);
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
