// SPDX-License-Identifier: MIT
#include "unwind/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/search.h"
#include "code/frametable.h"
#include "code/runtime.h"
#include "elf/eh_frame.h"
#include "unwind/runtime_code.h"

enum { MAX_ROWS = 1 << 25, RULES_ROOM = WALK_MAX_RULES, SLOTS = 2 * RULES_ROOM };

/*
 * Offsets in OCaml 5, in bytes. STATE_STACK and STATE_C_STACK are offsets in the state of a domain,
 * LINK_SP is an offset in a link of C's stack. START_C_STACK is an offset from rsp in
 * caml_start_program, PARENT from rsp in caml_runstack. C_STACK_FRAME is the number of bytes that
 * caml_start_program leaves on C's stack.
 */
enum { STATE_STACK = 40, STATE_C_STACK = 64, LINK_SP = 8, START_C_STACK = 16, PARENT = 16 + 24 };
enum { C_STACK_FRAME = 80 };

struct unwind_builder {
	struct ocp_ctx *ctx;
	const char *name;
	struct unwind_table *table;
	uint32_t *slots; /* a hash table of rule numbers + 1; 0: free */
	/*
	 * The offset of the local roots in the state of a domain, in words. 0: not known. Then a
	 * stack ends where C has called OCaml, since the rest of the stack is in the local roots.
	 */
	uint8_t roots_at;
	/* The most recent row is of code behind a switch of __builtin_eh_return(): see below. */
	bool has_switched;
};

/* ---- rules ---------------------------------------------------------------------------------- */

static size_t hash_of(const struct walk_rule *rule)
{
	uint32_t words[sizeof(*rule) / sizeof(uint32_t)];
	uint64_t hash = HASH_START;

	memcpy(words, rule, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		hash = hash_word(hash, words[i]);
	return (size_t)hash;
}

/*
 * Set *NUMBER to the number of RULE; add RULE if the table lacks it. Report a table with too many
 * rules as damaged.
 */
static int intern(struct unwind_builder *b, const struct walk_rule *rule, uint32_t *number)
{
	struct unwind_table *t = b->table;
	size_t slot = hash_of(rule) % SLOTS;
	struct walk_rule *new;

	for (; b->slots[slot]; slot = (slot + 1) % SLOTS) {
		*number = b->slots[slot] - 1;
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): rules exist */
		if (memcmp(&t->rules[*number], rule, sizeof(*rule)) == 0)
			return 0;
	}
	if (t->n_rules == RULES_ROOM)
		return ctx_error(b->ctx, -EBADMSG,
				 "%s: more than %d different rules in the call frame information",
				 b->name, RULES_ROOM);
	new = array_add(t->rules, t->n_rules);
	if (!new)
		return ctx_no_memory(b->ctx);
	*new = *rule;
	*number = (uint32_t)(new - t->rules);
	b->slots[slot] = *number + 1;
	return 0;
}

/* ---- from the call frame information -------------------------------------------------------- */

static int walk_register_of(uint8_t reg)
{
	switch (reg) {
	case CFI_RBX:
		return WALK_RBX;
	case CFI_RBP:
		return WALK_RBP;
	case CFI_RSP:
		return WALK_RSP;
	case CFI_R12:
		return WALK_R12;
	case CFI_R13:
		return WALK_R13;
	case CFI_R14:
		return WALK_R14;
	case CFI_R15:
		return WALK_R15;
	default:
		return -1;
	}
}

static uint8_t walk_place_of(uint8_t saved)
{
	static const uint8_t places[] = {
		[SAVED_SAME] = WALK_SAME,	  [SAVED_AT_CFA] = WALK_AT_CFA,
		[SAVED_AT_RSP] = WALK_AT_RSP,	  [SAVED_AT_RBP] = WALK_AT_RBP,
		[SAVED_UNDEFINED] = WALK_NOWHERE, [SAVED_UNKNOWN] = WALK_NOWHERE,
	};

	return places[saved];
}

/*
 * Return true if CFI is the rule for OCaml 5's caml_start_program in the part that runs on a stack
 * of OCaml.
 */
static bool is_callback(const struct cfi_rule *cfi)
{
	return cfi->cfa == CFA_LOAD && cfi->reg == CFI_RSP && cfi->add[0] == START_C_STACK &&
	       cfi->add[1] == C_STACK_FRAME;
}

/*
 * Convert CFI to a rule that the walker can follow; return a rule that is all zero if this is
 * impossible.
 */
static struct walk_rule rule_of(const struct unwind_builder *b, const struct cfi_rule *cfi)
{
	static const uint8_t kinds[] = {
		[CFA_UNKNOWN] = WALK_CFA_UNKNOWN, [CFA_REGISTER] = WALK_CFA_REGISTER,
		[CFA_LOAD] = WALK_CFA_LOAD,	  [CFA_LOAD_2] = WALK_CFA_LOAD_2,
		[CFA_PLT] = WALK_CFA_PLT,
	};
	struct walk_rule rule = { .cfa = kinds[cfi->cfa] };
	const int reg = walk_register_of(cfi->reg);

