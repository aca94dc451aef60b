// SPDX-License-Identifier: MIT
/*
 * Find the candidates of an IFUNC: the functions that its resolver may choose. The code of the
 * resolver loads the addresses of all candidates (lea, or a constant in a program at a fixed
 * address), moves some of these addresses between registers, and returns one of them. Which one it
 * returns depends on the processor and on GLIBC_TUNABLES. A uprobe on each candidate counts the
 * chosen one, in running and in future processes.
 *
 * This is sound only if the resolver can return nothing but the address of a candidate. So for each
 * instruction, compute the registers that may hold something other than such an address. If rax is
 * one of these registers at a return, the candidates are unknown. .eh_frame shows whether an
 * address is that of a function. The symbols do not show it, since the candidates are local
 * functions, whose symbols stripped libraries lack.
 */
#include "code/ifunc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "code/code_flow.h"
#include "elf/eh_frame.h"

enum {
	MAX_EXTENTS = 1 << 21,
	MAX_BYTES = 1024, /* limit for a resolver; the resolvers of glibc have up to 300 */
	/*
	 * limit for the passes over the instructions of a resolver, since the file may be hostile
	 */
	MAX_PASSES = 32,
	RAX = 0,
	ALL_REGISTERS = 0xffff,
	/* The registers that a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11. */
	CALL_CHANGES = 0x0fc7,
};

struct ifuncs {
	struct ifunc_choice *list; /* sorted by va */
	size_t n;
	struct ocp_ctx *ctx;
	struct elf_file *elf; /* set only while the file is read */
};

/* ---- the functions of the file -------------------------------------------------------------- */

static int add_executable_function(void *data, uint64_t va, uint64_t bytes)
{
	struct ifuncs *ifuncs = data;
	const struct elf_segment *segment = elf_file_segment_of(ifuncs->elf, va, bytes);
	struct ifunc_choice *new;

	if (!segment || !segment->executable || !bytes)
		return 0;
	if (ifuncs->n == MAX_EXTENTS)
		return ctx_error(ifuncs->ctx, -EBADMSG, "%s: has more than %d functions",
				 elf_file_name(ifuncs->elf), MAX_EXTENTS);
	new = array_add(ifuncs->list, ifuncs->n);
	if (!new)
		return ctx_no_memory(ifuncs->ctx);
	*new = (struct ifunc_choice){ va, bytes };
	return 0;
}

