// SPDX-License-Identifier: MIT
/*
 * Corrects the stack operands in the notes of executables of the forked compilers.
 *
 * These compilers write the notes of a unit after all its code. They compute the N in `N(%rsp)`
 * from the emitter's variables for the stack frame. At that time, the variables still have the
 * values for the last probe of the unit. In most units N is too high by 8, for the return address
 * of the last wrapper. If the last probe is inside a `try`, N is too high by 24. Other errors are
 * possible. Register operands are right.
 *
 * The handler gets the right values, since the wrapper loads them from the right places. So these
 * places are read from the wrapper's code (dormant/x86_wrapper.c). A stack operand is replaced by
 * the place from which the wrapper takes the handler's parameter of the same number. If the wrapper
 * contradicts a register operand of the note, the places are unknown.
 *
 * Sites of the post-linker are not corrected. Their notes are right, and they have no wrapper: they
 * call a `pop` within the site (link/x86_write.c). Notes of provider ocaml_2 are not corrected
 * either, since they are not known to be wrong.
 */
#include "program/wrapper_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/dormant/x86_insn.h"
#include "program/dormant/x86_wrapper.h"

enum {
	WINDOW_BYTES = 16384,
	WRAPPER_BYTES = 4096, /* limit for the size of a wrapper up to its call of the handler */
	/*
	 * Limit for the text of a corrected place. The place that it replaces has at least 2 bytes.
	 */
	PLACE_BYTES = 32,
	LINKED_SITE_BYTES = 13, /* size of a site that the post-linker made: nop, cmp, jmp, pop */
};

static const char stack_suffix[] = "(%rsp)";

/*
 * A cached part of the file's code. There are two windows, one for sites and one for wrappers,
 * since sites are close to other sites and wrappers are close to other wrappers.
 */
struct code_piece {
	uint8_t bytes[WINDOW_BYTES];
	struct x86_code code;
};

struct wrapper_reader {
	struct ocp_program *prog;
	struct code_piece sites, wrappers;
};

/* ---- operands ------------------------------------------------------------------------------- */

enum operand_kind {
	OPERAND_OTHER,
	OPERAND_REGISTER,
	OPERAND_STACK,
	OPERAND_CONSTANT,
	OPERAND_DISPROVED, /* the note says a register, but the wrapper uses another place */
};

/* An operand, with the form SIZE@PLACE, in the string of a note. */
struct note_operand {
	const char *text;
	size_t n_bytes, place_at;
	enum operand_kind kind;
	unsigned int reg;
};

/* The operands of one site. Operands that do not fit into `list` are ignored. */
struct note_operands {
	struct note_operand list[X86_WRAPPER_PARAMS];
	size_t n;
	bool all_known; /* no operand was ignored, and each is of a supported kind */
};

static bool is_stack(const char *place, size_t n)
{
	size_t suffix = sizeof(stack_suffix) - 1, digits;

	if (n < suffix || memcmp(place + n - suffix, stack_suffix, suffix) != 0)
		return false;
	digits = n - suffix;
	place += digits && *place == '-';
	digits -= digits && place[-1] == '-';
	return strspn(place, "0123456789") == digits;
}

static bool is_register(const char *place, size_t n, unsigned int *reg)
{
	for (*reg = 0; *reg < X86_N_REGS; ++*reg) {
		const char *name = x86_register_name(*reg);

		if (n == strlen(name) + 1 && *place == '%' && memcmp(place + 1, name, n - 1) == 0)
			return true;
	}
	return false;
}

static struct note_operand read_operand(const char *text, size_t n)
{
	const char *at = memchr(text, '@', n);
	struct note_operand operand = { .text = text, .n_bytes = n };
	const char *place;

	if (!at)
		return operand;
	place = at + 1;
	operand.place_at = (size_t)(place - text);
	n -= operand.place_at;
	if (is_register(place, n, &operand.reg))
		operand.kind = OPERAND_REGISTER;
	else if (is_stack(place, n))
		operand.kind = OPERAND_STACK;
	else if (n && *place == '$')
		operand.kind = OPERAND_CONSTANT;
	return operand;
}

static void read_operands(const char *text, struct note_operands *operands)
{
	operands->n = 0;
	operands->all_known = true;
	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		size_t n = strcspn(text, " ");

		if (operands->n == X86_WRAPPER_PARAMS) {
			operands->all_known = false;
			return;
		}
		operands->list[operands->n] = read_operand(text, n);
		operands->all_known &= operands->list[operands->n].kind != OPERAND_OTHER;
		operands->n++;
		text += n;
	}
}

