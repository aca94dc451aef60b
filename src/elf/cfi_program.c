// SPDX-License-Identifier: MIT
/*
 * An interpreter for the instructions of call frame information. DWARF 5 describes the opcodes in
 * section 6.4.2, and the operators of expressions in section 2.5.
 */
#include "elf/cfi_program.h"

#include <dwarf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { MAX_REMEMBERED = 32 };

struct machine {
	const struct cfi_common *common;
	struct cfi_rule rule, initial, shown;
	size_t n_remembered;
	bool is_damaged, has_shown;
	uint64_t va, end;
	cfi_row_fn fn;
	void *data;
	struct cfi_rule remembered[MAX_REMEMBERED]; /* the last member, see cfi_program_run() */
};

/* ---- registers ------------------------------------------------------------------------------ */

static int kept_index(uint64_t reg)
{
	switch (reg) {
	case CFI_RBX:
		return KEPT_RBX;
	case CFI_RBP:
		return KEPT_RBP;
	case CFI_R12:
		return KEPT_R12;
	case CFI_R13:
		return KEPT_R13;
	case CFI_R14:
		return KEPT_R14;
	case CFI_R15:
		return KEPT_R15;
	case CFI_RIP:
		return KEPT_RIP;
	default:
		return -1;
	}
}

static void save(struct machine *m, uint64_t reg, enum cfi_saved how, int64_t off)
{
	const int kept = kept_index(reg);

	if (kept < 0)
		return;
	if (off != (int32_t)off) {
		how = SAVED_UNKNOWN;
		off = 0;
	}
	m->rule.saved[kept] = (uint8_t)how;
	m->rule.off[kept] = (int32_t)off;
}

static void restore(struct machine *m, uint64_t reg)
{
	const int kept = kept_index(reg);

	if (kept < 0)
		return;
	m->rule.saved[kept] = m->initial.saved[kept];
	m->rule.off[kept] = m->initial.off[kept];
}

static void define_cfa(struct machine *m, enum cfi_cfa cfa, uint64_t reg, int64_t add)
{
	if (reg >= CFI_REGISTERS || add != (int32_t)add)
		cfa = CFA_UNKNOWN;
	m->rule.cfa = (uint8_t)cfa;
	memset(m->rule.add, 0, sizeof(m->rule.add));
	m->rule.reg = cfa == CFA_UNKNOWN ? 0 : (uint8_t)reg;
	m->rule.add[0] = cfa == CFA_UNKNOWN ? 0 : (int32_t)add;
}

/* ---- expressions ---------------------------------------------------------------------------- */

/* Read DW_OP_bregN and its offset. Return false if the expression does not begin with them. */
static bool read_base(struct cursor *c, uint64_t *reg, int64_t *off)
{
	const uint64_t op = cursor_unsigned(c, 1);

	if (op < DW_OP_breg0 || op >= DW_OP_breg0 + CFI_REGISTERS)
		return false;
	*reg = op - DW_OP_breg0;
	*off = cursor_sleb(c);
	return !c->has_failed;
}

/*
 * Return true if C is what follows DW_OP_bregN in the expression that binutils and lld write for
 * the procedure linkage table (PLT) of lazily bound functions. *FIRST_BYTE is then the value of
 * add[1] for CFA_PLT.
 */
static bool read_plt(struct cursor c, int32_t *first_byte)
{
	static const uint8_t before[] = { DW_OP_breg0 + CFI_RIP, 0, DW_OP_lit15, DW_OP_and };
	static const uint8_t after[] = { DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus };
	const uint8_t *bytes = cursor_bytes(&c, sizeof(before) + 1 + sizeof(after));

	if (!bytes || cursor_left(&c) || memcmp(bytes, before, sizeof(before)) != 0 ||
	    memcmp(bytes + sizeof(before) + 1, after, sizeof(after)) != 0)
		return false;
	*first_byte = bytes[sizeof(before)] - DW_OP_lit0;
	return *first_byte >= 0 && *first_byte < 16;
}

/*
 * Read at most two DW_OP_deref, and any number of DW_OP_plus_uconst with their operands, into RULE.
 * Return false if the expression has any other operator.
 */
