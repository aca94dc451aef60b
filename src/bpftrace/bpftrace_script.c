// SPDX-License-Identifier: MIT
/*
 * Write a plan as a shell command, preceded by comments that tell the user what the command does.
 *
 * The script uses the syntax and the limits of bpftrace 0.17; for example, its strings have 64
 * bytes.
 */
#include "bpftrace/bpftrace_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/plural.h"
#include "base/sanitize.h"
#include "process/process.h"
#include "program/arg_names.h"
#include "program/arg_places.h"
#include "program/item.h"
#include "program/program.h"
#include "program/wrapper_args.h"

/* ---- attach points --------------------------------------------------------------------------- */

/* This part writes the attach points and the predicate of a clause. */

static void put_file(FILE *f, const char *file)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_/.-+";
	const char *quote = file[strspn(file, plain)] ? "\"" : "";

	fprintf(f, "%s%s%s", quote, file, quote);
}

/* Write the attach point of SITE. */
static void script_put_uprobe(FILE *f, const struct bpftrace_group *group,
			      const struct bpftrace_site *site)
{
	fputs(site->site->is_return ? "uretprobe:" : "uprobe:", f);
	put_file(f, group->file);
	fprintf(f, ":0x%" PRIx64, site->at);
}

/*
 * Write all attach points of GROUP, one per line, the first one after SEPARATOR. Return the
 * separator to pass to the next call.
 */
static const char *script_put_points(FILE *f, const struct bpftrace_group *group,
				     const char *separator)
{
	for (size_t i = 0; !group->provider && i < group->n_sites; i++) {
		fputs(separator, f);
		script_put_uprobe(f, group, &group->sites[i]);
		separator = ",\n";
	}
	if (!group->provider)
		return separator;
	fputs(separator, f);
	fputs("usdt:", f);
	put_file(f, group->file);
	/* A provider with a dot must be quoted. */
	if (strchr(group->provider, '.'))
		fprintf(f, ":\"%s\":%s", group->provider, group->name);
	else
		fprintf(f, ":%s:%s", group->provider, group->name);
	return ",\n";
}

/* Write BEFORE and the condition of site CODE. Return false if the site has no condition. */
static bool put_condition(FILE *f, const struct site *code, const char *before)
{
	static const char *const registers[] = { "di", "si", "dx", "cx", "r8", "r9" };

	if (!code || code->condition == SITE_ALWAYS)
		return false;
	if (code->condition == SITE_IF_TRUE)
		fprintf(f, "%s(uint32)reg(\"ax\") != 0", before);
	else
		fprintf(f, "%s(uint32)reg(\"%s\") != %" PRIu32, before,
			registers[code->condition - SITE_ARGUMENT_1], code->unless);
	return true;
}

/*
 * End the line of attach points, and write the predicate: it selects the process of PLAN (if it has
 * one), and the hits that meet the condition of CODE (NULL: no condition).
 */
static void script_put_predicate(FILE *f, const struct bpftrace_plan *plan, const struct site *code)
{
	/*
	 * A predicate is needed even with -p: with -p alone, a uprobe counts all processes that run
	 * the file.
	 */
	bool is_open = plan->pid != 0;

	if (is_open)
		fprintf(f, "\n/pid == %d", (int)plan->pid);
	is_open |= put_condition(f, code, is_open ? " && " : "\n/");
	fputs(is_open ? "/\n" : "\n", f);
}

/* ---- arguments ------------------------------------------------------------------------------- */

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
 * name in TEXT. NULL: TEXT does not begin with a register that the end of TEXT or ')' follows.
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
 * Return the number of arguments that can be printed for a usdt: probe: all sites of GROUP must
 * have these arguments.
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

/* Return the operands as they are in the note of SITE: bpftrace reads the note. */
static const char *noted_args(const struct site *site)
{
	return site->corrected ? site->corrected->note : site->args;
}

/*
 * Return true if the notes of all sites of GROUP have the right place for argument I. (bpftrace
 * reads the place from the notes.)
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
	/*
	 * The argument's place is unknown, or bpftrace cannot read the argument from the notes and
	 * the sites have different arguments.
	 */
	ARG_LEFT_OUT,
	/*
	 * The argument is an unboxed float: bpftrace has no floats, and cannot read the arguments
	 * after it in the note.
	 */
	ARG_FLOAT,
	/*
	 * bpftrace has no expression for this argument. This argument and all later ones are not
	 * printed.
	 */
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
			const char *args =
				group->provider ? group->sites[j].site->args : site->site->args;

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
 * Write NAME as part of a printf format, with each % doubled. For example, an OCaml function can
 * have the name (%%).
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