/* ---- code ----------------------------------------------------------------------------------- */

/*
 * Make WINDOW contain the WANTED bytes from VA on, or fewer at the end of the segment. Set *POS to
 * the offset of VA in the window. Set *HAS to false, and do not set *POS, if VA is not code.
 */
static int look_at_code(const struct wrapper_reader *reader, struct code_piece *window, uint64_t va,
			size_t wanted, size_t *pos, bool *has)
{
	const struct elf_file *elf = reader->prog->elf;
	const struct elf_segment *seg = elf_file_segment_of(elf, va, 1);
	uint64_t first, end, n;

	*has = seg && seg->executable && va - seg->va < seg->file_bytes;
	if (!*has)
		return 0;
	end = seg->va + seg->file_bytes;
	wanted = end - va < wanted ? (size_t)(end - va) : wanted;
	*pos = (size_t)(va - window->code.va);
	if (va >= window->code.va && *pos <= window->code.n_bytes &&
	    window->code.n_bytes - *pos >= wanted)
		return 0;
	/*
	 * Put VA in the middle of the window, since the sites and wrappers of a unit are in
	 * ascending or descending order.
	 */
	first = va - seg->va > WINDOW_BYTES / 2 ? va - WINDOW_BYTES / 2 : seg->va;
	n = end - first < WINDOW_BYTES ? end - first : WINDOW_BYTES;
	*pos = (size_t)(va - first);
	window->code = (struct x86_code){ .bytes = window->bytes, .va = first };
	window->code.n_bytes = (size_t)n;
	return elf_file_read(elf, seg->off + (first - seg->va), window->bytes, (size_t)n);
}

/*
 * Return true if the post-linker made the site at CODE, of which N bytes can be read. DISPLACEMENT
 * is the operand of the site's cmp or call. In a site of the post-linker, the call leads to a pop
 * at the end of the site itself (nop, cmp or call, jmp, pop).
 */
static bool is_post_linked(const uint8_t *code, size_t n, int32_t displacement)
{
	enum { JUMP_SHORT = 0xeb, JUMP_NEAR = 0xe9, REX_B = 0x41, POP = 0x58 };
	const size_t jump_bytes = n > SITE_BYTES && code[SITE_BYTES] == JUMP_SHORT ? 2 : 5;
	const uint8_t *pop = code + SITE_BYTES + jump_bytes;

	if (n < LINKED_SITE_BYTES || displacement != (int32_t)jump_bytes ||
	    (code[SITE_BYTES] != JUMP_SHORT && code[SITE_BYTES] != JUMP_NEAR))
		return false;
	return (pop[*pop == REX_B] & 0xf8) == POP;
}

/*
 * Set PLACES to the places of the N parameters of SITE's handler. If the post-linker made the site,
 * set *IS_OURS to true, and leave PLACES unset. Set *FAULT to NULL, or to the reason why all places
 * are unknown.
 */
static int find_param_places(struct wrapper_reader *reader, const struct site *site, size_t n,
			     struct x86_place *places, bool *is_ours, const char **fault)
{
	int32_t displacement;
	size_t pos = 0, n_bytes;
	const uint8_t *code;
	bool has;
	int err = look_at_code(reader, &reader->sites, site->va, LINKED_SITE_BYTES, &pos, &has);

	if (err)
		return err;
	code = reader->sites.bytes + pos;
	n_bytes = has ? reader->sites.code.n_bytes - pos : 0;
	/*
	 * The address of the site was checked before. But if segments overlap, look_at_code() may
	 * have used a different segment than that check.
	 */
	*fault = "the site is not whole in the file";
	if (n_bytes < SITE_BYTES)
		return 0;
	memcpy(&displacement, code + SITE_OPCODE_OFF + 1, sizeof(displacement));
	*is_ours = is_post_linked(code, n_bytes, displacement);
	if (*is_ours)
		return 0;
	err = look_at_code(reader, &reader->wrappers,
			   site->va + SITE_BYTES + (uint64_t)displacement, WRAPPER_BYTES, &pos,
			   &has);
	if (err)
		return err;
	*fault = has ? x86_find_params(&reader->wrappers.code, pos, n, places)
		     : "the site calls no code of the file";
	return 0;
}

/* ---- the two together ----------------------------------------------------------------------- */

static bool agrees(const struct note_operand *operand, const struct x86_place *place)
{
	switch (operand->kind) {
	case OPERAND_REGISTER:
		return place->kind == X86_PLACE_REGISTER && place->reg == operand->reg;
	case OPERAND_STACK:
		return place->kind == X86_PLACE_STACK;
	default:
		return true;
	}
}

