// SPDX-License-Identifier: MIT
/*
 * Finds where the arguments of a probe are at its site. In the code of
 * `[%probe "name" ~args:(a, b) handler]`, the branch of the handler begins with
 *
 *	lea	ARGS_MARKER,%M
 *	mov	<a>,(%M)
 *	mov	<b>,8(%M)
 *	<handler>
 *
 * The stores show where the compiler keeps a and b; between them are the moves, loads and
 * allocations that compute the stored values. At the start of the walk, at the site, each register
 * and stack slot has its own initial value. The walk follows these values through the code. So for
 * each stored value, the walk knows where the value was at the site. The post-linker later erases
 * the stores, since no code reads the words that they write. It keeps the other instructions: the
 * handler may use the registers that these load.
 *
 * The result is exact because the walk follows only the path of execution from the site. The walk
 * ends at an unknown instruction and at a conditional jump, with one exception: the jump after the
 * test whether an allocation fits. That jump leads to the garbage collector, which returns to the
 * instruction after the jump. All registers then have the same values as before (but the collector
 * may have moved a value in memory). After a call the registers and the memory are unknown, but not
 * the stack: the callee does not write to this frame.
 *
 * Operands are SystemTap's (https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation):
 *
 *	8@%rbx  8@16(%rsp)  8@8(%rbx)  8@96(%rip)  8@$3		an OCaml value
 *	8f@%xmm3  8f@16(%rsp)  8f@(%rbx)			a float, not boxed
 *	-8@%rbx  -8@16(%rsp)					an unboxed int64 or the like
 *
 * SystemTap's operands read memory once at most. A variable that a closure has captured may need
 * two reads: the stack has the closure, and the closure has the variable. A field of a record on
 * the stack may also need two reads. For arguments that need more than one read, operands have our
 * own syntax, which means memory at an address in memory:
 *
 *	8@24(16(%rsp))		the word at 24 from the address that is the word at 16(%rsp)
 *
 * Operands with this syntax are written to a table beside the notes (program/arg_notes.c), since
 * other tools would misread them; the note says 8@$0.
 *
 * In operands, %rip is the site's own address. A float in a register is boxed only when the probe
 * is on, by the handler's code. The walk sees the allocation of the box and the value that is
 * stored into it, and records that value. A value that only the handler computes is unknown.
 */
#include "program/dormant/x86_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "program/dormant/x86_insn.h"

enum {
	MAX_STEPS = 4096,
	MAX_CELLS = 256,
	WORD = 8,
	DOUBLE_TAG = 253,
	CUSTOM_TAG = 255,
};

/*
 * A call may allocate, so the heap pointers before and after the call are not comparable. So after
 * each call, the heap pointer gets a new number, far (EPOCH) from its numbers before the call.
 */
static const int64_t EPOCH = INT64_C(1) << 40;

enum walked_kind {
	UNKNOWN = 0,
	REGISTER, /* the value that register `reg` has at the site */
	XMM,	  /* the lower half of the value that vector register `reg` has at the site */
	SLOT,	  /* the stack word at offset `number` from the %rsp of the site */
	FIELD,	  /* the word at offset `number` from the address in register `reg` at the site */
	DATA,	  /* the word at address `number` in the program's data */
	CONSTANT, /* the constant `number` */
	ADDRESS,  /* the address `number` of code or data, before relocation */
	ARGS,	  /* the address of the marker to which the arguments are stored */
	HEAP,	  /* a new block, at offset `number` from the heap pointer at the site */
};

struct walked_value {
	enum walked_kind kind;
	unsigned int reg;
	int64_t number;
	/*
	 * For SLOT, FIELD and DATA: how to get from the word to the value. If n_then is 0, the word
	 * is the value. Otherwise the word is an address, and the next word is at offset then[0]
	 * from this address. That word is the value if n_then is 1; otherwise it is again an
	 * address, for then[1], and so on.
	 */
	int32_t then[X86_MAX_THEN];
	unsigned int n_then;
};

/* A word of the stack frame or of a new block that the code has written since the site. */
struct written_cell {
	enum walked_kind kind; /* SLOT or HEAP */
	int64_t number;
	struct walked_value value;
};

