// SPDX-License-Identifier: MIT
/*
 * `if Sys.opaque_identity MARKER == <0> then handler` is compiled by ocamlopt for amd64 to
 *
 *	load  MARKER,%R		7 bytes: lea D(%rip), mov of a GOT slot, or mov $imm32 (non-PIE)
 *	cmp   $1,%R		4 bytes; 1 is OCaml's 0. A marker's address never equals 1
 *	jne   L			2 or 6 bytes
 *	<handler>
 *   L:
 *
 * If the handler, or the code after it, is itself a jump, ocamlopt inverts the condition:
 *
 *	load; cmp; je H
 *   N:
 *
 * where H is the handler and N the next code. If the handler is empty, H == N.
 *
 * The condition is constant. So the one byte that differs between je and jne (74 and 75, in the
 * near form 0f 84 and 0f 85) enables and disables the handler. This byte can be changed at any
 * time, wherever a thread is, because the instructions keep their lengths. So the tool changes it
 * in a running program that was not post-linked. The tool does not convert the sites to the
 * post-linker's form: a uprobe executes the first instruction as it is in the file, here the load
 * of 7 bytes, and execution would then continue in the middle of an instruction of the converted
 * site.
 *
 * Usually a dormant probe has just the three instructions above the handler; the section "matching"
 * below describes which other instructions may be in between.
 */
#include "program/dormant/x86_site.h"

#include <string.h>

#include "program/dormant/x86_insn.h"

/* je and jne differ in one byte, which is this many bytes before the end of a dormant probe. */
enum { SHORT_OPCODE_OFF = 2, NEAR_OPCODE_OFF = 5 };

static int32_t read_i32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

bool x86_decode_load(const struct x86_code *code, size_t pos, struct x86_load *load)
{
	const uint8_t *b = code->bytes + pos;
	int64_t operand;

	if (code->n_bytes < X86_LOAD_BYTES || pos > code->n_bytes - X86_LOAD_BYTES ||
	    !x86_may_be_load(b))
		return false;
	operand = read_i32(b + 3);
	if (b[1] == 0xc7) {
		/* REX.R and REX.X have no meaning here, and compilers do not set them. */
		if (b[0] & 0x06)
			return false;
		load->form = X86_LOAD_IMMEDIATE;
		load->reg = (b[2] & 7u) | (b[0] & 1u) << 3;
		load->va = (uint64_t)operand;
		return true;
	}
	if (b[0] & 0x03)
		return false;
	load->form = b[1] == 0x8d ? X86_LOAD_LEA : X86_LOAD_GOT;
	load->reg = (b[2] >> 3 & 7u) | (b[0] & 4u) << 1;
	load->va = code->va + pos + X86_LOAD_BYTES + (uint64_t)operand;
	return true;
}

size_t x86_site_handler(const struct x86_site *site)
{
	return site->pos + site->n_bytes + (size_t)(site->is_inverted ? site->jump : 0);
}

size_t x86_site_opcode_at(const struct x86_site *site)
{
	return site->n_bytes - (site->is_near ? NEAR_OPCODE_OFF : SHORT_OPCODE_OFF);
}

/* ---- matching -------------------------------------------------------------------------------- */

/*
 * Decides whether the load of a marker's address is the start of a dormant probe. The code after
 * the load is evaluated for two cases at once: in the first case, the loaded value is the marker's
 * address, as when the program runs; in the second case, the loaded value is OCaml's 0. The code is
 * a dormant probe if it has only
 *
 *	moves of values that come from the marker, to registers, stack slots and static data;
 *	the comparison of the marker with 0;
 *	code that turns the result into an OCaml bool, and the comparison of the bool with a
 *		constant
 *
 * up to a conditional jump that differs in the two cases. The branch that is never taken is the
 * handler. Usually this code has three instructions. If registers are scarce, there are moves
 * between these three; in a module's initialiser, flambda stores the result of each step as static
 * data.
 *
 * The post-linker overwrites all of this code, from the load to the jump. This is sound since no
 * later code uses the values that this code writes: the ppx gives the values no names, and
 * Sys.opaque_identity hides them from all optimisations except CSE of the marker's address, and no
 * other code loads this address.
 *
 * ocamlopt puts labels only at the starts of blocks, and all of this code is one block. So no jump
 * leads into the code, except to its first instruction, which is still the start of the site.
 */

enum {
	MAX_INSNS = 32,
	MAX_CELLS = 8,
	OCAML_ZERO = 1,
};