	if (cfi->saved[KEPT_RIP] == SAVED_UNDEFINED) {
		memset(&rule, 0, sizeof(rule));
		rule.flags = WALK_OUTERMOST;
		return rule;
	}
	if (rule.cfa == WALK_CFA_UNKNOWN || reg < 0)
		return (struct walk_rule){ 0 };
	rule.reg = (uint8_t)reg;
	memcpy(rule.add, cfi->add, sizeof(rule.add));
	rule.rip_at = walk_place_of(cfi->saved[KEPT_RIP]);
	/*
	 * OCaml 5 also marks functions of its runtime as signal frames, although they have ordinary
	 * return addresses.
	 */
	rule.flags = cfi->is_signal && rule.rip_at != WALK_AT_CFA ? WALK_SIGNAL : 0;
	if (is_callback(cfi) && !b->roots_at)
		return (struct walk_rule){ 0 };
	if (is_callback(cfi)) {
		rule.flags |= WALK_CALLBACK;
		rule.roots_at = b->roots_at;
	}
	rule.rip_off = cfi->off[KEPT_RIP];
	/*
	 * The first six values of enum cfi_kept and of enum walk_register mean the same registers.
	 */
	for (int i = 0; i < WALK_SAVED; i++) {
		rule.at[i] = walk_place_of(cfi->saved[i]);
		rule.off[i] = cfi->off[i];
		rule.n_moved += rule.at[i] != WALK_SAME;
	}
	return rule;
}

static int add_row(struct unwind_builder *b, uint64_t va, uint32_t number)
{
	struct unwind_table *t = b->table;
	struct walk_row *new;

	if (va > UINT32_MAX || t->n == MAX_ROWS)
		return ctx_error(b->ctx, -EBADMSG, "%s: code at %#llx is beyond the limit of %s",
				 b->name, (unsigned long long)va,
				 va > UINT32_MAX ? "4 GB"
						 : "33554432 rows of call frame information");
	if (t->n && t->rows[t->n - 1].rule == number)
		return 0;
	new = array_add(t->rows, t->n);
	if (!new)
		return ctx_no_memory(b->ctx);
	*new = (struct walk_row){ (uint32_t)va, number };
	return 0;
}

/*
 * The end of _Unwind_Resume() and similar functions of libgcc (__builtin_eh_return()) restores the
 * registers, moves rcx, the CFA minus 8, to rsp, and jumps. The call frame information of GCC still
 * says behind this move that the registers are saved below the CFA, but that is the old CFA.
 * Return true if CFI is about such code.
 */
static bool has_switched_stack(const struct unwind_builder *b, const struct cfi_rule *cfi)
{
	bool has_saved = false;

	for (int i = 0; i < WALK_SAVED; i++)
		has_saved |= cfi->saved[i] != SAVED_SAME;
	if (cfi->cfa != CFA_REGISTER || !has_saved)
		return false;
	return cfi->reg == CFI_RCX || (cfi->reg == CFI_RSP && b->has_switched);
}

static int add_cfi_row(void *data, uint64_t va, const struct cfi_rule *cfi)
{
	struct unwind_builder *b = data;
	struct cfi_rule real = *cfi;
	struct walk_rule rule;
	uint32_t number;
	int err;

	b->has_switched = has_switched_stack(b, cfi);
	for (int i = 0; b->has_switched && i < WALK_SAVED; i++)
		real.saved[i] = SAVED_SAME;
	rule = rule_of(b, &real);
	err = intern(b, &rule, &number);
	return err ? err : add_row(b, va, number);
}

/* ---- corrections ---------------------------------------------------------------------------- */

/*
 * At the addresses `from` to `to` - 1, rule number `rule` replaces the rule of the call frame
 * information.
 */
struct correction {
	uint32_t from, to, rule;
};

struct corrections {
	struct unwind_builder *b;
	struct correction *list;
	size_t n;
};

static int add_correction(struct corrections *c, uint64_t from, uint64_t to,
			  const struct walk_rule *rule)
{
	struct correction correction = { .from = (uint32_t)from, .to = (uint32_t)to }, *new;
	int err;

	if (to > UINT32_MAX)
		return 0; /* there are no rows beyond this limit */
	err = intern(c->b, rule, &correction.rule);
	if (err)
		return err;
	new = array_add(c->list, c->n);
	if (!new)
		return ctx_no_memory(c->b->ctx);
	*new = correction;
	return 0;
}

