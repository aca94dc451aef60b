// SPDX-License-Identifier: MIT
#include "unwind/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code/frametable.h"
#include "elf/eh_frame.h"

enum { MAX_ROWS = 1 << 25, RULES_ROOM = WALK_MAX_RULES, SLOTS = 2 * RULES_ROOM };

struct builder {
	struct ocp_ctx *ctx;
	const char *name;
	struct unwind_table *table;
	size_t rows_room;
	uint32_t *slots; /* of a hash table: rule numbers + 1 */
};

/* ---- rules ---------------------------------------------------------------------------------- */

static size_t hash_of(const struct walk_rule *rule)
{
	const unsigned char *bytes = (const void *)rule;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*rule); i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return (size_t)(hash ^ hash >> 32);
}

/* The number of RULE, which is added if it is new. A table that has too many of them is damaged. */
static int intern(struct builder *b, const struct walk_rule *rule, uint32_t *number)
{
	struct unwind_table *t = b->table;
	size_t slot = hash_of(rule) % SLOTS;

	for (; b->slots[slot]; slot = (slot + 1) % SLOTS) {
		*number = b->slots[slot] - 1;
		if (memcmp(&t->rules[*number], rule, sizeof(*rule)) == 0)
			return 0;
	}
	if (t->n_rules == RULES_ROOM)
		return ctx_error(b->ctx, -EBADMSG,
				 "%s: more than %d different rules in the call frame information",
				 b->name, RULES_ROOM);
	*number = (uint32_t)t->n_rules++;
	t->rules[*number] = *rule;
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

static uint8_t place_of(uint8_t saved)
{
	static const uint8_t places[] = {
		[SAVED_SAME] = WALK_SAME,	  [SAVED_AT_CFA] = WALK_AT_CFA,
		[SAVED_AT_RSP] = WALK_AT_RSP,	  [SAVED_AT_RBP] = WALK_AT_RBP,
		[SAVED_UNDEFINED] = WALK_NOWHERE, [SAVED_UNKNOWN] = WALK_NOWHERE,
	};

	return places[saved];
}

/* A rule that the walker can follow; all zero if there is none. */
static struct walk_rule rule_of(const struct cfi_rule *cfi)
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
	rule.flags = cfi->is_signal ? WALK_SIGNAL : 0;
	memcpy(rule.add, cfi->add, sizeof(rule.add));
	rule.rip_at = place_of(cfi->saved[KEPT_RIP]);
	rule.rip_off = cfi->off[KEPT_RIP];
	/* The first six of enum cfi_kept and of enum walk_register are the same. */
	for (int i = 0; i < WALK_SAVED; i++) {
		rule.at[i] = place_of(cfi->saved[i]);
		rule.off[i] = cfi->off[i];
		rule.n_moved += rule.at[i] != WALK_SAME;
	}
	return rule;
}

static int add_row(struct builder *b, uint64_t va, uint32_t number)
{
	struct unwind_table *t = b->table;
	void *rows;

	if (va > UINT32_MAX || t->n == MAX_ROWS)
		return ctx_error(b->ctx, -EBADMSG, "%s: code at %#llx is beyond the limit of %s",
				 b->name, (unsigned long long)va,
				 va > UINT32_MAX ? "4 GB"
						 : "33554432 rows of call frame information");
	if (t->n && t->rows[t->n - 1].rule == number)
		return 0;
	if (t->n == b->rows_room) {
		b->rows_room = b->rows_room ? 2 * b->rows_room : 4096;
		rows = reallocarray(t->rows, b->rows_room, sizeof(*t->rows));
		if (!rows)
			return ctx_no_memory(b->ctx);
		t->rows = rows;
	}
	t->rows[t->n++] = (struct walk_row){ (uint32_t)va, number };
	return 0;
}

static int add_cfi_row(void *data, uint64_t va, const struct cfi_rule *cfi)
{
	struct builder *b = data;
	const struct walk_rule rule = rule_of(cfi);
	uint32_t number;
	int err = intern(b, &rule, &number);

	return err ? err : add_row(b, va, number);
}

/* ---- from the frame table ------------------------------------------------------------------- */

/*
 * The frame table is right where both tell the size of an OCaml frame: the call frame information
 * of OCaml 4 and 5 is wrong at calls of the collector inside `try`. Other rules, as those of OCaml
 * 5 where it changes the stack, stay.
 */