static bool read_loads(struct cursor *c, struct cfi_rule *rule)
{
	static const uint8_t kinds[] = { CFA_REGISTER, CFA_LOAD, CFA_LOAD_2 };
	size_t n = 0;

	while (cursor_left(c)) {
		uint64_t add;

		switch (cursor_unsigned(c, 1)) {
		case DW_OP_deref:
			if (++n == sizeof(kinds))
				return false;
			break;
		case DW_OP_plus_uconst:
			add = cursor_uleb(c);
			if (add > INT32_MAX - (uint64_t)INT16_MAX || rule->add[n] < 0 ||
			    rule->add[n] > INT16_MAX)
				return false;
			rule->add[n] += (int32_t)add;
			break;
		default:
			return false;
		}
	}
	rule->cfa = kinds[n];
	return !c->has_failed;
}

static void define_cfa_by_expression(struct machine *m, struct cursor c)
{
	uint64_t reg = CFI_REGISTERS;
	int64_t off = 0;
	int32_t first_byte;

	if (!read_base(&c, &reg, &off)) {
		define_cfa(m, CFA_UNKNOWN, 0, 0);
	} else if (reg == CFI_RSP && read_plt(c, &first_byte)) {
		define_cfa(m, CFA_PLT, reg, off);
		m->rule.add[1] = first_byte;
	} else {
		define_cfa(m, CFA_REGISTER, reg, off);
		if (m->rule.cfa == CFA_UNKNOWN || !read_loads(&c, &m->rule))
			define_cfa(m, CFA_UNKNOWN, 0, 0);
	}
}

/*
 * Record where REG is saved: at an offset from rsp, as in the frame of a signal, or from rbp. Any
 * other expression makes the place unknown.
 */
static void save_by_expression(struct machine *m, uint64_t reg, struct cursor c)
{
	uint64_t base = CFI_REGISTERS;
	int64_t off = 0;
	const bool is_place = read_base(&c, &base, &off) && !cursor_left(&c);

	if (is_place && base == CFI_RSP)
		save(m, reg, SAVED_AT_RSP, off);
	else if (is_place && base == CFI_RBP)
		save(m, reg, SAVED_AT_RBP, off);
	else
		save(m, reg, SAVED_UNKNOWN, 0);
}

static struct cursor read_block(struct cursor *c)
{
	const uint64_t bytes = cursor_uleb(c);
	const uint8_t *block = cursor_bytes(c, bytes);

	return (struct cursor){ .at = block, .end = block ? block + bytes : NULL };
}

/* ---- rows ----------------------------------------------------------------------------------- */

/*
 * Move on to VA: the current rule holds up to VA. Pass this rule to the callback if it differs from
 * the rule that was passed last.
 */
static int advance_to(struct machine *m, uint64_t va)
{
	int err = 0;

	if (va < m->va || va > m->end) {
		m->is_damaged = true;
		return 0;
	}
	if (va > m->va && (!m->has_shown || memcmp(&m->shown, &m->rule, sizeof(m->rule)) != 0)) {
		err = m->fn(m->data, m->va, &m->rule);
		m->shown = m->rule;
		m->has_shown = true;
	}
	m->va = va;
	return err;
}

static int advance(struct machine *m, uint64_t delta)
{
	uint64_t bytes, va;

	if (__builtin_mul_overflow(delta, m->common->code_align, &bytes) ||
	    __builtin_add_overflow(m->va, bytes, &va)) {
		m->is_damaged = true;
		return 0;
	}
	return advance_to(m, va);
}

static void remember_rule(struct machine *m)
{
	if (m->n_remembered == MAX_REMEMBERED)
		m->is_damaged = true;
	else
		m->remembered[m->n_remembered++] = m->rule;
}

static void recall_rule(struct machine *m)
{
	if (!m->n_remembered)
		m->is_damaged = true;
	else
		m->rule = m->remembered[--m->n_remembered];
}

/* ---- instructions --------------------------------------------------------------------------- */

static int64_t scaled(const struct machine *m, int64_t factor)
{
	int64_t off;

	return __builtin_mul_overflow(factor, m->common->data_align, &off) ? INT64_MAX : off;
}