/*
 * Compare the operands of the note with PLACES, the places that the wrapper uses. Mark the register
 * operands that the wrapper contradicts. Return NULL if the note and the wrapper agree; otherwise
 * return the reason why the places of the stack operands are unknown.
 */
static const char *compare_operands(struct note_operands *operands, const struct x86_place *places)
{
	const char *fault = NULL;

	for (size_t i = 0; i < operands->n; i++) {
		struct note_operand *operand = &operands->list[i];

		if (agrees(operand, &places[i]))
			continue;
		fault = "the probe's note and its wrapper disagree";
		if (operand->kind == OPERAND_REGISTER)
			operand->kind = OPERAND_DISPROVED;
	}
	return fault;
}

/*
 * Write OPERAND to TO. In place of a stack place write PLACE, or UNKNOWN_PLACE if PLACE is NULL. In
 * place of a register that the wrapper contradicts, write UNKNOWN_PLACE. Return the end of the
 * text.
 */
static char *put_operand(char *to, const struct note_operand *operand,
			 const struct x86_place *place)
{
	const bool is_stack = operand->kind == OPERAND_STACK;

	if (!is_stack && operand->kind != OPERAND_DISPROVED) {
		memcpy(to, operand->text, operand->n_bytes);
		return to + operand->n_bytes;
	}
	memcpy(to, operand->text, operand->place_at);
	to += operand->place_at;
	if (!is_stack || !place)
		return stpcpy(to, UNKNOWN_PLACE);
	if (place->off)
		to += sprintf(to, "%" PRId64, place->off);
	return stpcpy(to, stack_suffix);
}

/*
 * Return the corrected text of the operands in NOTE. OPERANDS are the first operands of NOTE, and
 * PLACES are their places. FAULT is NULL, or the reason why the places are unknown.
 */
static struct corrected_args *make_corrected_args(const char *note,
						  const struct note_operands *operands,
						  const struct x86_place *places, const char *fault)
{
	struct corrected_args *args =
		malloc(sizeof(*args) + strlen(note) * (1 + PLACE_BYTES / 2) + 1);
	struct corrected_args *shorter;
	const char *from = note;
	char *to;

	if (!args)
		return NULL;
	*args = (struct corrected_args){ .note = note, .fault = fault };
	to = args->text;
	from += strspn(from, " ");
	for (size_t i = 0; *from; i++) {
		size_t n = strcspn(from, " ");
		struct note_operand operand =
			i < operands->n ? operands->list[i] : read_operand(from, n);

		to = put_operand(to, &operand, fault ? NULL : &places[i]);
		from += n;
		from += strspn(from, " ");
		if (*from)
			*to++ = ' ';
	}
	*to++ = '\0';
	shorter = realloc(args, (size_t)(to - (char *)args));
	return shorter ? shorter : args;
}

static int correct_site(struct wrapper_reader *reader, struct site *site)
{
	struct x86_place places[X86_WRAPPER_PARAMS];
	const char *fault = NULL;
	struct note_operands operands;
	bool is_ours = false;
	int err = 0;

	read_operands(site->args, &operands);
	err = find_param_places(reader, site, operands.n, places, &is_ours, &fault);
	if (err || is_ours)
		return err;
	if (!operands.all_known)
		fault = "its note has operands of an unsupported kind";
	if (!fault)
		fault = compare_operands(&operands, places);
	site->corrected = make_corrected_args(site->args, &operands, places, fault);
	if (!site->corrected)
		return ctx_no_memory(reader->prog->ctx);
	site->args = site->corrected->text;
	return 0;
}

static bool may_be_wrong(const struct site *site)
{
	return site->has_code && site->abi != SITE_ABI_V2 && site->abi != SITE_ABI_DORMANT &&
	       strchr(site->args, *stack_suffix) && strstr(site->args, stack_suffix);
}

int wrapper_args_correct(struct ocp_program *prog)
{
	struct wrapper_reader *reader = NULL;
	int err = 0;

	for (size_t i = 0; !err && i < prog->n_sites; i++) {
		if (!may_be_wrong(&prog->sites[i]))
			continue;
		if (!reader)
			reader = calloc(1, sizeof(*reader));
		if (!reader)
			return ctx_no_memory(prog->ctx);
		reader->prog = prog;
		err = correct_site(reader, &prog->sites[i]);
	}
	free(reader);
	return err;
}
