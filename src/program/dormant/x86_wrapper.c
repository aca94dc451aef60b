// SPDX-License-Identifier: MIT
/*
 * Follows the wrapper of a probe of the forked compilers (emit_probe_handler_wrapper in their amd64
 * emitter). An enabled site calls the wrapper, so at the wrapper's first instruction the stack
 * pointer is 8 below its value at the site. The wrapper
 *
 *	allocates a stack frame, perhaps after a frame pointer and a test of the stack's size
 *	saves all live registers in the frame, also %r15, with which it then moves stack words
 *	copies the probe's arguments, from registers and the caller's frame, to the wrapper's frame
 *	loads the copies to where the handler expects its parameters
 *	calls the handler
 *
 * and then restores everything. The walk follows the values from the site to the call of the
 * handler, and so finds the place of each parameter at the site. It accepts moves between registers
 * and the wrapper's own frame, and loads from the caller's frame. Any other instruction ends the
 * walk without a result.
 *
 * OCaml passes the first ten parameters in registers. Depending on its version, it passes further
 * parameters on the stack, in the words from the stack pointer up, or in consecutive words of the
 * domain's state, to which %r14 points.
 */
#include "program/dormant/x86_wrapper.h"

#include <string.h>

#include "program/dormant/x86_insn.h"

enum {
	MAX_STEPS = 1024,
	MAX_CELLS = 256,
	WORD = 8,
	N_PARAM_REGS = 10,
};

enum {
	RAX = 0,
	RCX,
	RDX,
	RBX,
	RSI = 6,
	RDI,
	R8,
	R9,
	R12 = 12,
	R13,
	R14,
};

static const unsigned int param_regs[N_PARAM_REGS] = {
	RAX, RBX, RDI, RSI, RDX, RCX, R8, R9, R12, R13,
};

enum traced_kind {
	UNKNOWN = 0,
	REGISTER, /* the value of register `reg` at the site */
	STACK, /* the word of the caller's frame at offset `number` from the site's stack pointer */
	CONSTANT, /* the constant `number` */
	POINTER,  /* the site's stack pointer plus `number` */
};

struct traced_value {
	enum traced_kind kind;
	unsigned int reg;
	int64_t number;
};

/* A word that the wrapper has written. */
struct traced_cell {
	int64_t number; /* offset from the site's stack pointer, or from %r14 */
	struct traced_value value;
};

struct traced_cells {
	struct traced_cell list[MAX_CELLS];
	size_t n;
};

struct wrapper_walk {
	struct traced_value regs[X86_N_REGS];
	struct traced_cells frame;  /* words of the wrapper's frame */
	struct traced_cells domain; /* words of the domain's state */
	/* The previous instruction compared an address on the stack with its limit. */
	bool was_stack_test;
};

static const struct traced_value unknown;

/* ---- memory --------------------------------------------------------------------------------- */

static struct traced_cell *find_cell(struct traced_cells *cells, int64_t number)
{
	for (size_t i = 0; i < cells->n; i++)
		if (cells->list[i].number == number)
			return &cells->list[i];
	return NULL;
}

static bool write_cell(struct traced_cells *cells, int64_t number, struct traced_value value)
{
	struct traced_cell *cell = find_cell(cells, number);

	if (!cell && cells->n == MAX_CELLS)
		return false;
	if (!cell)
		cell = &cells->list[cells->n++];
	*cell = (struct traced_cell){ number, value };
	return true;
}

/*
 * Return true if NUMBER is a possible distance from the stack pointer. The sum of two possible
 * distances does not overflow.
 */
static bool is_sane(int64_t number)
{
	return number > INT32_MIN && number < INT32_MAX;
}

/*
 * Return the address of INSN's memory operand: a POINTER; or a REGISTER, namely %r14, with the
 * offset in `number`; or `unknown`.
 */
static struct traced_value address_in_wrapper(const struct wrapper_walk *walk,
					      const struct x86_insn *insn)
{
	struct traced_value at;

	if (insn->index != X86_NO_REG || insn->base < 0)
		return unknown;
	at = walk->regs[insn->base];
	if (at.kind != POINTER && (at.kind != REGISTER || at.reg != R14))
		return unknown;
	at.number += insn->disp;
	return is_sane(at.number) && at.number % WORD == 0 ? at : unknown;
}

static struct traced_value trace_load(struct wrapper_walk *walk, const struct x86_insn *insn)
{
	struct traced_value at = address_in_wrapper(walk, insn);
	const struct traced_cell *cell;

	if (at.kind != POINTER)
		return unknown;
	cell = find_cell(&walk->frame, at.number);
	if (cell)
		return cell->value;
	/* At offsets below 0 are the return address, and words that the wrapper has not written. */
	if (at.number >= 0)
		return (struct traced_value){ .kind = STACK, .number = at.number };
	return unknown;
}