static bool is_plain(const struct walk_rule *rule)
{
	return rule->cfa == WALK_CFA_REGISTER && rule->reg == WALK_RSP && !rule->n_moved &&
	       !rule->flags;
}

static struct walk_rule plain_rule(uint32_t frame_bytes)
{
	struct walk_rule rule = {
		.cfa = WALK_CFA_REGISTER, .reg = WALK_RSP, .rip_at = WALK_AT_CFA, .rip_off = -8
	};

	rule.add[0] = (int32_t)frame_bytes;
	return rule;
}

/* A call at which the frame table says something else, and so the rule of its last byte. */
struct correction {
	uint32_t va, rule;
};

static int find_corrections(struct builder *b, const struct frametable *frames,
			    struct correction *corrections, size_t *n)
{
	size_t n_descrs, row = 0;
	const struct frame_descr *descrs = frametable_list(frames, &n_descrs);
	const struct unwind_table *t = b->table;
	int err = 0;

	for (size_t i = 0; i < n_descrs && !err; i++) {
		const uint64_t call = descrs[i].va - 1;
		struct walk_rule rule;
		uint32_t number;

		if (descrs[i].is_chunk_end || call >= UINT32_MAX)
			continue;
		while (row + 1 < t->n && t->rows[row + 1].va <= call)
			row++;
		if (!t->n || t->rows[row].va > call)
			continue;
		number = t->rows[row].rule;
		if (number && (!is_plain(&t->rules[number]) ||
			       t->rules[number].add[0] == (int32_t)descrs[i].frame_bytes))
			continue;
		rule = plain_rule(descrs[i].frame_bytes);
		err = intern(b, &rule, &number);
		corrections[(*n)++] = (struct correction){ (uint32_t)call, number };
	}
	return err;
}

/* Put the corrections into the rows: each holds for one byte, and the former rule goes on behind it. */
static int insert_corrections(struct builder *b, const struct correction *corrections, size_t n)
{
	struct unwind_table *t = b->table;
	struct walk_row *old = t->rows;
	const size_t n_old = t->n;
	size_t c = 0;
	int err = 0;

	t->rows = NULL;
	t->n = 0;
	b->rows_room = 0;
	for (size_t i = 0; i < n_old && !err; i++) {
		const uint64_t end = i + 1 < n_old ? old[i + 1].va : UINT64_MAX;

		err = add_row(b, old[i].va, old[i].rule);
		for (; c < n && corrections[c].va < end && !err; c++) {
			err = add_row(b, corrections[c].va, corrections[c].rule);
			if (!err && corrections[c].va + 1 < end)
				err = add_row(b, (uint64_t)corrections[c].va + 1, old[i].rule);
		}
	}
	t->n_corrected = c;
	free(old);
	return err;
}

static int correct(struct builder *b, struct elf_file *elf)
{
	struct frametable *frames;
	struct correction *corrections;
	size_t n_descrs, n = 0;
	int err = frametable_read(b->ctx, elf, &frames);

	if (err == -ENODATA) /* not an OCaml program */
		return 0;
	if (err)
		return err;
	frametable_list(frames, &n_descrs);
	corrections = calloc(n_descrs + 1, sizeof(*corrections));
	err = corrections ? find_corrections(b, frames, corrections, &n) : ctx_no_memory(b->ctx);
	if (!err && n)
		err = insert_corrections(b, corrections, n);
	free(corrections);
	frametable_free(frames);
	return err;
}

/* ---- the table ------------------------------------------------------------------------------ */

int unwind_table_read(struct ocp_ctx *ctx, struct elf_file *elf, struct unwind_table **out)
{
	struct builder b = { .ctx = ctx, .name = elf_file_name(elf) };
	const struct walk_rule unknown = { 0 };
	uint32_t number;
	int err;

	*out = NULL;
	b.table = calloc(1, sizeof(*b.table));
	b.slots = calloc(SLOTS, sizeof(*b.slots));
	if (b.table)
		b.table->rules = calloc(RULES_ROOM, sizeof(*b.table->rules));
	if (!b.table || !b.slots || !b.table->rules) {
		err = ctx_no_memory(ctx);
	} else {
		err = intern(&b, &unknown, &number);
		if (!err)
			err = eh_frame_read(ctx, elf, add_cfi_row, &b);
		if (!err)
			err = correct(&b, elf);
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
	size_t low = 0, high = table->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (table->rows[middle].va <= va)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? table->rows[low - 1].rule : 0;
}