/* Write "NAME=" if argument ARG has a name in NAMES, otherwise "argN=". */
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
 * Write statements that set bit I of $ints if argument ARGS[I] is an OCaml int, and that convert
 * these OCaml ints to plain numbers.
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
 * Write statements that print one line with the N arguments of ARGS: one printf for each
 * combination of ints and other values. A hit executes only the printf for its combination.
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

/* Write the clauses that print all arguments of each hit. */
static void script_put_args(FILE *f, const struct bpftrace_plan *plan)
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
		fault = "bpftrace reads the notes, which lack the place, and the sites differ";
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
				: "an unboxed float, and bpftrace has no floats");
	}
}

/* Write comments that name the arguments of GROUP that cannot be printed. */
static void script_put_arg_limits(FILE *f, const struct bpftrace_group *group)
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
			"# %s: only the first %zu of up to %zu arguments: bpftrace cannot express the "
			"others for all its sites at once.\n",
			group->name, shown, most);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/*
 * Time the calls of one function, or the pauses of one phase of the collector. The start and the
 * end of a call are matched by its frame, as in bpf/measure_frames.bpf.h: by the stack pointer at
 * the entry of the function or, on an OCaml 5 stack, by the number of the stack and the distance of
 * the stack pointer from the base. So the calls of a recursive function are timed separately, and
 * frames that an exception has removed do no harm.
 */

/* Offsets of OCaml 5.1 to 5.5, in bytes: see bpf/measure_frames.bpf.h. */
enum { STATE_STACK = 40, STACK_HANDLER = 16, STACK_ID = 48 };

/* Return the bits of `events` that say whether SITE begins, ends or confirms a timed call. */
static unsigned int part_of(const struct bpftrace_site *site)
{
	return site->site->events & (SITE_BEGINS | SITE_ENDS | SITE_CONFIRMS);
}

/* Return true if the sites A and B can share one block of the script. */
static bool are_alike(const struct bpftrace_site *a, const struct bpftrace_site *b)
{
	return part_of(a) == part_of(b) && a->depth == b->depth &&
	       a->site->is_on_ocaml_stack == b->site->is_on_ocaml_stack &&
	       a->site->condition == b->site->condition && a->site->unless == b->site->unless;
}

static bool is_confirmed(const struct bpftrace_site *site)
{
	return site->site->events & SITE_IF_CONFIRMED;
}

/*
 * Return false if a site has a condition or needs a confirmation. Such sites are in functions of
 * the runtime, where a start or an end without its counterpart is normal, so orphans are not
 * counted.
 */
static bool script_counts_orphans(const struct bpftrace_plan *plan)
{
	for (size_t i = 0; i < plan->n_sites; i++)
		if (plan->sites[i].site->condition != SITE_ALWAYS || is_confirmed(&plan->sites[i]))
			return false;
	return true;
}

static void put_depth(FILE *f, const char *sign, const char *opposite, int32_t depth)
{
	if (depth)
		fprintf(f, " %s %d", depth > 0 ? sign : opposite, abs(depth));
}

/*
 * Write the expression for the element of the map @entered that belongs to a call. The key of the
 * element identifies the frame of the call.
 */
static void put_entered(FILE *f, const struct bpftrace_site *site)
{
	if (!site->site->is_on_ocaml_stack) {
		fputs("@entered[tid, reg(\"sp\")", f);
		put_depth(f, "+", "-", site->depth);
	} else {
		fprintf(f,
			"@entered[pid, *(uint64 *)($stack + %d), *(uint64 *)($stack + %d) - "
			"reg(\"sp\")",
			STACK_ID, STACK_HANDLER);
		put_depth(f, "-", "+", site->depth);
	}
	fputc(']', f);
}

static void put_stack(FILE *f, const struct bpftrace_site *site)
{
	if (site->site->is_on_ocaml_stack)
		fprintf(f, "	$stack = *(uint64 *)(reg(\"r14\") + %d);\n", STATE_STACK);
}

static void put_beginning(FILE *f, const struct bpftrace_site *site, bool has_orphans)
{
	put_stack(f, site);
	if (is_confirmed(site))
		fputs("	delete(@confirmed[tid]);\n", f);
	if (has_orphans) {
		fputs("	if (", f);
		put_entered(f, site);
		fputs(") { @orphan_starts = count(); }\n", f);
	}
	fputc('\t', f);
	put_entered(f, site);
	fputs(" = nsecs;\n", f);
}

