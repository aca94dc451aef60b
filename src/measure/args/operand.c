// SPDX-License-Identifier: MIT
/*
 * Parses the operands that C compilers (<sys/sdt.h>) and OCaml compilers write into notes. They are
 * separated by spaces:
 *
 *	SIZE@PLACE	SIZE: 1 2 4 8, negative for signed integers, with an f for floats
 *
 *	%rax %eax %al	PLACE: a register, or a part of one
 *	$-5		a constant; the address of a symbol: $global
 *	16(%rsp)	memory: DISPLACEMENT(BASE,INDEX,SCALE); parts may be missing
 *	-8(%rax,%rbx,4)
 *	global+4(%rip)	memory that the assembler names by a symbol
 *	24(16(%rsp))	memory at an address in memory, up to ARG_MAX_THEN + 1 deep; found only in
 *			our tables (program/arg_notes.c), and in operands derived from code
 *
 * If an OCaml compiler wrote the note, an operand "8@..." is an OCaml value. In notes of
 * <sys/sdt.h> it is a pointer or an unsigned long.
 *
 *	?		an argument whose place is unknown (program/wrapper_args.c)
 *
 * A well-formed operand that a BPF program cannot read is not an error: it becomes ARG_UNSUPPORTED.
 * Such operands are floats in %xmm registers, which the kernel does not expose; symbols, which
 * would have to be looked up in the file; segment registers and "4@%ip", which no compiler writes.
 */
#include "measure/args/operand.h"

#include "program/wrapper_args.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { OPERAND_MAX = 256, NAME_MAX_BYTES = 8, MAX_SIZE = 64 };

/* The names of each register (enum arg_register), and of its parts of 4, 2 and 1 bytes. */
static const char *const register_names[ARG_REGISTERS][4] = {
	[ARG_R15] = { "r15", "r15d", "r15w", "r15b" },
	[ARG_R14] = { "r14", "r14d", "r14w", "r14b" },
	[ARG_R13] = { "r13", "r13d", "r13w", "r13b" },
	[ARG_R12] = { "r12", "r12d", "r12w", "r12b" },
	[ARG_RBP] = { "rbp", "ebp", "bp", "bpl" },
	[ARG_RBX] = { "rbx", "ebx", "bx", "bl" },
	[ARG_R11] = { "r11", "r11d", "r11w", "r11b" },
	[ARG_R10] = { "r10", "r10d", "r10w", "r10b" },
	[ARG_R9] = { "r9", "r9d", "r9w", "r9b" },
	[ARG_R8] = { "r8", "r8d", "r8w", "r8b" },
	[ARG_RAX] = { "rax", "eax", "ax", "al" },
	[ARG_RCX] = { "rcx", "ecx", "cx", "cl" },
	[ARG_RDX] = { "rdx", "edx", "dx", "dl" },
	[ARG_RSI] = { "rsi", "esi", "si", "sil" },
	[ARG_RDI] = { "rdi", "edi", "di", "dil" },
	[ARG_RSP] = { "rsp", "esp", "sp", "spl" },
	[ARG_RIP] = { "rip", "", "", "" },
};

static const struct {
	const char *name;
	enum arg_register reg;
} high_bytes[] = {
	{ "ah", ARG_RAX },
	{ "bh", ARG_RBX },
	{ "ch", ARG_RCX },
	{ "dh", ARG_RDX },
};

enum register_part { PART_8, PART_4, PART_2, PART_1, PART_HIGH, PART_OF_NONE };

/* The state of the parser: its position in the text of one operand, and the reason of a failure. */
struct operand_parser {
	const char *at;
	const char *why;
};

static bool fail_parsing(struct operand_parser *op, const char *why)
{
	op->why = why;
	return false;
}

static bool is_ascii_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return is_ascii_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("_.$@", c));
}

/*
 * Parse a number in C syntax. As in the assembler, a number above INT64_MAX wraps around to a
 * negative one.
 */
static bool parse_integer(struct operand_parser *op, __s64 *number)
{
	bool negative = *op->at == '-';
	const char *digits = op->at + (negative || *op->at == '+');
	unsigned long long magnitude;
	char *end;

	if (!is_ascii_digit(*digits))
		return fail_parsing(op, "a number is expected");
	errno = 0;
	magnitude = strtoull(digits, &end, 0);
	if (errno || (negative && magnitude > 1ULL << 63))
		return fail_parsing(op, "the number does not fit into 64 bits");
	*number = (__s64)(negative ? 0 - magnitude : magnitude);
	op->at = end;
	return true;
}

/*
 * Parse "%NAME". Set *REG to the register, or to ARG_NO_REGISTER if a BPF program cannot read it.
 */