static struct walk_rule plain_rule(uint8_t reg, uint32_t add)
{
	struct walk_rule rule = {
		.cfa = WALK_CFA_REGISTER, .reg = reg, .rip_at = WALK_AT_CFA, .rip_off = -8
	};

	rule.add[0] = (int32_t)add;
	return rule;
}

/*
 * Return true if RULE only adds the size of a frame to rsp, as the rules of OCaml functions do.
 * Only such rules are corrected. If the frame table has a different size, RULE is wrong and the
 * frame table is right: OCaml 4 and 5 write wrong call frame information for calls of the collector
 * inside `try`. All other rules, for example in OCaml 5 code that switches stacks, stay as they
 * are.
 */
static bool only_adds_frame_size(const struct walk_rule *rule)
{
	return rule->cfa == WALK_CFA_REGISTER && rule->reg == WALK_RSP && !rule->n_moved &&
	       !rule->flags;
}

/*
 * Opcodes of x86-64. After CALL and JUMP there is a distance of four bytes, after SHORT_JUMP a
 * distance of one byte.
 */
enum { CALL = 0xe8, JUMP = 0xe9, SHORT_JUMP = 0xeb, CALL_BYTES = 5, SHORT_BYTES = 2 };

/*
 * Set *FROM and *TO (exclusive) to the bounds of the instructions that have the frame of DESCR: the
 * call and, after a call of the collector, a jump. If the call is not a direct call (CALL), the
 * bounds contain only the last byte before the return address.
 */
static void find_call(const struct elf_file *elf, const struct frame_descr *descr, uint64_t *from,
		      uint64_t *to)
{
	const uint64_t first = descr->va - CALL_BYTES;
	uint8_t code[CALL_BYTES + 1];
	uint64_t off;

	*from = descr->va - 1;
	*to = descr->va;
	if (!elf_file_va_to_off(elf, first, &off) ||
	    elf_file_read(elf, off, code, sizeof(code)) != 0 || code[0] != CALL)
		return;
	*from = first;
	if (descr->collects && code[CALL_BYTES] == JUMP)
		*to += CALL_BYTES;
	else if (descr->collects && code[CALL_BYTES] == SHORT_JUMP)
		*to += SHORT_BYTES;
}

/*
 * For each call in the frame table, correct the rule if the call frame information has a different
 * frame size, or no rule.
 */
static int correct_by_frames(struct corrections *c, const struct elf_file *elf,
			     const struct frametable *frames)
{
	size_t n, row = 0;
	const struct frame_descr *descrs = frametable_list(frames, &n);
	const struct unwind_table *t = c->b->table;
	int err = 0;

	for (size_t i = 0; i < n && t->n && !err; i++) {
		const uint64_t call = descrs[i].va - 1;
		const struct walk_rule *rule;
		struct walk_rule right;
		uint64_t from, to;

		while (row + 1 < t->n && t->rows[row + 1].va <= call)
			row++;
		rule = &t->rules[t->rows[row].rule];
		if (descrs[i].is_chunk_end || t->rows[row].va > call ||
		    (t->rows[row].rule && (!only_adds_frame_size(rule) ||
					   rule->add[0] == (int32_t)descrs[i].frame_bytes)))
			continue;
		right = plain_rule(WALK_RSP, descrs[i].frame_bytes);
		find_call(elf, &descrs[i], &from, &to);
		err = add_correction(c, from, to, &right);
	}
	return err;
}

static struct walk_rule load_rule(uint8_t reg, int32_t off, int32_t add)
{
	struct walk_rule rule = plain_rule(reg, (uint32_t)off);

	rule.cfa = WALK_CFA_LOAD;
	rule.add[1] = add;
	return rule;
}

/*
 * Return the rule of a CFA that is 8 above the stack pointer of an OCaml stack. A pointer to that
 * stack is at OFF from REG, and the stack pointer is the first member of the stack.
 */
static struct walk_rule load_twice_rule(uint8_t reg, int32_t off)
{
	struct walk_rule rule = load_rule(reg, off, 0);

	rule.cfa = WALK_CFA_LOAD_2;
	rule.add[2] = 8;
	return rule;
}

static struct walk_rule rule_of_code(const struct unwind_builder *b, const struct code_place *place)
{
	const struct unwind_table *t = b->table;
	struct walk_rule rule = t->rules[unwind_table_find(t, place->like)];