static int compare_extents(const void *a, const void *b)
{
	const struct ifunc_choice *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

int ifuncs_read(struct ocp_ctx *ctx, struct elf_file *elf, struct ifuncs **out)
{
	struct ifuncs *ifuncs = calloc(1, sizeof(*ifuncs));
	int err;

	*out = NULL;
	if (!ifuncs)
		return ctx_no_memory(ctx);
	ifuncs->ctx = ctx;
	ifuncs->elf = elf;
	err = eh_frame_each_function(ctx, elf, add_executable_function, ifuncs);
	ifuncs->elf = NULL;
	if (err) {
		ifuncs_free(ifuncs);
		return err;
	}
	if (ifuncs->n)
		qsort(ifuncs->list, ifuncs->n, sizeof(*ifuncs->list), compare_extents);
	*out = ifuncs;
	return 0;
}

void ifuncs_free(struct ifuncs *ifuncs)
{
	if (!ifuncs)
		return;
	free(ifuncs->list);
	free(ifuncs);
}

static const struct ifunc_choice *function_of(const struct ifuncs *ifuncs, uint64_t va)
{
	const struct ifunc_choice key = { .va = va };

	return ifuncs->n ? bsearch(&key, ifuncs->list, ifuncs->n, sizeof(key), compare_extents)
			 : NULL;
}

/* ---- the choices ---------------------------------------------------------------------------- */

struct chooser {
	const struct ifuncs *ifuncs;
	const struct code_flow *flow;
	/*
	 * For each instruction: the registers that, before the instruction, possibly hold something
	 * other than a candidate's address.
	 */
	uint16_t *unknown;
	bool *is_reached;
	bool has_changed, is_lost; /* is_lost: the choices are not known */
	struct ifunc_choice *list;
	size_t n;
};

/*
 * Return the candidate whose address instruction I loads, and set *REG to the register that gets
 * this address; NULL if I loads no address of a function.
 */
static const struct ifunc_choice *loaded_by(const struct chooser *c, size_t i, unsigned int *reg)
{
	const struct insn *insn = &c->flow->insns[i];
	const uint8_t *bytes = code_flow_bytes(c->flow, i);
	uint64_t va;

	if (insn->kind == INSN_LEA_RIP) {
		*reg = insn->reg;
		return function_of(c->ifuncs, c->flow->code.va + (uint64_t)insn->value);
	}
	return insn->kind == INSN_OTHER &&
			       insn_is_constant(&c->flow->decoder, bytes, insn->n_bytes, reg, &va)
		       ? function_of(c->ifuncs, va)
		       : NULL;
}

/*
 * Return the registers that, after instruction I, possibly hold something other than a candidate's
 * address.
 */
static uint16_t unknown_after(const struct chooser *c, size_t i)
{
	const struct insn *insn = &c->flow->insns[i];
	const uint8_t *bytes = code_flow_bytes(c->flow, i);
	uint16_t unknown = c->unknown[i];
	unsigned int to, from;
	bool is_conditional, is_known;

	if (code_flow_is_call(insn))
		return unknown | CALL_CHANGES;
	if (loaded_by(c, i, &to))
		return (uint16_t)(unknown & ~(1U << to));
	if (insn_is_copy(&c->flow->decoder, bytes, insn->n_bytes, &to, &from, &is_conditional)) {
		is_known = !(unknown & 1U << from) && !(is_conditional && (unknown & 1U << to));
		return (uint16_t)((unknown & ~(1U << to)) | (is_known ? 0 : 1U << to));
	}
	for (to = 0; to < 16; to++)
		if (!(unknown & 1U << to) &&
		    insn_writes(&c->flow->decoder, bytes, insn->n_bytes, to))
			unknown = (uint16_t)(unknown | 1U << to);
	return unknown;
}

static void reach(struct chooser *c, size_t i, uint16_t unknown)
{
	if (i >= c->flow->n_insns) {
		c->is_lost = true;
		return;
	}
	c->has_changed |= !c->is_reached[i] || (unknown & ~c->unknown[i]);
	c->is_reached[i] = true;
	c->unknown[i] |= unknown;
}

static void follow_insn(struct chooser *c, size_t i)
{
	const struct insn *insn = &c->flow->insns[i];
	const uint16_t unknown = unknown_after(c, i);
	uint32_t target;

	switch (insn->kind) {
	case INSN_JCC:
	case INSN_JMP:
		if (code_flow_find(c->flow, insn->value, &target))
			reach(c, target, unknown);
		else
			c->is_lost = true;
		break;
	case INSN_RET:
		c->is_lost |= unknown & 1U << RAX;
		break;
	case INSN_TRAP:
		break;
	default:
		c->is_lost |= !code_flow_goes_on(insn);
	}
	if (code_flow_goes_on(insn))
		reach(c, i + 1, unknown);
}

static void add_choice(struct chooser *c, const struct ifunc_choice *choice)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->list[i].va == choice->va)
			return;
	if (c->n == IFUNC_CHOICES)
		c->is_lost = true;
	else
		c->list[c->n++] = *choice;
}

static void find_choices(struct chooser *c)
{
	unsigned int reg;

	reach(c, 0, ALL_REGISTERS);
	for (int pass = 0; c->has_changed && !c->is_lost; pass++) {
		c->has_changed = false;
		c->is_lost = pass == MAX_PASSES;
		for (size_t i = 0; i < c->flow->n_insns; i++)
			if (c->is_reached[i])
				follow_insn(c, i);
	}
	for (size_t i = 0; i < c->flow->n_insns; i++) {
		const struct ifunc_choice *choice = c->is_reached[i] ? loaded_by(c, i, &reg) : NULL;

		if (choice)
			add_choice(c, choice);
	}
}

int ifuncs_choices(struct ocp_ctx *ctx, const struct ifuncs *ifuncs, struct code_file *file,
		   const struct function *function, struct ifunc_choice list[IFUNC_CHOICES],
		   size_t *n)
{
	struct code_flow *flow = code_file_flow(file);
	struct chooser c = { .ifuncs = ifuncs, .flow = flow, .list = list };
	struct code_bytes bytes;
	int err;

	*n = 0;
	if (!function->bytes || function->bytes > MAX_BYTES ||
	    code_file_bytes(file, true, function->va, function->bytes, &bytes))
		return 0;
	if (code_flow_read(flow, &bytes, file))
		return ctx_no_memory(ctx);
	if (!flow->is_decoded || !flow->n_insns)
		return 0;
	c.unknown = calloc(flow->n_insns, sizeof(*c.unknown));
	c.is_reached = calloc(flow->n_insns, sizeof(*c.is_reached));
	err = c.unknown && c.is_reached ? 0 : ctx_no_memory(ctx);
	if (!err)
		find_choices(&c);
	free(c.unknown);
	free(c.is_reached);
	*n = err || c.is_lost ? 0 : c.n;
	return err;
}