static bool take_register(struct operand_parser *op, __u8 *reg, enum register_part *part)
{
	char name[NAME_MAX_BYTES] = "";
	size_t n;

	*reg = ARG_NO_REGISTER;
	*part = PART_OF_NONE;
	if (*op->at != '%')
		return fail_parsing(op, "a register is expected");
	n = strspn(++op->at, "abcdefghijklmnopqrstuvwxyz0123456789");
	if (n == 0 || n >= sizeof(name))
		return fail_parsing(op, "a register is expected after %");
	memcpy(name, op->at, n);
	op->at += n;
	for (int i = 0; i < ARG_REGISTERS; i++)
		for (int p = PART_8; p <= PART_1; p++)
			if (strcmp(name, register_names[i][p]) == 0) {
				*reg = (__u8)i;
				*part = (enum register_part)p;
				return true;
			}
	for (size_t i = 0; i < sizeof(high_bytes) / sizeof(high_bytes[0]); i++)
		if (strcmp(name, high_bytes[i].name) == 0) {
			*reg = (__u8)high_bytes[i].reg;
			*part = PART_HIGH;
		}
	return true;
}

static bool parse_register(struct operand_parser *op, struct arg_spec *spec)
{
	enum register_part part;

	if (!take_register(op, &spec->base, &part))
		return false;
	if (spec->base == ARG_NO_REGISTER) {
		spec->kind = ARG_UNSUPPORTED;
		return true;
	}
	spec->kind = ARG_REGISTER;
	spec->register_shift = part == PART_HIGH ? 8 : 0;
	return true;
}

static bool take_scale(struct operand_parser *op, struct arg_spec *spec)
{
	static const char scales[] = "1248";
	const char *scale = *op->at ? strchr(scales, *op->at) : NULL;

	if (!scale || is_ascii_digit(op->at[1]))
		return fail_parsing(op, "the scale must be 1, 2, 4 or 8");
	spec->index_shift = (__u8)(scale - scales);
	op->at++;
	return true;
}

/* Parse the rest of an address after '(': BASE,INDEX,SCALE). */
static bool parse_address(struct operand_parser *op, struct arg_spec *spec)
{
	enum register_part part;

	if (*op->at != ',') {
		if (!take_register(op, &spec->base, &part))
			return false;
		/*
		 * With a part of a register, such as %eax, the address would have 32 bits, which is
		 * not supported.
		 */
		if (part != PART_8)
			spec->kind = ARG_UNSUPPORTED;
	}
	if (*op->at == ',') {
		op->at++;
		if (!take_register(op, &spec->index, &part))
			return false;
		if (part != PART_8)
			spec->kind = ARG_UNSUPPORTED;
		if (*op->at == ',') {
			op->at++;
			if (!take_scale(op, spec))
				return false;
		}
	}
	if (*op->at != ')')
		return fail_parsing(op, ") is expected");
	op->at++;
	return true;
}

/* Parse SYMBOL, SYMBOL+4 or 4+SYMBOL. */
static bool parse_symbol(struct operand_parser *op)
{
	const char *start = op->at;

	while (is_name_char(*op->at) || *op->at == '+' || *op->at == '-')
		op->at++;
	return op->at > start || fail_parsing(op, "a register, constant or address is expected");
}

/*
 * Return true if the operand at AT has the form DISPLACEMENT(DISPLACEMENT(..., which means that the
 * address is read from memory.
 */
static bool is_nested(const char *at)
{
	at += *at == '-' || *at == '+';
	at += strspn(at, "0123456789");
	return *at == '(' && (is_ascii_digit(at[1]) || (at[1] && strchr("(-+", at[1])));
}

static bool parse_memory(struct operand_parser *op, struct arg_spec *spec);

/*
 * Parse an operand that may read memory several times, such as 24(16(%rsp)). The first displacement
 * in the text is added last.
 */
static bool parse_nested(struct operand_parser *op, struct arg_spec *spec)
{
	__s64 offsets[ARG_MAX_THEN];
	unsigned int n = 0;

	for (; is_nested(op->at); n++) {
		if (n == ARG_MAX_THEN)
			return fail_parsing(op, "too many addresses in memory");
		offsets[n] = 0;
		if (*op->at != '(' && !parse_integer(op, &offsets[n]))
			return false;
		if (offsets[n] < INT32_MIN || offsets[n] > INT32_MAX)
			return fail_parsing(op, "the number does not fit into 32 bits");
		op->at++;
	}
	if (!parse_memory(op, spec))
		return false;
	for (unsigned int i = 0; i < n; i++) {
		if (*op->at != ')')
			return fail_parsing(op, ") is expected");
		op->at++;
		spec->then[i] = (__s32)offsets[n - 1 - i];
	}
	spec->n_then = (__u8)n;
	return true;
}