static void change_cfa(struct machine *m, uint64_t op, struct cursor *c)
{
	const uint64_t reg = m->rule.cfa == CFA_REGISTER ? m->rule.reg : CFI_REGISTERS;
	uint64_t operand;

	switch (op) {
	case DW_CFA_def_cfa:
		operand = cursor_uleb(c);
		define_cfa(m, CFA_REGISTER, operand, (int64_t)cursor_uleb(c));
		break;
	case DW_CFA_def_cfa_sf:
		operand = cursor_uleb(c);
		define_cfa(m, CFA_REGISTER, operand, scaled(m, cursor_sleb(c)));
		break;
	case DW_CFA_def_cfa_register:
		operand = cursor_uleb(c);
		define_cfa(m, reg < CFI_REGISTERS ? CFA_REGISTER : CFA_UNKNOWN, operand,
			   m->rule.add[0]);
		break;
	case DW_CFA_def_cfa_offset:
		define_cfa(m, CFA_REGISTER, reg, (int64_t)cursor_uleb(c));
		break;
	case DW_CFA_def_cfa_offset_sf:
		define_cfa(m, CFA_REGISTER, reg, scaled(m, cursor_sleb(c)));
		break;
	default:
		define_cfa_by_expression(m, read_block(c));
	}
}

static void change_register(struct machine *m, uint64_t op, struct cursor *c)
{
	const uint64_t reg = cursor_uleb(c);

	switch (op) {
	case DW_CFA_offset_extended:
		save(m, reg, SAVED_AT_CFA, scaled(m, (int64_t)cursor_uleb(c)));
		break;
	case DW_CFA_offset_extended_sf:
		save(m, reg, SAVED_AT_CFA, scaled(m, cursor_sleb(c)));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		save(m, reg, SAVED_AT_CFA, scaled(m, -(int64_t)cursor_uleb(c)));
		break;
	case DW_CFA_restore_extended:
		restore(m, reg);
		break;
	case DW_CFA_undefined:
		save(m, reg, SAVED_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		save(m, reg, SAVED_SAME, 0);
		break;
	case DW_CFA_expression:
		save_by_expression(m, reg, read_block(c));
		break;
	case DW_CFA_val_expression:
		read_block(c);
		save(m, reg, SAVED_UNKNOWN, 0);
		break;
	default: /* DW_CFA_register, DW_CFA_val_offset, DW_CFA_val_offset_sf: one operand */
		cursor_uleb(c);
		save(m, reg, SAVED_UNKNOWN, 0);
	}
}

static int run_extended(struct machine *m, uint64_t op, struct cursor *c)
{
	switch (op) {
	case DW_CFA_nop:
		return 0;
	case DW_CFA_advance_loc1:
		return advance(m, cursor_unsigned(c, 1));
	case DW_CFA_advance_loc2:
		return advance(m, cursor_unsigned(c, 2));
	case DW_CFA_advance_loc4:
		return advance(m, cursor_unsigned(c, 4));
	case DW_CFA_remember_state:
		remember_rule(m);
		return 0;
	case DW_CFA_restore_state:
		recall_rule(m);
		return 0;
	case DW_CFA_GNU_args_size:
		cursor_uleb(c);
		return 0;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		change_cfa(m, op, c);
		return 0;
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_GNU_negative_offset_extended:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_val_expression:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
		change_register(m, op, c);
		return 0;
	default: /* the length of its operands is unknown */
		m->is_damaged = true;
		return 0;
	}
}

static int run_instructions(struct machine *m, struct cursor c)
{
	int err = 0;

	while (!err && !m->is_damaged && cursor_left(&c)) {
		const uint64_t op = cursor_unsigned(&c, 1), low = op & 0x3f;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			err = advance(m, low);
			break;
		case DW_CFA_offset:
			save(m, low, SAVED_AT_CFA, scaled(m, (int64_t)cursor_uleb(&c)));
			break;
		case DW_CFA_restore:
			restore(m, low);
			break;
		default:
			err = run_extended(m, op, &c);
		}
		m->is_damaged |= c.has_failed;
	}
	return err;
}

int cfi_program_run(const struct cfi_common *common, const struct cursor *program, uint64_t first,
		    uint64_t end, cfi_row_fn fn, void *data)
{
	struct machine m;
	int err;

	/* The remembered rules need no clearing: each is written before it is read. */
	memset(&m, 0, offsetof(struct machine, remembered));
	m.common = common;
	m.va = first;
	m.end = end;
	m.fn = fn;
	m.data = data;
	m.rule.is_signal = common->is_signal;
	err = run_instructions(
		&m,
		(struct cursor){ common->program, common->program + common->program_bytes, false });
	if (m.va != first)
		m.is_damaged = true;
	m.initial = m.rule;
	m.n_remembered = 0;
	if (!err && !m.is_damaged)
		err = run_instructions(&m, *program);
	if (!err && m.is_damaged) {
		m.rule = (struct cfi_rule){ .cfa = CFA_UNKNOWN };
		m.is_damaged = false;
	}
	return err ? err : advance_to(&m, end);
}