static void put_end(FILE *f, const struct bpftrace_site *site, bool has_orphans)
{
	put_stack(f, site);
	fputs("	$entered = ", f);
	put_entered(f, site);
	fprintf(f, ";\n	if ($entered%s) {\n", is_confirmed(site) ? " && @confirmed[tid]" : "");
	fputs("		$ns = nsecs - $entered;\n"
	      "		@pairs = count();\n"
	      "		@sum_ns = sum($ns);\n"
	      "		@ns = hist($ns);\n",
	      f);
	fprintf(f, "	}%s\n	delete(", has_orphans ? " else { @orphan_stops = count(); }" : "");
	put_entered(f, site);
	fputs(");\n", f);
}

static void put_block(FILE *f, const struct bpftrace_site *site, bool has_orphans)
{
	fputs("{\n", f);
	if (part_of(site) & SITE_BEGINS)
		put_beginning(f, site, has_orphans);
	else if (part_of(site) & SITE_ENDS)
		put_end(f, site, has_orphans);
	else
		fputs("	@confirmed[tid] = 1;\n", f);
	fputs("}\n", f);
}

/* Return true if site I of GROUP shares the block of an earlier site, which has been written. */
static bool is_written(const struct bpftrace_group *group, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (are_alike(&group->sites[j], &group->sites[i]))
			return true;
	return false;
}

static void put_group(FILE *f, const struct bpftrace_plan *plan, const struct bpftrace_group *group)
{
	for (size_t i = 0; i < group->n_sites; i++) {
		const struct bpftrace_site *site = &group->sites[i];
		const char *separator = "";

		if (is_written(group, i))
			continue;
		for (size_t j = i; j < group->n_sites; j++) {
			if (!are_alike(site, &group->sites[j]))
				continue;
			fputs(separator, f);
			script_put_uprobe(f, group, &group->sites[j]);
			separator = ",\n";
		}
		script_put_predicate(f, plan, site->site);
		put_block(f, site, script_counts_orphans(plan));
	}
}

/* Write the clauses that time the calls of a function, or the pauses of a phase. */
static void script_put_calls(FILE *f, const struct bpftrace_plan *plan)
{
	bool confirms = false;

	for (size_t i = 0; i < plan->n_groups; i++)
		put_group(f, plan, &plan->groups[i]);
	for (size_t i = 0; i < plan->n_sites; i++)
		confirms |= is_confirmed(&plan->sites[i]);
	fprintf(f, "END { clear(@entered);%s }\n", confirms ? " clear(@confirmed);" : "");
}

/* ---- the script ------------------------------------------------------------------------------ */

enum {
	STRING_BYTES = 64, /* the default of BPFTRACE_STRLEN */
	MOST_STRING_BYTES = 200,
	DEFAULT_KEYS = 4096, /* the default number of keys in a map */
	CALL_KEYS = 65536,
	DEFAULT_LIMIT = 512, /* the default limit of bpftrace for probes, and for programs */
	MANY_SITES = 50,     /* detaching from this number of sites takes seconds */
};

/* ---- clauses -------------------------------------------------------------------------------- */

/* Write the attach points of the groups called NAME (NULL: of all groups), and the predicate. */
static void put_clause(FILE *f, const struct bpftrace_plan *plan, const char *name)
{
	const struct site *code = NULL;
	const char *separator = "";

	for (size_t i = 0; i < plan->n_groups; i++)
		if (!name || strcmp(plan->groups[i].name, name) == 0) {
			separator = script_put_points(f, &plan->groups[i], separator);
			/* All sites that count a phase have the same condition. */
			code = plan->groups[i].sites[0].site;
		}
	script_put_predicate(f, plan, code);
}

/* ---- actions at a hit ----------------------------------------------------------------------- */

static void put_count(FILE *f, const struct bpftrace_plan *plan)
{
	if (plan->n_uprobes == 0) {
		put_clause(f, plan, NULL);
		fputs("{ @[probe] = count(); }\n", f);
		return;
	}
	for (size_t i = 0; i < plan->n_names; i++) {
		put_clause(f, plan, plan->names[i]);
		fprintf(f, "{ @[\"%s\"] = count(); }\n", plan->names[i]);
	}
}

static void put_time(FILE *f, const struct bpftrace_plan *plan)
{
	put_clause(f, plan, plan->names[0]);
	fputs("{\n"
	      "	if (@started[tid]) { @orphan_starts = count(); }\n"
	      "	@started[tid] = nsecs;\n"
	      "}\n",
	      f);
	put_clause(f, plan, plan->names[1]);
	fputs("{\n"
	      "	$started = @started[tid];\n"
	      "	if ($started) {\n"
	      "		$ns = nsecs - $started;\n"
	      "		@pairs = count();\n"
	      "		@sum_ns = sum($ns);\n"
	      "		@ns = hist($ns);\n"
	      "		delete(@started[tid]);\n"
	      "	} else { @orphan_stops = count(); }\n"
	      "}\n"
	      "END { clear(@started); }\n",
	      f);
}