static bool parse_memory(struct operand_parser *op, struct arg_spec *spec)
{
	bool is_signed = *op->at == '-' || *op->at == '+';
	bool has_number = is_ascii_digit(op->at[is_signed]);

	spec->kind = ARG_MEMORY;
	if (has_number && !parse_integer(op, &spec->number))
		return false;
	if (*op->at ? *op->at != '(' : !has_number) {
		if (has_number && *op->at != '+' && *op->at != '-')
			return fail_parsing(op, "unexpected text after the operand");
		if (!parse_symbol(op))
			return false;
		spec->kind = ARG_UNSUPPORTED;
	}
	if (*op->at != '(')
		return true;
	op->at++;
	return parse_address(op, spec);
}

static bool parse_constant(struct operand_parser *op, struct arg_spec *spec)
{
	const char *digits;

	op->at++;
	digits = op->at + (*op->at == '-');
	if (*digits && is_name_char(*digits) && !is_ascii_digit(*digits)) {
		spec->kind = ARG_UNSUPPORTED;
		return parse_symbol(op);
	}
	spec->kind = ARG_CONSTANT;
	return parse_integer(op, &spec->number);
}

static bool parse_size(struct operand_parser *op, struct arg_spec *spec, bool *is_readable)
{
	__s64 size;

	if (!parse_integer(op, &size))
		return fail_parsing(op, "it must begin with its size");
	if (size == 0 || size < -MAX_SIZE || size > MAX_SIZE)
		return fail_parsing(op, "the size is wrong");
	spec->is_signed = size < 0;
	size = size < 0 ? -size : size;
	spec->size = (__u8)size;
	*is_readable = size == 1 || size == 2 || size == 4 || size == 8;
	spec->type = size == 8 && !spec->is_signed ? ARG_VALUE : ARG_C_INT;
	if (*op->at == 'f') {
		*is_readable = size == 8;
		spec->type = ARG_FLOAT;
		op->at++;
	}
	if (*op->at != '@')
		return fail_parsing(op, "@ is expected after the size");
	op->at++;
	return true;
}

static __s64 extended(__s64 number, const struct arg_spec *spec)
{
	unsigned int unused_bits = 64 - 8 * (unsigned int)spec->size;
	__u64 high = (__u64)number << unused_bits;

	return spec->is_signed ? (__s64)high >> unused_bits : (__s64)(high >> unused_bits);
}

static bool parse_operand(struct operand_parser *op, struct arg_spec *spec)
{
	bool is_readable, is_right;

	spec->base = spec->index = ARG_NO_REGISTER;
	if (!parse_size(op, spec, &is_readable))
		return false;
	if (*op->at == '%' && !strchr(op->at, ':')) {
		is_right = parse_register(op, spec);
	} else if (*op->at == '$') {
		is_right = parse_constant(op, spec);
	} else if (*op->at == '%' || strcmp(op->at, UNKNOWN_PLACE) == 0) {
		/*
		 * Valid, but not readable: the operand has a segment register (%fs:16), or its
		 * place is unknown.
		 */
		is_readable = false;
		is_right = true;
		op->at += strlen(op->at);
	} else {
		is_right = parse_nested(op, spec);
	}
	if (!is_right)
		return false;
	if (*op->at)
		return fail_parsing(op, "unexpected text after the operand");
	/* No kernel helper reads vector registers. */
	if (spec->type == ARG_FLOAT && spec->kind != ARG_MEMORY)
		is_readable = false;
	/*
	 * 0 is not an OCaml value. The compiler writes 8@$0 for an argument that is stored nowhere,
	 * because only the handler computes it.
	 */
	if (spec->kind == ARG_CONSTANT && spec->type == ARG_VALUE && spec->number == 0)
		is_readable = false;
	if (!is_readable || spec->kind == ARG_UNSUPPORTED)
		*spec = (struct arg_spec){ .kind = ARG_UNSUPPORTED };
	else if (spec->kind == ARG_CONSTANT)
		spec->number = extended(spec->number, spec);
	return true;
}

int operand_parse(struct ocp_ctx *ctx, const char *text, struct site_args *args)
{
	static const char spaces[] = " \t";

	*args = (struct site_args){ 0 };
	for (text += strspn(text, spaces); *text; text += strspn(text, spaces)) {
		size_t n = strcspn(text, spaces);
		struct arg_spec spec = { 0 };
		char copy[OPERAND_MAX];
		struct operand_parser op = { .at = copy };

		if (n >= sizeof(copy))
			return ctx_error(ctx, -EINVAL, "operand %.40s...: too long", text);
		memcpy(copy, text, n);
		copy[n] = '\0';
		if (!parse_operand(&op, &spec))
			return ctx_error(ctx, -EINVAL, "operand %s: %s", copy, op.why);
		if (args->n < ARGS_MAX)
			args->args[args->n++] = spec;
		else
			args->n_left_out++;
		text += n;
	}
	return 0;
}
