// SPDX-License-Identifier: MIT
/*
 * A section .eh_frame has two kinds of entries: a Frame Description Entry (FDE) for each function,
 * and a few Common Information Entries (CIE). Each FDE has the distance to its CIE. The functions
 * may be in any order.
 */
#include "elf/eh_frame.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

/* ---- the programs of call frame information -------------------------------------------------- */

/*
 * An interpreter for the instructions of call frame information. DWARF 5 describes the opcodes in
 * section 6.4.2, and the operators of expressions in section 2.5.
 */

/*
 * Reads numbers from bytes that may be damaged. After an attempt to read past the end, all numbers
 * are 0.
 */
struct cursor {
	const uint8_t *at, *end;
	bool has_failed; /* a read went past the end */
};

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

/*
 * Return the address of the next N bytes, and move past them. Return NULL if fewer bytes are left.
 */
static inline const uint8_t *cursor_bytes(struct cursor *c, uint64_t n)
{
	const uint8_t *bytes = c->at;

	if (c->has_failed || n > cursor_left(c)) {
		c->has_failed = true;
		c->at = c->end;
		return NULL;
	}
	c->at += n;
	return bytes;
}

/* Read the next N bytes, at most 8, as a number without sign. */
static inline uint64_t cursor_unsigned(struct cursor *c, size_t n)
{
	const uint8_t *bytes = cursor_bytes(c, n);
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, n); /* the file and this machine are both little-endian */
	return value;
}

static inline int64_t cursor_signed(struct cursor *c, size_t n)
{
	const unsigned int unused = 64 - 8 * (unsigned int)n;

	return (int64_t)(cursor_unsigned(c, n) << unused) >> unused;
}