/*
 * Follow a store of VALUE. The wrapper may write only to its own frame and to the domain's state.
 */
static bool trace_store(struct wrapper_walk *walk, const struct x86_insn *insn,
			struct traced_value value)
{
	struct traced_value at = address_in_wrapper(walk, insn);

	if (at.kind == REGISTER)
		return write_cell(&walk->domain, at.number, value);
	return at.kind == POINTER && at.number < -WORD &&
	       write_cell(&walk->frame, at.number, value);
}

/* ---- instructions --------------------------------------------------------------------------- */

static bool set_traced_register(struct wrapper_walk *walk, unsigned int reg,
				struct traced_value value)
{
	/* End the walk if the stack pointer becomes unknown or leaves the wrapper's frame. */
	if (reg == X86_RSP && (value.kind != POINTER || value.number > -WORD))
		return false;
	walk->regs[reg] = value;
	return true;
}

static bool move_stack_pointer(struct wrapper_walk *walk, int64_t by)
{
	struct traced_value rsp = walk->regs[X86_RSP];

	rsp.number += by;
	return is_sane(rsp.number) && set_traced_register(walk, X86_RSP, rsp);
}

static bool trace_push(struct wrapper_walk *walk, unsigned int reg)
{
	struct traced_value value = walk->regs[reg];

	return move_stack_pointer(walk, -WORD) &&
	       write_cell(&walk->frame, walk->regs[X86_RSP].number, value);
}

static bool trace_pop(struct wrapper_walk *walk, unsigned int reg)
{
	const struct traced_cell *cell = find_cell(&walk->frame, walk->regs[X86_RSP].number);
	struct traced_value value = cell ? cell->value : unknown;

	return move_stack_pointer(walk, WORD) && set_traced_register(walk, reg, value);
}

/* Follow 81 or 83: add or sub of an immediate, accepted only for the stack pointer. */
static bool step_immediate_group(struct wrapper_walk *walk, const struct x86_insn *insn)
{
	enum { ADD = 0, SUB = 5 };
	unsigned int operation = insn->reg & 7;

	if (insn->is_memory || !insn->is_wide || insn->rm != X86_RSP ||
	    (operation != ADD && operation != SUB))
		return false;
	return move_stack_pointer(walk, operation == ADD ? insn->imm : -insn->imm);
}

static struct traced_value trace_lea(const struct wrapper_walk *walk, const struct x86_insn *insn)
{
	struct traced_value at = address_in_wrapper(walk, insn);

	return at.kind == POINTER ? at : unknown;
}

/* Return true if INSN compares an address on the stack with a word of the domain's state. */
static bool is_stack_test(const struct wrapper_walk *walk, const struct x86_insn *insn)
{
	return insn->opcode == 0x3b && insn->is_wide && insn->is_memory && insn->base == R14 &&
	       walk->regs[insn->reg].kind == POINTER;
}

static bool step_one_byte(struct wrapper_walk *walk, const struct x86_insn *insn)
{
	if (insn->opcode >= 0x50 && insn->opcode <= 0x57)
		return trace_push(walk, insn->rm);
	if (insn->opcode >= 0x58 && insn->opcode <= 0x5f)
		return trace_pop(walk, insn->rm);
	if (insn->opcode >= 0xb8 && insn->opcode <= 0xbf)
		return set_traced_register(
			walk, insn->rm,
			(struct traced_value){ .kind = CONSTANT, .number = insn->imm });
	switch (insn->opcode) {
	case 0x90:
		return true;
	case 0x3b:
		return is_stack_test(walk, insn);
	case 0x72: /* jb to code that grows the stack and keeps all registers */
		return walk->was_stack_test;
	case 0x81:
	case 0x83:
		return step_immediate_group(walk, insn);
	case 0x89:
		if (!insn->is_wide)
			return false;
		if (insn->is_memory)
			return trace_store(walk, insn, walk->regs[insn->reg]);
		return set_traced_register(walk, insn->rm, walk->regs[insn->reg]);
	case 0x8b:
		return insn->is_wide && set_traced_register(walk, insn->reg,
							    insn->is_memory ? trace_load(walk, insn)
									    : walk->regs[insn->rm]);
	case 0x8d:
		return insn->is_wide && insn->is_memory &&
		       set_traced_register(walk, insn->reg, trace_lea(walk, insn));
	case 0xc7:
		return insn->is_wide && insn->is_memory && (insn->reg & 7) == 0 &&
		       trace_store(walk, insn,
				   (struct traced_value){ .kind = CONSTANT, .number = insn->imm });
	default:
		return false;
	}
}

/*
 * Follow an instruction with a two-byte opcode. The wrapper saves live floats and vectors in its
 * frame (movsd, movss, movupd, movapd): the saved words become unknown. Return false if the
 * instruction is not one that a wrapper contains.
 */
