// SPDX-License-Identifier: MIT
/*
 * Write clauses that print the arguments of hits. They keep to the syntax and the limits of
 * bpftrace 0.17: it has only arg0 to arg5, a program has 512 bytes of stack (so a printf has few
 * arguments), and >> shifts in zeros.
 *
 * An OCaml int is printed in decimal, other values in hexadecimal. Each line is a single printf, so
 * that lines do not mix. A printf could have both formats for each value and suppress one of them
 * with precision 0, but bpftrace 0.27 has no precision 0 for numbers. So there is one printf for
 * each combination of ints and other values.
 */
#include "bpftrace/script.h"

#include <stdlib.h>
#include <string.h>

#include "program/arg_names.h"
#include "program/arg_places.h"
#include "program/wrapper_args.h"

enum {
	MAX_ARGS = 16,
	MAX_NAMED_ARGS = 6, /* arg0 to arg5 */
	ARGS_A_PRINTF = 4,  /* more arguments do not fit into the stack */
	EXPRESSION_BYTES = 256,
	MAX_NESTED = 8,
};

/* Move the next operand from TEXT to OPERAND. Return false at the end of TEXT. */
static bool next_operand(const char **text, char *operand, size_t bytes)
{
	size_t n;

	*text += strspn(*text, " ");
	n = strcspn(*text, " ");
	if (n == 0)
		return false;
	snprintf(operand, bytes, "%.*s", (int)n, *text);
	*text += n;
	return true;
}

static size_t count_operands(const char *args)
{
	char operand[2];
	size_t n = 0;

	while (next_operand(&args, operand, sizeof(operand)))
		n++;
	return n;
}

/*
 * Return bpftrace's name for the register at TEXT, and set *BYTES to the length of the register's
 * name in TEXT. NULL: there is no register at TEXT.
 */