/* Read an LEB128 number (DWARF 5, section 7.6). Bits above the 64th are lost. */
static inline uint64_t cursor_leb(struct cursor *c, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned int shift = 0;

	do {
		byte = cursor_unsigned(c, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && (byte & 0x40))
		value |= ~UINT64_C(0) << shift;
	return value;
}

static inline uint64_t cursor_uleb(struct cursor *c)
{
	return cursor_leb(c, false);
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	return (int64_t)cursor_leb(c, true);
}

/* The data that the functions of a Common Information Entry (CIE) share. */
struct cfi_common {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding; /* encoding of addresses: a DW_EH_PE_ value */
	bool has_extra;	  /* the augmentation begins with 'z': the augmentation data has a length */
	bool is_signal;
	const uint8_t *program;
	size_t program_bytes;
};

enum { MAX_REMEMBERED = 32 };

struct machine {
	const struct cfi_common *common;
	struct cfi_rule rule, initial, shown;
	size_t n_remembered;
	bool is_damaged, has_shown;
	uint64_t va, end;
	cfi_row_fn fn;
	void *data;
	/* Must be the last member: cfi_program_run() clears only the members before it. */
	struct cfi_rule remembered[MAX_REMEMBERED];
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
 * C is the rest of an expression, after its DW_OP_bregN. Return true if this rest is what binutils
 * and lld write for the procedure linkage table (PLT) of lazily bound functions. If so, set
 * *FIRST_BYTE to add[1] of the CFA_PLT rule.
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
 * Record where REG is saved: at an offset from rbp or, as in the frame of a signal, from rsp. Any
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
 * The current rule holds up to VA: pass it to the callback, unless the previous call of the
 * callback had an equal rule. Then move on to VA.
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
	default: /* DW_CFA_register, DW_CFA_val_offset and DW_CFA_val_offset_sf have one operand */
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
	default: /* an unknown instruction: where the next one begins is unknown */
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

/*
 * Pass the rows of the function at [FIRST, END) to FN(DATA, ...). COMMON's program runs first, then
 * PROGRAM. If a program is damaged, the rule for the rest of the function is CFA_UNKNOWN. Return 0,
 * or the first other value that FN returned.
 */
static int cfi_program_run(const struct cfi_common *common, const struct cursor *program,
			   uint64_t first, uint64_t end, cfi_row_fn fn, void *data)
{
	struct machine m;
	int err;

	/* Do not clear the remembered rules: each of them is written before it is read. */
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

/* ---- the entries of .eh_frame ---------------------------------------------------------------- */

enum { MAX_TABLE_BYTES = 1 << 28, MAX_CIES = 1 << 12, SHT_UNWIND = 0x70000001 };

/* Pointer encodings: Linux Standard Base, "DWARF Exception Header Encoding". */
enum {
	PE_OMIT = 0xff,
	PE_FORMAT = 0x0f,
	PE_RELATIVE = 0x70,
	PE_TO_PLACE = 0x10,
	PE_INDIRECT = 0x80
};

struct cie {
	size_t at; /* offset of the entry in the table */
	struct cfi_common common;
};

struct fde {
	uint64_t first, end; /* addresses of the code; end is exclusive */
	size_t cie;	     /* index in the table's `cies` */
	struct cursor program;
};

struct eh_frame_table {
	struct ocp_ctx *ctx;
	const char *name;
	uint8_t *bytes;
	size_t n;
	uint64_t va;
	struct cie *cies;
	size_t n_cies;
	struct fde *fdes;
	size_t n_fdes;
};

/* ---- entries -------------------------------------------------------------------------------- */

/* Read a number in ENCODING. The caller adds the base address, which depends on ENCODING. */
static uint64_t read_encoded(struct cursor *c, uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return cursor_unsigned(c, 8);
	case DW_EH_PE_udata4:
		return cursor_unsigned(c, 4);
	case DW_EH_PE_sdata4:
		return (uint64_t)cursor_signed(c, 4);
	case DW_EH_PE_udata2:
		return cursor_unsigned(c, 2);
	case DW_EH_PE_sdata2:
		return (uint64_t)cursor_signed(c, 2);
	case DW_EH_PE_uleb128:
		return cursor_uleb(c);
	case DW_EH_PE_sleb128:
		return (uint64_t)cursor_sleb(c);
	default:
		c->has_failed = true;
		return 0;
	}
}

/*
 * Read the augmentation data at C. LETTERS is the augmentation string after its 'z': each letter
 * describes one item of the data.
 */
static void read_augmentation(const char *letters, struct cursor c, struct cfi_common *common)
{
	for (; *letters && !c.has_failed; letters++) {
		switch (*letters) {
		case 'R':
			common->encoding = (uint8_t)cursor_unsigned(&c, 1);
			break;
		case 'S':
			common->is_signal = true;
			break;
		case 'L':
			cursor_unsigned(&c, 1);
			break;
		case 'P':
			read_encoded(&c, (uint8_t)cursor_unsigned(&c, 1));
			break;
		default: /* an unknown letter: ignore the rest of the data */
			return;
		}
	}
}

static bool read_cie(struct cursor c, struct cfi_common *common)
{
	const uint64_t version = cursor_unsigned(&c, 1);
	const char *letters = (const char *)c.at;
	const uint8_t *extra = NULL;
	uint64_t extra_bytes = 0, return_register;

	if (c.has_failed || (version != 1 && version != 3) || !memchr(c.at, 0, cursor_left(&c)))
		return false;
	cursor_bytes(&c, strlen(letters) + 1);
	common->code_align = cursor_uleb(&c);
	common->data_align = cursor_sleb(&c);
	return_register = version == 1 ? cursor_unsigned(&c, 1) : cursor_uleb(&c);
	if (*letters == 'z') {
		common->has_extra = true;
		extra_bytes = cursor_uleb(&c);
		extra = cursor_bytes(&c, extra_bytes);
	} else if (*letters) {
		return false;
	}
	if (c.has_failed || return_register != CFI_RIP)
		return false;
	if (extra)
		read_augmentation(letters + 1, (struct cursor){ extra, extra + extra_bytes, false },
				  common);
	common->program = c.at;
	common->program_bytes = cursor_left(&c);
	return true;
}

/*
 * Set *INDEX to the index of the CIE at offset AT. Read the CIE if it is not in the list yet. If
 * the CIE is damaged, or the list is full, set *INDEX to n_cies.
 */
static int find_cie(struct eh_frame_table *t, size_t at, size_t *index)
{
	struct cursor c = { t->bytes + at, t->bytes + t->n, false };
	struct cie cie = { .at = at };
	uint64_t bytes;
	struct cie *new;

	for (*index = t->n_cies; *index > 0; --*index)
		if (t->cies[*index - 1].at == at) {
			--*index;
			return 0;
		}
	*index = t->n_cies;
	bytes = cursor_unsigned(&c, 4);
	if (bytes < 4 || bytes > cursor_left(&c) || t->n_cies == MAX_CIES)
		return 0;
	c.end = c.at + bytes;
	if (cursor_unsigned(&c, 4) != 0 || !read_cie(c, &cie.common))
		return 0;
	new = array_add(t->cies, t->n_cies);
	if (!new)
		return ctx_no_memory(t->ctx);
	*new = cie;
	return 0;
}

static bool read_addresses(const struct eh_frame_table *t, struct cursor *c, uint8_t encoding,
			   struct fde *fde)
{
	const uint64_t place = t->va + (size_t)(c->at - t->bytes);
	uint64_t bytes;

	fde->first = read_encoded(c, encoding);
	if ((encoding & PE_RELATIVE) == PE_TO_PLACE)
		fde->first += place;
	else if ((encoding & PE_RELATIVE) || encoding == PE_OMIT)
		return false;
	bytes = read_encoded(c, encoding & PE_FORMAT);
	return !c->has_failed && !(encoding & PE_INDIRECT) &&
	       !__builtin_add_overflow(fde->first, bytes, &fde->end);
}

/*
 * Add the FDE at C, whose CIE is at offset CIE_AT. Leave the FDE out if it has no code, or if the
 * FDE or its CIE is damaged.
 */
static int add_fde(struct eh_frame_table *t, struct cursor c, size_t cie_at)
{
	struct fde fde = { 0 };
	const struct cfi_common *common;
	struct fde *new;
	int err = find_cie(t, cie_at, &fde.cie);

	if (err || fde.cie == t->n_cies)
		return err;
	common = &t->cies[fde.cie].common;
	if (!read_addresses(t, &c, common->encoding, &fde) || fde.end == fde.first)
		return 0;
	if (common->has_extra)
		cursor_bytes(&c, cursor_uleb(&c));
	if (c.has_failed)
		return 0;
	fde.program = c;
	new = array_add(t->fdes, t->n_fdes);
	if (!new)
		return ctx_no_memory(t->ctx);
	*new = fde;
	return 0;
}

static int read_entries(struct eh_frame_table *t)
{
	struct cursor c = { t->bytes, t->bytes + t->n, false };
	int err = 0;

	while (!err && cursor_left(&c) >= 4) {
		const uint64_t bytes = cursor_unsigned(&c, 4);
		const size_t id_at = (size_t)(c.at - t->bytes);
		struct cursor entry = { c.at, NULL, false };
		uint64_t id;

		if (!bytes) /* the end mark of crtend.o; ld may append entries after the mark */
			continue;
		if (bytes < 4 || !cursor_bytes(&c, bytes)) /* no tool writes 64-bit entries */
			return ctx_error(t->ctx, -EBADMSG, "%s: .eh_frame is damaged at offset %zu",
					 t->name, id_at);
		entry.end = entry.at + bytes;
		id = cursor_unsigned(&entry, 4);
		if (id && id <= id_at)
			err = add_fde(t, entry, id_at - (size_t)id);
	}
	return err;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int compare_fdes(const void *a, const void *b)
{
	const struct fde *x = a, *y = b;

	if (x->first != y->first)
		return COMPARE(x->first, y->first);
	return COMPARE(x->end, y->end);
}

/* Sort the FDEs. Most linkers have sorted them already; there is nothing to do then. */
static void sort_fdes(struct eh_frame_table *t)
{
	for (size_t i = 1; i < t->n_fdes; i++) {
		if (compare_fdes(&t->fdes[i - 1], &t->fdes[i]) > 0) {
			qsort(t->fdes, t->n_fdes, sizeof(*t->fdes), compare_fdes);
			return;
		}
	}
}

/* Passes rows to `fn`, except rows at or after `end`, which would overlap the next function. */
struct bounded {
	cfi_row_fn fn;
	void *data;
	uint64_t end;
};

static int pass_row(void *data, uint64_t va, const struct cfi_rule *rule)
{
	const struct bounded *to = data;

	return va < to->end ? to->fn(to->data, va, rule) : 0;
}

static int pass_rows(const struct eh_frame_table *t, cfi_row_fn fn, void *data)
{
	static const struct cfi_rule unknown = { .cfa = CFA_UNKNOWN };
	int err = 0;

	for (size_t i = 0; i < t->n_fdes && !err; i++) {
		const struct fde *fde = &t->fdes[i];
		const uint64_t next = i + 1 < t->n_fdes ? t->fdes[i + 1].first : UINT64_MAX;
		struct bounded to = { fn, data, fde->end < next ? fde->end : next };

		if (to.end == fde->first)
			continue;
		err = cfi_program_run(&t->cies[fde->cie].common, &fde->program, fde->first,
				      fde->end, pass_row, &to);
		if (!err && to.end < next)
			err = fn(data, to.end, &unknown);
	}
	return err;
}

static int load_eh_frame(struct ocp_ctx *ctx, struct elf_file *elf, struct eh_frame_table *t)
{
	struct elf_section section;
	int found = elf_file_find_section(elf, ".eh_frame", SHT_PROGBITS, &section);

	if (found == 0)
		found = elf_file_find_section(elf, ".eh_frame", SHT_UNWIND, &section);
	if (found < 0)
		return found;
	if (found == 0)
		return ctx_error(ctx, -ENODATA, "%s: no call frame information (.eh_frame)",
				 t->name);
	t->n = section.bytes;
	t->va = section.va;
	return elf_file_read_section(elf, &section, MAX_TABLE_BYTES, &t->bytes);
}

/*
 * Read the entries of ELF, and sort the FDEs by address. The caller frees T with close_table(),
 * also after an error.
 */
static int open_table(struct ocp_ctx *ctx, struct elf_file *elf, struct eh_frame_table *t)
{
	int err;

	*t = (struct eh_frame_table){ .ctx = ctx, .name = elf_file_name(elf) };
	err = load_eh_frame(ctx, elf, t);
	if (!err)
		err = read_entries(t);
	if (!err)
		sort_fdes(t);
	return err;
}

static void close_table(struct eh_frame_table *t)
{
	free(t->bytes);
	free(t->cies);
	free(t->fdes);
}

int eh_frame_read(struct ocp_ctx *ctx, struct elf_file *elf, cfi_row_fn fn, void *data)
{
	struct eh_frame_table t;
	int err = open_table(ctx, elf, &t);

	if (!err)
		err = pass_rows(&t, fn, data);
	close_table(&t);
	return err;
}

int eh_frame_each_function(struct ocp_ctx *ctx, struct elf_file *elf, eh_frame_function_fn fn,
			   void *data)
{
	struct eh_frame_table t;
	int err = open_table(ctx, elf, &t);

	for (size_t i = 0; i < t.n_fdes && !err; i++)
		err = fn(data, t.fdes[i].first, t.fdes[i].end - t.fdes[i].first);
	close_table(&t);
	return err == -ENODATA ? 0 : err;
}