struct args_walk {
	const struct x86_args_query *query;
	struct x86_arg *args;
	size_t n_found;
	struct walked_value regs[X86_N_REGS], xmm[X86_N_REGS];
	struct written_cell cells[MAX_CELLS];
	size_t n_cells;
	int64_t epoch;
	bool is_memory_changed;
	bool was_heap_test; /* the previous instruction compared the heap pointer with its limit */
};

static const struct walked_value unknown;

/* The colour bits in the header of static data. */
static const uint64_t BLACK_BITS = 3 << 8;

static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* ---- operands ----------------------------------------------------------------------------- */

/* Write NUMBER (nothing if NUMBER is 0) and a parenthesis. Return the end of the text. */
static char *put_offset(char *at, const char *end, int64_t number)
{
	const size_t room = (size_t)(end - at);
	int n = number ? snprintf(at, room, "%" PRId64 "(", number) : snprintf(at, room, "(");

	return at + n;
}

/*
 * Write the operand for VALUE to OPERAND, such as 8@24(16(%rsp)). PREFIX is its beginning, such as
 * "8@". The first word to read is at offset NUMBER from register BASE_NAME; VALUE.then has the
 * offsets of the further words. X86_OPERAND_BYTES is enough for the longest operand.
 */
static bool put_memory(char *operand, const char *prefix, struct walked_value value, int64_t number,
		       const char *base_name)
{
	char *at = operand, *end = operand + X86_OPERAND_BYTES;

	at += snprintf(at, X86_OPERAND_BYTES, "%s", prefix);
	for (unsigned int i = value.n_then; i > 0; i--)
		at = put_offset(at, end, value.then[i - 1]);
	at = put_offset(at, end, number);
	at += snprintf(at, (size_t)(end - at), "%%%s)", base_name);
	for (unsigned int i = 0; i < value.n_then; i++)
		at += snprintf(at, (size_t)(end - at), ")");
	return true;
}

static bool put_operand(const struct args_walk *walk, const char *prefix, struct walked_value value,
			char *operand)
{
	bool is_float = prefix[1] == 'f';

	switch (value.kind) {
	case REGISTER:
		snprintf(operand, X86_OPERAND_BYTES, "%s%%%s", prefix,
			 x86_register_name(value.reg));
		return !is_float;
	case XMM:
		snprintf(operand, X86_OPERAND_BYTES, "%s%%xmm%u", prefix, value.reg);
		return is_float;
	case SLOT:
		return put_memory(operand, prefix, value, value.number, "rsp");
	case FIELD:
		return put_memory(operand, prefix, value, value.number,
				  x86_register_name(value.reg));
	case DATA:
		return put_memory(operand, prefix, value,
				  plus(value.number, -(int64_t)walk->query->site_va), "rip");
	case ADDRESS:
		if (!walk->query->is_fixed)
			return false;
		/* fallthrough */
	case CONSTANT:
		snprintf(operand, X86_OPERAND_BYTES, "%s$%" PRId64, prefix, value.number);
		return !is_float;
	default:
		return false;
	}
}

static struct walked_value read_cell(const struct args_walk *walk, enum walked_kind kind,
				     int64_t number)
{
	for (size_t i = 0; i < walk->n_cells; i++)
		if (walk->cells[i].kind == kind && walk->cells[i].number == number)
			return walk->cells[i].value;
	if (kind == SLOT)
		return (struct walked_value){ .kind = SLOT, .number = number };
	return unknown;
}

/*
 * Return the operand prefix for a boxed number whose block has the header HEADER. Return NULL if
 * HEADER is not the header of a boxed number. Set *CONTENT_OFF to the offset of the number in the
 * block.
 */
static const char *boxed_prefix(uint64_t header, int64_t *content_off)
{
	uint64_t tag = header & 0xff, words = header >> 10;

	*content_off = 0;
	if (words == 1 && tag == DOUBLE_TAG)
		return "8f@";
	/* The first word is the pointer to the custom block's operations. */
	*content_off = WORD;
	return words == 2 && tag == CUSTOM_TAG ? "-8@" : NULL;
}