static bool step_two_byte(struct wrapper_walk *walk, const struct x86_insn *insn)
{
	bool is_scalar =
		insn->opcode == (X86_0F | 0x11) && (insn->prefix == 0xf2 || insn->prefix == 0xf3);
	struct x86_insn high = *insn;

	high.disp += WORD;
	switch (insn->opcode) {
	case X86_0F | 0x1f: /* nop */
		return true;
	case X86_0F | 0x82: /* jb to code that grows the stack and keeps all registers */
		return walk->was_stack_test;
	case X86_0F | 0x11:
	case X86_0F | 0x29:
		return insn->is_memory && trace_store(walk, insn, unknown) &&
		       (is_scalar || trace_store(walk, &high, unknown));
	case X86_0F | 0x10: /* to a vector register, where no parameter is passed */
	case X86_0F | 0x28:
		return true;
	default:
		return false;
	}
}

/* ---- the parameters ------------------------------------------------------------------------- */

static struct x86_place place_of_param(struct traced_value value)
{
	switch (value.kind) {
	case REGISTER:
		return (struct x86_place){ .kind = X86_PLACE_REGISTER, .reg = value.reg };
	case STACK:
		return (struct x86_place){ .kind = X86_PLACE_STACK, .off = value.number };
	case CONSTANT:
		return (struct x86_place){ .kind = X86_PLACE_CONSTANT, .off = value.number };
	default:
		return (struct x86_place){ .kind = X86_PLACE_UNKNOWN };
	}
}

/*
 * Find the words of the N parameters from the eleventh on: set *CELLS to the list with these words,
 * and *FIRST to the `number` of the first word. Return false if the parameters are in the domain's
 * state, but the wrapper has written more or fewer than N words there.
 */
static bool find_further(struct wrapper_walk *walk, size_t n, struct traced_cells **cells,
			 int64_t *first)
{
	if (walk->domain.n == 0) {
		*cells = &walk->frame;
		*first = walk->regs[X86_RSP].number;
		return true;
	}
	*cells = &walk->domain;
	*first = walk->domain.list[0].number;
	for (size_t i = 1; i < walk->domain.n; i++)
		if (walk->domain.list[i].number < *first)
			*first = walk->domain.list[i].number;
	/*
	 * If the wrapper has written N words, these words are the parameters: read_params() looks
	 * up each of them.
	 */
	return walk->domain.n == n;
}

static const char *read_params(struct wrapper_walk *walk, size_t n, struct x86_place *places)
{
	struct traced_cells *cells;
	int64_t first;

	for (size_t i = 0; i < n && i < N_PARAM_REGS; i++)
		places[i] = place_of_param(walk->regs[param_regs[i]]);
	if (n <= N_PARAM_REGS)
		return NULL;
	if (!find_further(walk, n - N_PARAM_REGS, &cells, &first))
		return "the wrapper passes another number of arguments than the note has";
	for (size_t i = N_PARAM_REGS; i < n; i++) {
		const struct traced_cell *cell =
			find_cell(cells, first + (int64_t)(i - N_PARAM_REGS) * WORD);

		if (!cell)
			return "the wrapper passes another number of arguments than the note has";
		places[i] = place_of_param(cell->value);
	}
	return NULL;
}

static bool is_call(const struct x86_insn *insn)
{
	return insn->opcode == 0xe8 || (insn->opcode == 0xff && (insn->reg & 7) == 2);
}

const char *x86_find_params(const struct x86_code *code, size_t pos, size_t n,
			    struct x86_place *places)
{
	struct x86_insn insn;
	struct wrapper_walk walk;

	if (n > X86_WRAPPER_PARAMS)
		return "the probe has too many arguments";
	memset(places, 0, n * sizeof(*places));
	/*
	 * Do not clear the cells: each cell is written before it is read, and clearing them would
	 * take long.
	 */
	walk.frame.n = walk.domain.n = 0;
	walk.was_stack_test = false;
	for (unsigned int i = 0; i < X86_N_REGS; i++)
		walk.regs[i] = (struct traced_value){ .kind = REGISTER, .reg = i };
	walk.regs[X86_RSP] = (struct traced_value){ .kind = POINTER, .number = -WORD };
	for (int i = 0; i < MAX_STEPS; i++) {
		if (pos >= code->n_bytes || !x86_decode(code, pos, &insn))
			break;
		if (is_call(&insn))
			return read_params(&walk, n, places);
		if (!(insn.opcode & X86_0F ? step_two_byte(&walk, &insn)
					   : step_one_byte(&walk, &insn)))
			break;
		/* A pop changes no flags, so the result of the test stays. */
		if (insn.opcode < 0x58 || insn.opcode > 0x5f)
			walk.was_stack_test = is_stack_test(&walk, &insn);
		pos += insn.n_bytes;
	}
	return "the wrapper has unknown code";
}