/* ---- comments ------------------------------------------------------------------------------- */

static bool is_phase(const struct bpftrace_plan *plan)
{
	const size_t n = strlen(ITEM_GC_PHASE_PREFIX);

	return plan->is_code && strncmp(plan->names[0], ITEM_GC_PHASE_PREFIX, n) == 0;
}

/* Return the word for what the names of PLAN are: "probe", "phase" or "function". */
static const char *kind_of_names(const struct bpftrace_plan *plan)
{
	return !plan->is_code ? "probe" : is_phase(plan) ? "phase" : "function";
}

static void put_what(FILE *f, const struct bpftrace_plan *plan, enum ocp_bpftrace what)
{
	const char *sites = plural(plan->n_sites);

	if (what == OCP_BPFTRACE_COUNT)
		fprintf(f, "# Counts the hits of %zu %s%s (%zu site%s)", plan->n_names,
			kind_of_names(plan), plural(plan->n_names), plan->n_sites, sites);
	else if (plan->times_calls)
		fprintf(f, "# Measures the time of each %s of %s (%zu site%s)",
			is_phase(plan) ? "pause" : "call", plan->names[0], plan->n_sites, sites);
	else if (what == OCP_BPFTRACE_TIME)
		fprintf(f, "# Measures the time from %s to %s in one thread (%zu site%s)",
			plan->names[0], plan->names[1], plan->n_sites, sites);
	else
		fprintf(f, "# Prints time, thread, %s and arguments of every hit (%zu site%s)",
			kind_of_names(plan), plan->n_sites, sites);
}

static void put_about(FILE *f, const struct bpftrace_plan *plan, enum ocp_bpftrace what,
		      const char *owner)
{
	put_what(f, plan, what);
	fputs(" of ", f);
	if (plan->pid)
		fprintf(f, "pid %d, ", (int)plan->pid);
	put_one_line(f, owner);
	fputs(plan->pid ? ". End it with Ctrl-C.\n"
			: ", in every process that runs it. End it with Ctrl-C.\n",
	      f);
	if (what == OCP_BPFTRACE_TIME && !plan->times_calls)
		fputs("# The times do not nest: a second start before the stop makes the first one an "
		      "orphan start.\n",
		      f);
	if (plan->times_calls && script_counts_orphans(plan))
		fputs("# A call that an exception ends is an orphan start when its frame is used again.\n",
		      f);
}

static void put_limits(FILE *f, const struct bpftrace_plan *plan, enum ocp_bpftrace what)
{
	for (size_t i = 0; i < plan->n_absent; i++)
		fprintf(f, "# '%s': not traced: the compiler left its sites out.\n",
			plan->absent[i]);
	for (size_t i = 0; i < plan->n_groups; i++) {
		const struct bpftrace_group *group = &plan->groups[i];

		if (group->why)
			fprintf(f, "# '%s': uprobes, without a semaphore: %s.\n", group->name,
				group->why);
		if (group->n_absent)
			fprintf(f,
				"# '%s': %zu of its %zu uses have no site; they are not traced.\n",
				group->name, group->n_absent, group->n_uses);
		if (what == OCP_BPFTRACE_ARGS)
			script_put_arg_limits(f, group);
	}
	if (plan->n_at_entry)
		fprintf(f,
			"# %zu place%s: the first instruction of the function, since Debian's bpftrace "
			"attaches nowhere else.\n"
			"# A hit there costs up to ten times as much as where `attach --count` counts.\n",
			plan->n_at_entry, plural(plan->n_at_entry));
	if (plan->omits_p)
		fputs("# There is no -p: with -p, bpftrace confuses files of one process and\n"
		      "# does not find files that were deleted or are in a container.\n",
		      f);
	if (plan->needs_checks)
		fputs("# This needs a bpftrace that can check instructions, since the file has symbols and is\n"
		      "# position-independent: 0.17 of Debian 12 cannot. `attach --count` needs no bpftrace.\n",
		      f);
	else
		fputs("# bpftrace 0.17 counts each hit once (tested).\n", f);
	if (plan->n_sites > MANY_SITES)
		fprintf(f,
			"# bpftrace attaches to each of the %zu sites separately: ending it may take about "
			"%zu s. `attach --count` does not.\n",
			plan->n_sites, plan->n_sites / 10);
}

/* ---- the whole script ----------------------------------------------------------------------- */