enum evaluated_kind {
	OTHER = 0, /* an unknown value, which no later instruction may use */
	MARKER,	   /* the marker's address in the first case; OCaml's 0 in the second */
	PLACE,	   /* the address of the memory word that `key` identifies */
	CHOICE,	   /* a number for each of the two cases */
};

/* Identifies a memory word. Two words are the same if and only if their keys are equal. */
struct word_key {
	enum { STATIC, FROM_GOT, STACK } space;
	int64_t number;
};

struct evaluated_value {
	enum evaluated_kind kind;
	struct word_key key;
	int64_t numbers[2];
};

struct evaluation {
	const struct x86_code *code;
	struct x86_site *site;
	struct evaluated_value regs[X86_N_REGS];
	struct {
		struct word_key key;
		struct evaluated_value value;
	} cells[MAX_CELLS];
	size_t n_cells;
	bool is_equal[2]; /* the zero flag in each of the two cases */
	bool has_flags;	  /* is_equal is known */
};

static bool is_same_key(struct word_key a, struct word_key b)
{
	return a.space == b.space && a.number == b.number;
}

static bool set_evaluated_register(struct evaluation *eval, unsigned int reg,
				   struct evaluated_value value)
{
	if (reg == X86_RSP || value.kind == OTHER)
		return false;
	eval->regs[reg] = value;
	eval->site->written |= 1u << reg;
	return true;
}

/* Set *KEY to the memory word that is the operand of INSN. Return false if this word is unknown. */
static bool find_word_key(const struct evaluation *eval, const struct x86_insn *insn,
			  struct word_key *key)
{
	const struct evaluated_value *base;

	if (!insn->is_memory || insn->index != X86_NO_REG || insn->base == X86_NO_REG)
		return false;
	if (insn->base == X86_RIP || insn->base == X86_RSP) {
		key->space = insn->base == X86_RIP ? STATIC : STACK;
		key->number = insn->disp;
		return true;
	}
	base = &eval->regs[insn->base];
	*key = base->key;
	return base->kind == PLACE && insn->disp == 0;
}

static struct evaluated_value evaluate_load(const struct evaluation *eval,
					    const struct x86_insn *insn)
{
	struct evaluated_value value = { .kind = OTHER };
	struct word_key key;

	if (!find_word_key(eval, insn, &key))
		return value;
	for (size_t i = 0; i < eval->n_cells; i++)
		if (is_same_key(eval->cells[i].key, key))
			return eval->cells[i].value;
	/*
	 * Assume that the word is one of the GOT and contains an address: evaluate_insn() lets the
	 * value be copied to registers and used as an address, and accepts no other use of it.
	 */
	if (insn->base == X86_RIP)
		value = (struct evaluated_value){ .kind = PLACE, .key = { FROM_GOT, key.number } };
	return value;
}

static bool evaluate_store(struct evaluation *eval, const struct x86_insn *insn,
			   struct evaluated_value value)
{
	struct x86_site *site = eval->site;
	struct word_key key;
	size_t i;

	if (value.kind == OTHER || value.kind == PLACE || !find_word_key(eval, insn, &key))
		return false;
	for (i = 0; i < eval->n_cells && !is_same_key(eval->cells[i].key, key); i++)
		;
	if (i == MAX_CELLS)
		return false;
	if (i == eval->n_cells)
		eval->n_cells++;
	eval->cells[i].key = key;
	eval->cells[i].value = value;
	if (key.space != STACK)
		return true;
	if (site->n_slots == X86_SITE_SLOTS)
		return false;
	site->slots[site->n_slots++] = key.number;
	return true;
}

static bool evaluate_comparison(struct evaluation *eval, const struct evaluated_value *value,
				int64_t number)
{
	if (value->kind != CHOICE && (value->kind != MARKER || number != OCAML_ZERO))
		return false;
	eval->has_flags = true;
	for (int i = 0; i < 2; i++)
		eval->is_equal[i] = value->kind == MARKER ? i == 1 : value->numbers[i] == number;
	return true;
}

static struct evaluated_value evaluate_lea(const struct evaluation *eval,
					   const struct x86_insn *insn)
{
	struct evaluated_value value = { .kind = OTHER };

	if (insn->is_memory && insn->base == X86_RIP) {
		value = (struct evaluated_value){ .kind = PLACE, .key = { STATIC, insn->disp } };
	} else if (insn->is_memory && insn->base >= 0 && insn->index == insn->base &&
		   insn->scale == 1 && insn->disp == 1 && eval->regs[insn->base].kind == CHOICE) {
		value = eval->regs[insn->base];
		for (int i = 0; i < 2; i++)
			value.numbers[i] = 2 * value.numbers[i] + 1;
	}
	return value;
}