/* Set the operand of ARG from VALUE, which the code stores as this argument. */
static void note_value(const struct args_walk *walk, struct walked_value value, struct x86_arg *arg)
{
	const struct x86_args_query *query = walk->query;
	const char *prefix = "8@";
	uint64_t header = 0;
	int64_t content;

	if (value.kind == HEAP) {
		struct walked_value first = read_cell(walk, HEAP, plus(value.number, -WORD));

		if (first.kind != CONSTANT)
			return;
		prefix = boxed_prefix((uint64_t)first.number, &content);
		if (!prefix)
			return;
		value = read_cell(walk, HEAP, plus(value.number, content));
	} else if (value.kind == ADDRESS && !query->is_fixed) {
		if (!query->read_word(query->data, (uint64_t)value.number - WORD, &header))
			return;
		prefix = boxed_prefix(header & ~BLACK_BITS, &content);
		if (!prefix)
			return;
		value = (struct walked_value){ .kind = DATA,
					       .number = plus(value.number, content) };
	}
	if (!put_operand(walk, prefix, value, arg->operand))
		arg->operand[0] = '\0';
	arg->is_path = value.n_then > 0;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* VALUE is an address. Return the word at offset DISP from this address. */
static struct walked_value dereference(struct walked_value value, int64_t disp)
{
	if (value.n_then == X86_MAX_THEN)
		return unknown;
	value.then[value.n_then++] = (int32_t)disp;
	return value;
}

/*
 * Return the place of an instruction's memory operand. The kind is SLOT, FIELD, DATA, HEAP or ARGS,
 * with the offset or address in `number`.
 */
static struct walked_value address_of_operand(const struct args_walk *walk,
					      const struct x86_insn *insn)
{
	struct walked_value base;

	if (insn->index != X86_NO_REG || insn->base == X86_NO_REG)
		return unknown;
	if (insn->base == X86_RIP)
		return (struct walked_value){ .kind = DATA, .number = insn->disp };
	if (insn->base == X86_RSP)
		return (struct walked_value){ .kind = SLOT, .number = insn->disp };
	base = walk->regs[insn->base];
	switch (base.kind) {
	case REGISTER:
		return (struct walked_value){ .kind = FIELD,
					      .reg = base.reg,
					      .number = insn->disp };
	case SLOT:
	case FIELD:
	case DATA:
		return dereference(base, insn->disp);
	case ADDRESS:
	case CONSTANT:
		return (struct walked_value){ .kind = DATA,
					      .number = plus(base.number, insn->disp) };
	case HEAP:
	case ARGS:
		return (struct walked_value){ .kind = base.kind,
					      .number = plus(base.number, insn->disp) };
	default:
		return unknown;
	}
}

static struct walked_value follow_load(const struct args_walk *walk, const struct x86_insn *insn)
{
	const struct x86_args_query *query = walk->query;
	struct walked_value at = address_of_operand(walk, insn);

	if (at.n_then)
		return walk->is_memory_changed ? unknown : at;
	switch (at.kind) {
	case SLOT:
	case HEAP:
		return read_cell(walk, at.kind, at.number);
	case DATA:
		if (query->holds_marker(query->data, (uint64_t)at.number))
			return (struct walked_value){ .kind = ARGS };
		/* fallthrough */
	case FIELD:
		return walk->is_memory_changed ? unknown : at;
	default:
		return unknown;
	}
}

/* Record that a word was written. Return false if the walk cannot continue. */
static bool write_cell(struct args_walk *walk, enum walked_kind kind, int64_t number,
		       struct walked_value value)
{
	size_t i;

	for (i = 0; i < walk->n_cells; i++)
		if (walk->cells[i].kind == kind && walk->cells[i].number == number)
			break;
	/* An unaligned write would overlap two words. Compilers do not emit such writes. */
	if (i == MAX_CELLS || number % WORD)
		return false;
	if (i == walk->n_cells)
		walk->n_cells++;
	walk->cells[i] = (struct written_cell){ kind, number, value };
	return true;
}

/*
 * Follow a store of VALUE. If the store is not of a whole word, VALUE must be `unknown`. Return
 * false if the walk cannot continue.
 */
static bool follow_store(struct args_walk *walk, const struct x86_insn *insn, size_t pos,
			 struct walked_value value)
{
	struct walked_value at = address_of_operand(walk, insn);
	struct x86_arg *arg;

	switch (at.n_then ? UNKNOWN : at.kind) {
	case SLOT:
	case HEAP:
		return write_cell(walk, at.kind, at.number, value);
	case ARGS:
		if (at.number < 0 || at.number % WORD ||
		    (uint64_t)at.number / WORD >= walk->query->n_args)
			return false;
		arg = &walk->args[at.number / WORD];
		if (arg->store_bytes)
			return false;
		arg->store_pos = pos;
		arg->store_bytes = insn->n_bytes;
		note_value(walk, value, arg);
		walk->n_found++;
		return true;
	default:
		walk->is_memory_changed = true;
		return true;
	}
}

/* ---- instructions ------------------------------------------------------------------------- */

static bool set_walked_register(struct args_walk *walk, unsigned int reg, struct walked_value value)
{
	/* End the walk: with the stack pointer, the offsets of all stack words change. */
	if (reg == X86_RSP)
		return false;
	walk->regs[reg] = value;
	return true;
}

static struct walked_value constant(int64_t number)
{
	return (struct walked_value){ .kind = CONSTANT, .number = number };
}

/* Return the result of lea. */
static struct walked_value follow_lea(const struct args_walk *walk, const struct x86_insn *insn)
{
	const struct x86_args_query *query = walk->query;
	struct walked_value at = address_of_operand(walk, insn);

	switch (at.n_then ? UNKNOWN : at.kind) {
	case DATA:
		if (query->is_marker(query->data, (uint64_t)at.number))
			return (struct walked_value){ .kind = ARGS };
		return (struct walked_value){ .kind = ADDRESS, .number = at.number };
	case HEAP:
	case ARGS:
		return at;
	default:
		return unknown;
	}
}

/*
 * Return the result of a mov of the 32-bit immediate IMM. Code that is not PIE loads addresses this
 * way.
 */
static struct walked_value immediate(const struct args_walk *walk, int64_t imm)
{
	const struct x86_args_query *query = walk->query;

	if (query->is_fixed && query->is_marker(query->data, (uint64_t)imm))
		return (struct walked_value){ .kind = ARGS };
	return constant(imm);
}

/* Return VALUE plus BY. The result is unknown unless VALUE is a heap pointer. */
static struct walked_value moved(struct walked_value value, int64_t by)
{
	if (value.kind != HEAP)
		return unknown;
	value.number = plus(value.number, by);
	return value;
}

/* Follow an instruction that writes an unknown value to its ModRM operand. */
static bool change_rm(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	if (insn->is_memory)
		return follow_store(walk, insn, pos, unknown);
	return set_walked_register(walk, insn->rm, unknown);
}

static bool is_heap_test(const struct args_walk *walk, const struct x86_insn *insn)
{
	return insn->opcode == 0x3b && insn->is_wide && insn->reg == X86_R15 &&
	       walk->regs[X86_R15].kind == HEAP;
}

/*
 * Follow a call of caml_alloc1, caml_alloc2, caml_alloc3 or caml_allocN. Module initialisers call
 * these functions instead of allocating in line. Their code is: sub $N,%r15 (not in caml_allocN);
 * cmp (%r14),%r15; jb; ret. Return false if the function at TARGET has other code.
 */
static bool step_allocation(struct args_walk *walk, uint64_t target)
{
	const struct x86_code *code = walk->query->code;
	struct walked_value heap = walk->regs[X86_R15];
	size_t pos = target - code->va;
	struct x86_insn insn;

	if (heap.kind != HEAP || target < code->va || pos >= code->n_bytes ||
	    !x86_decode(code, pos, &insn))
		return false;
	if ((insn.opcode == 0x83 || insn.opcode == 0x81) && insn.is_wide && !insn.is_memory &&
	    insn.rm == X86_R15 && (insn.reg & 7) == 5) {
		heap.number = plus(heap.number, -insn.imm);
		pos += insn.n_bytes;
		if (!x86_decode(code, pos, &insn))
			return false;
	}
	if (!is_heap_test(walk, &insn))
		return false;
	pos += insn.n_bytes;
	if (!x86_decode(code, pos, &insn) ||
	    (insn.opcode != (X86_0F | 0x82) && insn.opcode != 0x72))
		return false;
	pos += insn.n_bytes;
	if (pos >= code->n_bytes || code->bytes[pos] != 0xc3)
		return false;
	walk->regs[X86_R15] = heap;
	return true;
}

static bool step_call(struct args_walk *walk)
{
	for (unsigned int i = 0; i < X86_N_REGS; i++)
		walk->regs[i] = walk->xmm[i] = unknown;
	walk->is_memory_changed = true;
	walk->epoch++;
	walk->regs[X86_R15] = (struct walked_value){ .kind = HEAP, .number = -walk->epoch * EPOCH };
	return true;
}

/* Follow 80, 81 or 83: add, or, adc, sbb, and, sub, xor, cmp with an immediate. */
static bool step_immediate_group(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	enum { ADD = 0, SUB = 5, CMP = 7 };
	unsigned int operation = insn->reg & 7;

	if (operation == CMP)
		return true;
	if (!insn->is_memory && insn->is_wide && (operation == ADD || operation == SUB))
		return set_walked_register(
			walk, insn->rm,
			moved(walk->regs[insn->rm],
			      operation == ADD ? insn->imm : plus(0, -insn->imm)));
	return change_rm(walk, insn, pos);
}

/* Follow fe or ff: inc, dec, or call of an address in a register or in memory. */
static bool step_ff_group(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	switch (insn->reg & 7) {
	case 0:
	case 1:
		return change_rm(walk, insn, pos);
	case 2:
		return insn->opcode == 0xff && step_call(walk);
	default:
		return false;
	}
}

static bool step_mov(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	struct walked_value value;

	switch (insn->opcode) {
	case 0x89:
		value = insn->is_wide ? walk->regs[insn->reg] : unknown;
		if (insn->is_memory)
			return follow_store(walk, insn, pos, value);
		return set_walked_register(walk, insn->rm, value);
	case 0x8b:
		if (!insn->is_wide)
			return set_walked_register(walk, insn->reg, unknown);
		return set_walked_register(walk, insn->reg,
					   insn->is_memory ? follow_load(walk, insn)
							   : walk->regs[insn->rm]);
	case 0x8d:
		if (!insn->is_memory)
			return false;
		return set_walked_register(walk, insn->reg,
					   insn->is_wide ? follow_lea(walk, insn) : unknown);
	default: /* c7 */
		if ((insn->reg & 7) != 0)
			return false;
		value = insn->is_wide ? immediate(walk, insn->imm) : unknown;
		if (insn->is_memory)
			return follow_store(walk, insn, pos, value);
		return set_walked_register(walk, insn->rm, value);
	}
}

static bool step_xmm(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	bool is_scalar = insn->prefix == 0xf2;
	struct walked_value value = unknown;

	switch (insn->opcode & 0xff) {
	case 0x10:
		if (is_scalar)
			value = insn->is_memory ? follow_load(walk, insn) : walk->xmm[insn->rm];
		break;
	case 0x11:
		if (is_scalar)
			value = walk->xmm[insn->reg];
		if (insn->is_memory)
			return follow_store(walk, insn, pos, value);
		walk->xmm[insn->rm] = value;
		return true;
	case 0x28:
		if (!insn->is_memory)
			value = walk->xmm[insn->rm];
		break;
	case 0x29:
	case 0x7f:
	case 0xd6:
		if (insn->is_memory)
			return false;
		walk->xmm[insn->rm] = unknown;
		return true;
	default:
		break;
	}
	walk->xmm[insn->reg] = value;
	return true;
}

static bool step_two_byte(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	unsigned int opcode = insn->opcode & 0xff;

	switch (opcode) {
	case 0x1f: /* nop */
	case 0x2e: /* ucomisd, comisd */
	case 0x2f:
		return true;
	case 0x82: /* jb, jbe: accepted only as the test whether an allocation fits */
	case 0x86:
		return walk->was_heap_test;
	case 0x2c: /* conversions to an integer: the result is in a general register */
	case 0x2d:
	case 0xaf:
	case 0xb6:
	case 0xb7:
	case 0xb8:
	case 0xbc:
	case 0xbd:
	case 0xbe:
	case 0xbf:
		return set_walked_register(walk, insn->reg, unknown);
	case 0x7e:
		if (insn->prefix == 0x66)
			return change_rm(walk, insn, pos);
		return step_xmm(walk, insn, pos);
	default:
		if (opcode >= 0x40 && opcode <= 0x4f)
			return set_walked_register(walk, insn->reg, unknown);
		if (opcode >= 0x80 && opcode <= 0x8f)
			return false;
		if (opcode >= 0x90 && opcode <= 0x9f)
			return change_rm(walk, insn, pos);
		return step_xmm(walk, insn, pos);
	}
}

static bool step_one_byte(struct args_walk *walk, const struct x86_insn *insn, size_t pos)
{
	unsigned int opcode = insn->opcode;

	switch (opcode) {
	case 0x31:
	case 0x33:
		if (!insn->is_memory && insn->reg == insn->rm)
			return set_walked_register(walk, insn->reg, constant(0));
		break;
	case 0x3c: /* cmp, test, nop */
	case 0x3d:
	case 0x38:
	case 0x39:
	case 0x3a:
	case 0x3b:
	case 0x84:
	case 0x85:
	case 0x90:
	case 0xa8:
	case 0xa9:
		return true;
	case 0x72: /* jb, jbe: accepted only as the test whether an allocation fits */
	case 0x76:
		return walk->was_heap_test;
	case 0x80:
	case 0x81:
	case 0x83:
		return step_immediate_group(walk, insn, pos);
	case 0x87: /* xchg */
		return change_rm(walk, insn, pos) && set_walked_register(walk, insn->reg, unknown);
	case 0x98: /* cltq, cqto */
		return set_walked_register(walk, 0, unknown);
	case 0x99:
		return set_walked_register(walk, 2, unknown);
	case 0x89:
	case 0x8b:
	case 0x8d:
	case 0xc7:
		return step_mov(walk, insn, pos);
	case 0xe8:
		return step_allocation(walk, (uint64_t)insn->imm) || step_call(walk);
	case 0xf6:
	case 0xf7:
		if ((insn->reg & 7) <= 1)
			return true;
		if ((insn->reg & 7) >= 4) /* mul, div: the result is in %rdx:%rax */
			return set_walked_register(walk, 0, unknown) &&
			       set_walked_register(walk, 2, unknown);
		return change_rm(walk, insn, pos);
	case 0xfe:
	case 0xff:
		return step_ff_group(walk, insn, pos);
	default:
		break;
	}
	if (opcode >= 0x70 && opcode <= 0x7f)
		return false;
	/* End the walk: push and pop change the offsets of all stack words. */
	if (opcode >= 0x50 && opcode <= 0x5f)
		return false;
	if (opcode >= 0xb8 && opcode <= 0xbf)
		return set_walked_register(walk, insn->rm, constant(insn->imm));
	/*
	 * In arithmetic, the result is in `reg` if bit 1 of the opcode is set. For 63, 69, 6b and
	 * 8a, the result is also in `reg`.
	 */
	if (opcode < 0x40 ? opcode & 2 : opcode < 0x80 || opcode == 0x8a)
		return set_walked_register(walk, insn->reg, unknown);
	return change_rm(walk, insn, pos);
}

void x86_find_args(const struct x86_args_query *query, struct x86_arg *args)
{
	struct args_walk walk = { .query = query, .args = args };
	size_t pos = query->start;
	struct x86_insn insn;

	memset(args, 0, query->n_args * sizeof(*args));
	for (unsigned int i = 0; i < X86_N_REGS; i++) {
		walk.regs[i] = (struct walked_value){ .kind = REGISTER, .reg = i };
		walk.xmm[i] = (struct walked_value){ .kind = XMM, .reg = i };
	}
	for (unsigned int i = 0; i < X86_N_REGS; i++)
		if (query->site->written >> i & 1)
			walk.regs[i] = unknown;
	for (size_t i = 0; i < query->site->n_slots; i++)
		write_cell(&walk, SLOT, query->site->slots[i], unknown);
	walk.regs[X86_R15] = (struct walked_value){ .kind = HEAP };
	for (int i = 0; i < MAX_STEPS && walk.n_found < query->n_args; i++) {
		uint64_t target;

		if (!x86_decode(query->code, pos, &insn))
			return;
		if (insn.opcode == 0xe9 || insn.opcode == 0xeb) {
			target = (uint64_t)insn.imm - query->code->va;
			if (target >= query->code->n_bytes)
				return;
			pos = target;
			continue;
		}
		if (!(insn.opcode & X86_0F ? step_two_byte(&walk, &insn, pos)
					   : step_one_byte(&walk, &insn, pos)))
			return;
		walk.was_heap_test = is_heap_test(&walk, &insn);
		pos += insn.n_bytes;
	}
}