/* Write TEXT in single quotes, for the shell. */
static void put_quoted(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fputc(*text, f);
	}
	fputs("'\n", f);
}

static void put_environment(FILE *f, const struct bpftrace_plan *plan)
{
	/* bpftrace also counts BEGIN and END as probes. */
	size_t n = plan->n_sites + 2, longest = 0;

	if (n > DEFAULT_LIMIT)
		fprintf(f, "BPFTRACE_MAX_PROBES=%zu BPFTRACE_MAX_BPF_PROGS=%zu ", n, n);
	/*
	 * The map needs a key for each active call, and for each call that an exception has ended.
	 */
	if (plan->times_calls)
		fprintf(f, "BPFTRACE_MAP_KEYS_MAX=%d ", CALL_KEYS);
	else if (n > DEFAULT_KEYS)
		fprintf(f, "BPFTRACE_MAP_KEYS_MAX=%zu ", n);
	for (size_t i = 0; i < plan->n_names; i++)
		if (strlen(plan->names[i]) > longest)
			longest = strlen(plan->names[i]);
	if (plan->n_uprobes && longest >= STRING_BYTES)
		fprintf(f, "BPFTRACE_STRLEN=%d ", MOST_STRING_BYTES);
}

static int check_names(struct ocp_ctx *ctx, const struct bpftrace_plan *plan,
		       enum ocp_bpftrace what, const char *names)
{
	if (what == OCP_BPFTRACE_TIME && !plan->times_calls && plan->n_names + plan->n_absent != 2)
		return ctx_error(ctx, -EINVAL, "'%s': not two probes START,STOP", names);
	if (what == OCP_BPFTRACE_TIME && plan->n_absent)
		return ctx_error(ctx, -ENOENT,
				 "probe '%s': the compiler left its sites out, it cannot be traced",
				 plan->absent[0]);
	for (size_t i = 0; plan->n_uprobes && i < plan->n_names; i++)
		if (strlen(plan->names[i]) >= MOST_STRING_BYTES)
			return ctx_error(ctx, -EOPNOTSUPP,
					 "probe '%s': the name is too long for a bpftrace string",
					 plan->names[i]);
	return 0;
}

static int write_program(const struct bpftrace_plan *plan, enum ocp_bpftrace what, char **text)
{
	size_t bytes;
	FILE *f = open_memstream(text, &bytes);

	if (!f)
		return -ENOMEM;
	fputc('\n', f);
	if (what == OCP_BPFTRACE_COUNT)
		put_count(f, plan);
	else if (plan->times_calls)
		script_put_calls(f, plan);
	else if (what == OCP_BPFTRACE_TIME)
		put_time(f, plan);
	else
		script_put_args(f, plan);
	return fclose(f) == 0 ? 0 : -ENOMEM;
}

static int write_script(struct ocp_ctx *ctx, const struct bpftrace_plan *plan,
			enum ocp_bpftrace what, const char *owner, char **script)
{
	char *program = NULL;
	size_t bytes;
	FILE *f = NULL;
	int err = write_program(plan, what, &program);

	if (!err)
		f = open_memstream(script, &bytes);
	if (f) {
		put_about(f, plan, what, owner);
		put_limits(f, plan, what);
		put_environment(f, plan);
		fprintf(f, "bpftrace%s", plan->n_uprobes ? " --unsafe" : "");
		if (plan->pid && !plan->omits_p)
			fprintf(f, " -p %d", (int)plan->pid);
		fputs(" -e ", f);
		put_quoted(f, program);
	}
	if (!f || fclose(f) != 0)
		err = ctx_no_memory(ctx);
	free(program);
	return err;
}

int ocp_process_bpftrace(struct ocp_process *proc, enum ocp_bpftrace what, const char *names,
			 char **script)
{
	struct bpftrace_plan plan;
	int err = bpftrace_plan_process(proc, what, names, &plan);

	*script = NULL;
	if (err)
		return err;
	err = check_names(proc->ctx, &plan, what, names);
	if (!err)
		err = write_script(proc->ctx, &plan, what, proc->images.exe_path, script);
	bpftrace_plan_free(&plan);
	return err;
}

int ocp_program_bpftrace(struct ocp_program *prog, const char *path, enum ocp_bpftrace what,
			 const char *names, char **script)
{
	struct bpftrace_plan plan;
	int err = bpftrace_plan_program(prog, path, what, names, &plan);

	*script = NULL;
	if (err)
		return err;
	err = check_names(prog->ctx, &plan, what, names);
	if (!err)
		err = write_script(prog->ctx, &plan, what, path, script);
	bpftrace_plan_free(&plan);
	return err;
}