static const char *register_name(const char *text, size_t *bytes)
{
	static const char *const names[][2] = {
		{ "%rax", "ax" },  { "%rbx", "bx" },  { "%rcx", "cx" },	 { "%rdx", "dx" },
		{ "%rsi", "si" },  { "%rdi", "di" },  { "%rbp", "bp" },	 { "%rsp", "sp" },
		{ "%r8", "r8" },   { "%r9", "r9" },   { "%r10", "r10" }, { "%r11", "r11" },
		{ "%r12", "r12" }, { "%r13", "r13" }, { "%r14", "r14" }, { "%r15", "r15" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*bytes = strlen(names[i][0]);
		if (strncmp(text, names[i][0], *bytes) == 0 &&
		    (text[*bytes] == '\0' || text[*bytes] == ')'))
			return names[i][1];
	}
	return NULL;
}

/* Write the expression for the word of memory at BASE + OFF. */
static void put_word_expression(char *expression, size_t bytes, const char *base, long long off)
{
	snprintf(expression, bytes, "*(uint64 *)(%s %c %lld)", base, off < 0 ? '-' : '+',
		 off < 0 ? -off : off);
}

/*
 * Convert PLACE to an expression of bpftrace. PLACE is N(%REGISTER), or N(...) around another such
 * PLACE. Return false for anything else.
 */
static bool read_nested(const char *place, char *expression, size_t bytes)
{
	long long offsets[MAX_NESTED];
	size_t n = 0, len = 0;
	char word[EXPRESSION_BYTES / 2];
	const char *name = NULL;

	while (n < MAX_NESTED && !name) {
		char *end;

		offsets[n++] = strtoll(place, &end, 0);
		if (*end != '(')
			return false;
		place = end + 1;
		name = register_name(place, &len);
	}
	if (!name || strspn(place + len, ")") != n || place[len + n])
		return false;
	snprintf(expression, bytes, "reg(\"%s\")", name);
	while (n--) {
		if (strlen(expression) >= sizeof(word))
			return false;
		memcpy(word, expression, strlen(expression) + 1);
		put_word_expression(expression, bytes, word, offsets[n]);
	}
	return true;
}

/*
 * Convert OPERAND to an expression of bpftrace. OPERAND has one of the forms SIZE@%REGISTER,
 * SIZE@N(%REGISTER), SIZE@N(N(%REGISTER)) and so on, or SIZE@$NUMBER, where SIZE is 8 or -8, the
 * size of an OCaml value. Return false for any other operand.
 */
static bool read_operand(const char *operand, char *expression, size_t bytes)
{
	const char *name;
	long long off;
	size_t len;
	char *end;

	if (strncmp(operand, "8@", 2) != 0 && strncmp(operand, "-8@", 3) != 0)
		return false;
	operand = strchr(operand, '@') + 1;
	name = register_name(operand, &len);
	if (name && operand[len] == '\0') {
		snprintf(expression, bytes, "reg(\"%s\")", name);
		return true;
	}
	if (*operand == '$') {
		off = strtoll(operand + 1, &end, 0);
		snprintf(expression, bytes, "%lld", off);
		return end != operand + 1 && !*end;
	}
	return read_nested(operand, expression, bytes);
}

static bool has_same_args(const struct bpftrace_group *group)
{
	for (size_t i = 1; i < group->n_sites; i++)
		if (strcmp(group->sites[i].site->args, group->sites[0].site->args) != 0)
			return false;
	return true;
}

/*
 * Return the number of arguments that a usdt: probe can print: those that all sites of GROUP have.
 */
static size_t common_args(const struct bpftrace_group *group)
{
	size_t least = MAX_ARGS;

	for (size_t i = 0; i < group->n_sites; i++) {
		size_t n = count_operands(group->sites[i].site->args);

		least = n < least ? n : least;
	}
	/*
	 * Arguments beyond arg5 are read from registers, so all sites must have them in the same
	 * registers.
	 */
	return !has_same_args(group) && least > MAX_NAMED_ARGS ? MAX_NAMED_ARGS : least;
}

/* Copy operand number I (from 0) of ARGS to OPERAND; "" if ARGS has fewer operands. */
static void take_operand(const char *args, size_t i, char *operand, size_t bytes)
{
	operand[0] = '\0';
	do
		if (!next_operand(&args, operand, bytes))
			operand[0] = '\0';
	while (operand[0] && i--);
}

/* Return the operands in the note of SITE, which bpftrace reads. */
static const char *noted_args(const struct site *site)
{
	return site->corrected ? site->corrected->note : site->args;
}

/*
 * Return true if argument I has the right place in the note of each site of GROUP. bpftrace reads
 * the notes.
 */
static bool is_as_noted(const struct bpftrace_group *group, size_t i)
{
	char operand[128], noted[128];

	for (size_t j = 0; j < group->n_sites; j++) {
		take_operand(group->sites[j].site->args, i, operand, sizeof(operand));
		take_operand(noted_args(group->sites[j].site), i, noted, sizeof(noted));
		if (strcmp(operand, noted) != 0)
			return false;
	}
	return true;
}

enum arg_use {
	ARG_SHOWN,
	ARG_LEFT_OUT, /* the argument's place is unknown, or the note has a wrong place for it */
	/* An unboxed float: bpftrace has no floats, and cannot read later arguments of the note. */
	ARG_FLOAT,
	/* bpftrace cannot express this argument. It and all later arguments are not printed. */
	ARG_NOT_SAYABLE,
};

/*
 * Return true if one of the arguments FIRST to LAST (inclusive) is a float at SITE or, for a usdt:
 * probe, at any site of GROUP.
 */
static bool has_float(const struct bpftrace_group *group, const struct bpftrace_site *site,
		      size_t first, size_t last)
{
	char operand[128];

	for (size_t j = 0; j < group->n_sites; j++)
		for (size_t i = first; i <= last; i++) {
			const char *args = group->provider ? group->sites[j].site->args : site->site->args;

			take_operand(args, i, operand, sizeof(operand));
			if (strncmp(operand, "8f@", strlen("8f@")) == 0)
				return true;
		}
	return false;
}

/*
 * Write bpftrace's expression for argument I of SITE, or of all sites of a usdt: probe, to
 * EXPRESSION. Return ARG_SHOWN, or why the argument cannot be printed.
 */
static enum arg_use use_arg(const struct bpftrace_group *group, const struct bpftrace_site *site,
			    size_t i, char *expression, size_t bytes)
{
	char operand[128], *place;

	take_operand(site->site->args, i, operand, sizeof(operand));
	place = strchr(operand, '@');
	if (has_float(group, site, i, i))
		return ARG_FLOAT;
	if (group->provider && i < MAX_NAMED_ARGS && is_as_noted(group, i) &&
	    !has_float(group, site, 0, i)) {
		snprintf(expression, bytes, "arg%zu", i);
		return ARG_SHOWN;
	}
	if (place && strcmp(place + 1, UNKNOWN_PLACE) == 0)
		return ARG_LEFT_OUT;
	if (group->provider && !has_same_args(group))
		return ARG_LEFT_OUT;
	return read_operand(operand, expression, bytes) ? ARG_SHOWN : ARG_NOT_SAYABLE;
}

/*
 * Write NAME as part of a printf format, with % doubled: OCaml functions can be called (%%), for
 * example.
 */
static void put_name(FILE *f, const char *name)
{
	for (; *name; name++) {
		if (*name == '%')
			fputc('%', f);
		fputc(*name, f);
	}
}

/* Return the names of the arguments if they are the same at all sites, otherwise "". */
static const char *common_names(const struct bpftrace_group *group)
{
	const char *names = group->sites[0].site->arg_names;

	for (size_t i = 1; i < group->n_sites; i++)
		if (strcmp(group->sites[i].site->arg_names, names) != 0)
			return "";
	return names;
}

/* Write the name of argument ARG and "="; without a name, "argN=". */
static void put_arg_name(FILE *f, const char *names, size_t arg)
{
	char name[OCP_ARG_NAME_BYTES];

	ocp_arg_name(names, arg, name);
	if (*name)
		fprintf(f, " %s=", name);
	else
		fprintf(f, " arg%zu=", arg);
}

/*
 * Write a printf statement that prints one line with the N arguments whose numbers are in ARGS, in
 * that order. If bit I of INTS is set, argument ARGS[I] is an int and is printed in decimal,
 * otherwise in hexadecimal.
 */
static void put_printf(FILE *f, const struct bpftrace_group *group, const size_t *args, size_t n,
		       unsigned int ints)
{
	fputs("printf(\"%d.%06d %d ", f);
	put_name(f, group->name);
	for (size_t i = 0; i < n; i++) {
		put_arg_name(f, common_names(group), args[i]);
		fputs(ints >> i & 1 ? "%lld" : "0x%llx", f);
	}
	fputs("\\n\", elapsed / 1000000000, elapsed % 1000000000 / 1000, tid", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, ", $a%zu", args[i]);
	fputs(");\n", f);
}

/*
 * Write statements that set bit I of $ints if argument ARGS[I] is an OCaml int, and that decode
 * these ints.
 */
static void put_decoding(FILE *f, const size_t *args, size_t n)
{
	fputs("	$ints = ", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s(($a%zu & 1) << %zu)", i ? " | " : "", args[i], i);
	fputs(";\n", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f,
			"	$a%zu = $a%zu & 1 ? ($a%zu >> 1) | (($a%zu >> 63) << 63) : $a%zu;\n",
			args[i], args[i], args[i], args[i], args[i]);
}

/*
 * Write statements that print one line with the N arguments of ARGS: a printf for each combination
 * of ints and other values, of which the hit executes the one for its own combination.
 */
static void put_line(FILE *f, const struct bpftrace_group *group, const size_t *args, size_t n)
{
	unsigned int ints = (1U << n) - 1;

	if (!n) {
		fputc('\t', f);
		put_printf(f, group, args, n, ints);
		return;
	}
	put_decoding(f, args, n);
	for (const char *before = "	"; before; before = ints-- ? " else " : NULL) {
		fputs(before, f);
		if (ints)
			fprintf(f, "if ($ints == %u) ", ints);
		fputs("{\n		", f);
		put_printf(f, group, args, n, ints);
		fputs("	}", f);
	}
	fputc('\n', f);
}

/* Write the block that prints the arguments of a hit of SITE, or of any site of a usdt: probe. */
static void put_hit(FILE *f, const struct bpftrace_group *group, const struct bpftrace_site *site)
{
	size_t n = group->provider ? common_args(group) : count_operands(site->site->args);
	size_t shown[MAX_ARGS], n_shown = 0;
	enum arg_use use = ARG_SHOWN;
	char expression[EXPRESSION_BYTES];

	fputs("{\n", f);
	for (size_t i = 0; i < n && i < MAX_ARGS && use != ARG_NOT_SAYABLE; i++) {
		use = use_arg(group, site, i, expression, sizeof(expression));
		if (use != ARG_SHOWN)
			continue;
		fprintf(f, "	$a%zu = (uint64)%s;\n", i, expression);
		shown[n_shown++] = i;
	}
	for (size_t i = 0; i == 0 || i < n_shown; i += ARGS_A_PRINTF)
		put_line(f, group, shown + i,
			 n_shown - i > ARGS_A_PRINTF ? ARGS_A_PRINTF : n_shown - i);
	fputs("}\n", f);
}

void script_put_args(FILE *f, const struct bpftrace_plan *plan)
{
	for (size_t i = 0; i < plan->n_groups; i++) {
		const struct bpftrace_group *group = &plan->groups[i];

		if (group->provider) {
			script_put_points(f, group, "");
			script_put_predicate(f, plan, NULL);
			put_hit(f, group, &group->sites[0]);
			continue;
		}
		for (size_t j = 0; j < group->n_sites; j++) {
			script_put_uprobe(f, group, &group->sites[j]);
			script_put_predicate(f, plan, group->sites[j].site);
			put_hit(f, group, &group->sites[j]);
		}
	}
}

static void put_left_out(FILE *f, const struct bpftrace_group *group, unsigned int left_out)
{
	const char *fault = NULL;

	for (size_t i = 0; !fault && i < group->n_sites; i++)
		if (group->sites[i].site->corrected)
			fault = group->sites[i].site->corrected->fault;
	if (!fault)
		fault = "the notes, which bpftrace reads, do not tell it, and the sites differ";
	for (size_t i = 0; i < MAX_ARGS; i++)
		if (left_out >> i & 1)
			fprintf(f, "# %s: arg%zu is left out where its place is not known: %s.\n",
				group->name, i, fault);
}

static void put_floats(FILE *f, const struct bpftrace_group *group, unsigned int floats)
{
	char operand[128];

	for (size_t i = 0; i < MAX_ARGS; i++) {
		if (!(floats >> i & 1))
			continue;
		take_operand(group->sites[0].site->args, i, operand, sizeof(operand));
		fprintf(f, "# %s: arg%zu is left out: it is %s.\n", group->name, i,
			arg_is_in_float_register(operand, strlen(operand))
				? ARG_FLOAT_REGISTER
				: "a float that is not boxed, and bpftrace has no floats");
	}
}

void script_put_arg_limits(FILE *f, const struct bpftrace_group *group)
{
	size_t most = 0, shown = group->provider ? common_args(group) : MAX_ARGS;
	unsigned int left_out = 0, floats = 0;
	char expression[EXPRESSION_BYTES];

	for (size_t i = 0; i < group->n_sites; i++) {
		size_t n = count_operands(group->sites[i].site->args);

		most = n > most ? n : most;
		/*
		 * All sites of a usdt: probe have the same expressions for their arguments, so look
		 * only at the first site.
		 */
		for (size_t j = 0; j < shown && j < n && (i == 0 || !group->provider); j++) {
			enum arg_use use =
				use_arg(group, &group->sites[i], j, expression, sizeof(expression));

			if (use == ARG_NOT_SAYABLE)
				shown = j;
			else if (use == ARG_LEFT_OUT)
				left_out |= 1u << j;
			else if (use == ARG_FLOAT)
				floats |= 1u << j;
		}
	}
	put_left_out(f, group, left_out);
	put_floats(f, group, floats);
	if (shown < most)
		fprintf(f,
			"# %s: only the first %zu of up to %zu arguments: bpftrace cannot say the "
			"others for all its sites at once.\n",
			group->name, shown, most);
}