	switch (place->frame) {
	case CODE_FRAME_LEFT:
		return (struct walk_rule){ 0 };
	case CODE_FRAME_AT_RSP:
		return plain_rule(WALK_RSP, 0);
	case CODE_FRAME_RSP_8:
		return plain_rule(WALK_RSP, 8);
	case CODE_FRAME_RSP_16:
	case CODE_FRAME_ARGUMENT:
		return plain_rule(WALK_RSP, 16);
	case CODE_FRAME_R13_8:
		return plain_rule(WALK_R13, 8);
	case CODE_FRAME_LIKE:
		break;
	case CODE_FRAME_OF_C_STACK:
		if (!b->roots_at)
			return (struct walk_rule){ 0 };
		rule.cfa = WALK_CFA_LOAD;
		rule.reg = WALK_R14;
		rule.add[0] = STATE_C_STACK;
		rule.add[1] = C_STACK_FRAME;
		rule.flags |= WALK_CALLBACK;
		rule.roots_at = b->roots_at;
		break;
	case CODE_FRAME_OF_PARENT:
		return load_twice_rule(WALK_RSP, PARENT);
	case CODE_FRAME_OF_CURRENT:
		return load_twice_rule(WALK_R14, STATE_STACK);
	case CODE_FRAME_OF_LINK:
		return load_rule(WALK_RBX, LINK_SP, 8);
	}
	return rule;
}

static int correct_by_code(void *data, const struct code_place *place)
{
	struct corrections *c = data;
	const struct walk_rule rule = rule_of_code(c->b, place);
	const struct walk_rule beside = plain_rule(WALK_RSP, 8);
	int err = add_correction(c, place->from, place->to, &rule);

	if (place->frame != CODE_FRAME_ARGUMENT || err)
		return err;
	err = add_correction(c, place->like, place->from, &beside);
	return err ? err : add_correction(c, place->to, place->to + 1, &beside);
}

static int compare_corrections(const void *a, const void *b)
{
	const struct correction *x = a, *y = b;

	if (x->from != y->from)
		return COMPARE(x->from, y->from);
	return COMPARE(y->to, x->to);
}

/* Merge the corrections into the rows. Leave out a correction that begins inside another one. */
static int apply(struct unwind_builder *b, const struct corrections *c)
{
	struct unwind_table *t = b->table;
	struct walk_row *old = t->rows;
	const size_t n_old = t->n;
	uint64_t end = 0; /* the end of the correction that was merged last */
	size_t row = 0;
	int err = 0;

	t->rows = NULL;
	t->n = 0;
	for (size_t i = 0; i < c->n && !err; i++) {
		const struct correction *next = &c->list[i];

		if (next->from < end)
			continue;
		for (; row < n_old && old[row].va <= next->from && !err; row++)
			err = add_row(b, old[row].va, old[row].rule);
		if (!err)
			err = add_row(b, next->from, next->rule);
		end = next->to;
		while (row < n_old && old[row].va <= end)
			row++;
		if (!err && row)
			err = add_row(b, end, old[row - 1].rule);
		t->n_corrected++;
	}
	for (; row < n_old && !err; row++)
		err = add_row(b, old[row].va, old[row].rule);
	free(old);
	return err;
}

static int correct_rules(struct unwind_builder *b, struct elf_file *elf)
{
	struct corrections c = { .b = b };
	struct frametable *frames;
	int err = frametable_read(b->ctx, elf, &frames);

	if (err == -ENODATA) /* ELF is not an OCaml program: there is nothing to correct */
		return 0;
	if (err)
		return err;
	err = correct_by_frames(&c, elf, frames);
	if (!err)
		err = runtime_code_find(b->ctx, elf, correct_by_code, &c);
	if (!err && c.n) {
		qsort(c.list, c.n, sizeof(*c.list), compare_corrections);
		err = apply(b, &c);
	}
	free(c.list);
	frametable_free(frames);
	return err;
}

/* ---- the table ------------------------------------------------------------------------------ */

int unwind_table_read(struct ocp_ctx *ctx, struct elf_file *elf, struct unwind_table **out)
{
	struct unwind_builder b = { .ctx = ctx, .name = elf_file_name(elf) };
	const struct walk_rule unknown = { 0 };
	uint16_t roots;
	uint32_t number;
	int err = runtime_local_roots(ctx, elf, &roots);

	*out = NULL;
	if (err)
		return err;
	b.roots_at = (uint8_t)(roots / sizeof(uint64_t));
	b.table = calloc(1, sizeof(*b.table));
	b.slots = calloc(SLOTS, sizeof(*b.slots));
	if (!b.table || !b.slots) {
		err = ctx_no_memory(ctx);
	} else {
		err = intern(&b, &unknown, &number);
		if (!err)
			err = eh_frame_read(ctx, elf, add_cfi_row, &b);
		if (!err)
			err = correct_rules(&b, elf);
	}
	free(b.slots);
	if (err)
		unwind_table_free(b.table);
	else
		*out = b.table;
	return err;
}

void unwind_table_free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table->rules);
	free(table);
}

size_t unwind_table_find(const struct unwind_table *table, uint64_t va)
{
	const size_t next = SEARCH(i, table->n, table->rows[i].va <= va);

	return next ? table->rows[next - 1].rule : 0;
}