/*
 * Evaluate the instruction INSN. Return false if INSN is not one of the instructions described at
 * the start of this section.
 */
static bool evaluate_insn(struct evaluation *eval, const struct x86_insn *insn)
{
	struct evaluated_value value;

	switch (insn->opcode) {
	case 0x89:
		if (!insn->is_wide)
			return false;
		if (insn->is_memory)
			return evaluate_store(eval, insn, eval->regs[insn->reg]);
		return set_evaluated_register(eval, insn->rm, eval->regs[insn->reg]);
	case 0x8b:
		if (!insn->is_wide)
			return false;
		value = insn->is_memory ? evaluate_load(eval, insn) : eval->regs[insn->rm];
		return set_evaluated_register(eval, insn->reg, value);
	case 0x8d:
		return insn->is_wide &&
		       set_evaluated_register(eval, insn->reg, evaluate_lea(eval, insn));
	case 0xc7:
		value = (struct evaluated_value){ .kind = PLACE, .key = { STATIC, insn->imm } };
		return insn->is_wide && !insn->is_memory && (insn->reg & 7) == 0 &&
		       set_evaluated_register(eval, insn->rm, value);
	case 0x83:
		return insn->is_wide && !insn->is_memory && (insn->reg & 7) == 7 &&
		       evaluate_comparison(eval, &eval->regs[insn->rm], insn->imm);
	case X86_0F | 0x94: /* sete, setne */
	case X86_0F | 0x95:
		value = (struct evaluated_value){ .kind = CHOICE };
		for (int i = 0; i < 2; i++)
			value.numbers[i] = eval->is_equal[i] == (insn->opcode == (X86_0F | 0x94));
		return eval->has_flags && !insn->is_memory &&
		       set_evaluated_register(eval, insn->rm, value);
	case X86_0F | 0xb6:
		return insn->is_wide && !insn->is_memory && insn->reg == insn->rm &&
		       eval->regs[insn->rm].kind == CHOICE;
	default:
		return false;
	}
}

static bool is_jump_on_equality(const struct x86_insn *insn)
{
	return insn->opcode == 0x74 || insn->opcode == 0x75 || insn->opcode == (X86_0F | 0x84) ||
	       insn->opcode == (X86_0F | 0x85);
}

/*
 * Record the conditional jump that ends the site. END is the offset of the byte after the jump.
 * Return NULL, or the reason why the jump cannot end a site.
 */
static const char *take_jump(const struct evaluation *eval, const struct x86_insn *insn, size_t end)
{
	const struct x86_code *code = eval->code;
	struct x86_site *site = eval->site;
	bool on_equal = !(insn->opcode & 1);
	int64_t target = (int64_t)((uint64_t)insn->imm - code->va);

	if (!eval->has_flags || eval->is_equal[0] == eval->is_equal[1])
		return "no jump on equality follows the comparison";
	site->is_inverted = eval->is_equal[0] != on_equal;
	site->is_near = insn->opcode & X86_0F;
	site->n_bytes = end - site->pos;
	site->jump = target - (int64_t)end;
	if (target < 0 || target >= (int64_t)code->n_bytes || end >= code->n_bytes)
		return "the jump leads outside the section";
	if (target > (int64_t)site->pos && target < (int64_t)end)
		return "the jump leads into the probe itself";
	return NULL;
}

const char *x86_match_site(const struct x86_code *code, size_t pos, const struct x86_load *load,
			   struct x86_site *site)
{
	struct evaluation eval = { .code = code, .site = site };
	struct x86_insn insn;

	memset(site, 0, sizeof(*site));
	site->pos = pos;
	site->reg = load->reg;
	pos += X86_LOAD_BYTES;
	if (!set_evaluated_register(&eval, load->reg, (struct evaluated_value){ .kind = MARKER }))
		return "the marker's address is loaded into the stack pointer";
	for (int i = 0; i < MAX_INSNS && x86_decode(code, pos, &insn); i++) {
		pos += insn.n_bytes;
		if (is_jump_on_equality(&insn))
			return take_jump(&eval, &insn, pos);
		if (!evaluate_insn(&eval, &insn))
			break;
	}
	if (eval.has_flags)
		return "no jump on equality follows the comparison";
	return "the marker's address is not compared right after it was loaded";
}
