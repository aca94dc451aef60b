// SPDX-License-Identifier: MIT
/*
 * Writes a plan as a shell command, with comments for the reader before it.
 *
 * The script uses the syntax and the limits of bpftrace 0.17: arg0 to arg5 only, 512 bytes of stack
 * per program (so few arguments per printf), >> that shifts in zeros, strings of 64 bytes. An OCaml
 * int is printed as an int, other values in hexadecimal. Each line is a single printf, so that
 * lines do not mix. There is one printf for each combination of kinds, because 0.27 has no
 * precision 0 for numbers, which could suppress one of two values.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpftrace/bpftrace_plan.h"
#include "base/plural.h"
#include "base/ctx.h"
#include "program/wrapper_args.h"
#include "process/process.h"

enum {
	MAX_ARGS = 16,
	MAX_NAMED_ARGS = 6, /* arg0 ... */
	ARGS_A_PRINTF = 4,  /* more do not fit into the stack */
	STRING_BYTES = 64,  /* the default of BPFTRACE_STRLEN */
	MOST_STRING_BYTES = 200,
	DEFAULT_LIMIT = 512, /* of bpftrace, for its probes and programs */
	MANY_SITES = 50,     /* detaching from these takes seconds */
};

/* ---- attach points -------------------------------------------------------------------------- */

static void put_file(FILE *f, const char *file)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_/.-+";
	const char *quote = file[strspn(file, plain)] ? "\"" : "";

	fprintf(f, "%s%s%s", quote, file, quote);
}

static void put_uprobe(FILE *f, const struct bpftrace_group *group,
		       const struct bpftrace_site *site)
{
	fputs("uprobe:", f);
	put_file(f, group->file);
	fprintf(f, ":0x%" PRIx64, site->at);
}

/* Write the attach points of a group, one per line. SEPARATOR comes before the first one. */
static const char *put_points(FILE *f, const struct bpftrace_group *group, const char *separator)
{
	for (size_t i = 0; !group->provider && i < group->n_sites; i++) {
		fputs(separator, f);
		put_uprobe(f, group, &group->sites[i]);
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

/*
 * Write the attach points of the groups called NAME, or of all groups if it is NULL, and the
 * predicate.
 */
static void put_clause(FILE *f, const struct bpftrace_plan *plan, const char *name)
{
	const char *separator = "";

	for (size_t i = 0; i < plan->n_groups; i++)
		if (!name || strcmp(plan->groups[i].name, name) == 0)
			separator = put_points(f, &plan->groups[i], separator);
	if (plan->by_predicate)
		fprintf(f, "\n/pid == %d/", (int)plan->pid);
	fputc('\n', f);
}

/* ---- what is done at a hit ------------------------------------------------------------------ */

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

/* Remove the next operand from TEXT; returns false at its end. */
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

/* bpftrace's name for the register at TEXT. *BYTES is set to its length in TEXT. */
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

/*
 * Convert OPERAND to an expression of bpftrace: SIZE@%REGISTER, SIZE@N(%REGISTER) or SIZE@$NUMBER,
 * where SIZE is that of an OCaml value. Returns false for any other argument.
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
	off = strtoll(operand, &end, 0);
	name = *end == '(' ? register_name(end + 1, &len) : NULL;
	if (!name || strcmp(end + 1 + len, ")") != 0)
		return false;
	snprintf(expression, bytes, "*(uint64 *)(reg(\"%s\") %c %lld)", name, off < 0 ? '-' : '+',
		 off < 0 ? -off : off);
	return true;
}

static bool has_same_args(const struct bpftrace_group *group)
{
	for (size_t i = 1; i < group->n_sites; i++)
		if (strcmp(group->sites[i].args, group->sites[0].args) != 0)
			return false;
	return true;
}

/* The number of arguments that a usdt: probe can print: those that all of its sites have. */
static size_t common_args(const struct bpftrace_group *group)
{
	size_t least = MAX_ARGS;

	for (size_t i = 0; i < group->n_sites; i++) {
		size_t n = count_operands(group->sites[i].args);

		least = n < least ? n : least;
	}
	/*
	 * Arguments beyond the named ones are read from registers, which must be the same at all
	 * sites.
	 */
	return !has_same_args(group) && least > MAX_NAMED_ARGS ? MAX_NAMED_ARGS : least;
}

/* Operand number I of ARGS, or "". */
static void take_operand(const char *args, size_t i, char *operand, size_t bytes)
{
	operand[0] = '\0';
	do
		if (!next_operand(&args, operand, bytes))
			operand[0] = '\0';
	while (operand[0] && i--);
}

/* True if every site of GROUP has argument I where its note, which bpftrace reads, says. */
static bool is_as_noted(const struct bpftrace_group *group, size_t i)
{
	char operand[128], noted[128];

	for (size_t j = 0; j < group->n_sites; j++) {
		take_operand(group->sites[j].args, i, operand, sizeof(operand));
		take_operand(group->sites[j].noted_args, i, noted, sizeof(noted));
		if (strcmp(operand, noted) != 0)
			return false;
	}
	return true;
}

enum arg_use {
	ARG_SHOWN,
	ARG_LEFT_OUT,	 /* its place is unknown, or bpftrace has a wrong place */
	ARG_NOT_SAYABLE, /* it cannot be expressed, and neither can later ones */
};

/* How to express argument I of SITE, or of all sites of a usdt: probe. */
static enum arg_use use_arg(const struct bpftrace_group *group, const struct bpftrace_site *site,
			    size_t i, char *expression, size_t bytes)
{
	char operand[128], *place;

	take_operand(site->args, i, operand, sizeof(operand));
	place = strchr(operand, '@');
	if (group->provider && i < MAX_NAMED_ARGS && is_as_noted(group, i)) {
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
 * Print N arguments, number ARGS[0] first, in one line. The bits of INTS tell which of them are
 * ints.
 */
static void put_printf(FILE *f, const char *name, const size_t *args, size_t n, unsigned int ints)
{
	fprintf(f, "printf(\"%%d.%%06d %%d %s", name);
	for (size_t i = 0; i < n; i++)
		fprintf(f, ints >> i & 1 ? " arg%zu=%%lld" : " arg%zu=0x%%llx", args[i]);
	fputs("\\n\", elapsed / 1000000000, elapsed % 1000000000 / 1000, tid", f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, ", $a%zu", args[i]);
	fputs(");\n", f);
}

/* Set $ints to the bits of the values that are ints, and decode these values. */
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

/* Print one line with N arguments of any kind: one printf for each combination of kinds. */
static void put_line(FILE *f, const char *name, const size_t *args, size_t n)
{
	unsigned int ints = (1U << n) - 1;

	if (!n) {
		fputc('\t', f);
		put_printf(f, name, args, n, ints);
		return;
	}
	put_decoding(f, args, n);
	for (const char *before = "	"; before; before = ints-- ? " else " : NULL) {
		fputs(before, f);
		if (ints)
			fprintf(f, "if ($ints == %u) ", ints);
		fputs("{\n		", f);
		put_printf(f, name, args, n, ints);
		fputs("	}", f);
	}
	fputc('\n', f);
}

/* Print the arguments of SITE, or of all sites of a usdt: probe. */
static void put_hit(FILE *f, const struct bpftrace_group *group, const struct bpftrace_site *site)
{
	size_t n = group->provider ? common_args(group) : count_operands(site->args);
	size_t shown[MAX_ARGS], n_shown = 0;
	enum arg_use use = ARG_SHOWN;
	char expression[64];

	fputs("{\n", f);
	for (size_t i = 0; i < n && i < MAX_ARGS && use != ARG_NOT_SAYABLE; i++) {
		use = use_arg(group, site, i, expression, sizeof(expression));
		if (use != ARG_SHOWN)
			continue;
		fprintf(f, "	$a%zu = (uint64)%s;\n", i, expression);
		shown[n_shown++] = i;
	}
	for (size_t i = 0; i == 0 || i < n_shown; i += ARGS_A_PRINTF)
		put_line(f, group->name, shown + i,
			 n_shown - i > ARGS_A_PRINTF ? ARGS_A_PRINTF : n_shown - i);
	fputs("}\n", f);
}

static void put_predicate(FILE *f, const struct bpftrace_plan *plan)
{
	if (plan->by_predicate)
		fprintf(f, "\n/pid == %d/", (int)plan->pid);
	fputc('\n', f);
}

static void put_args(FILE *f, const struct bpftrace_plan *plan)
{
	for (size_t i = 0; i < plan->n_groups; i++) {
		const struct bpftrace_group *group = &plan->groups[i];

		if (group->provider) {
			put_points(f, group, "");
			put_predicate(f, plan);
			put_hit(f, group, &group->sites[0]);
			continue;
		}
		for (size_t j = 0; j < group->n_sites; j++) {
			put_uprobe(f, group, &group->sites[j]);
			put_predicate(f, plan);
			put_hit(f, group, &group->sites[j]);
		}
	}
}

/* ---- comments ------------------------------------------------------------------------------- */

/* Write a path. A newline in it would end the comment. */
static void put_text(FILE *f, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, f);
}

static void put_about(FILE *f, const struct bpftrace_plan *plan, enum ocp_bpftrace what,
		      const char *owner)
{
	if (what == OCP_BPFTRACE_COUNT)
		fprintf(f, "# Counts the hits of %zu probe%s (%zu site%s)", plan->n_names,
			plural(plan->n_names), plan->n_sites, plural(plan->n_sites));
	else if (what == OCP_BPFTRACE_TIME)
		fprintf(f, "# Measures the time from %s to %s in one thread (%zu site%s)",
			plan->names[0], plan->names[1], plan->n_sites, plural(plan->n_sites));
	else
		fprintf(f, "# Prints time, thread, probe and arguments of every hit (%zu site%s)",
			plan->n_sites, plural(plan->n_sites));
	fputs(" of ", f);
	if (plan->pid)
		fprintf(f, "pid %d, ", (int)plan->pid);
	put_text(f, owner);
	fputs(plan->pid ? ". End it with Ctrl-C.\n"
			: ", in every process that runs it. End it with Ctrl-C.\n",
	      f);
	if (what == OCP_BPFTRACE_TIME)
		fputs("# The times do not nest: a second start before the stop makes the first one an "
		      "orphan start.\n",
		      f);
}

static void put_left_out(FILE *f, const struct bpftrace_group *group, unsigned int left_out)
{
	const char *fault = NULL;

	for (size_t i = 0; !fault && i < group->n_sites; i++)
		fault = group->sites[i].args_fault;
	if (!fault)
		fault = "the notes, which bpftrace reads, are wrong, and the sites differ";
	for (size_t i = 0; i < MAX_ARGS; i++)
		if (left_out >> i & 1)
			fprintf(f, "# %s: arg%zu is left out where its place is not known: %s.\n",
				group->name, i, fault);
}

static void put_arg_limits(FILE *f, const struct bpftrace_group *group)
{
	size_t most = 0, shown = group->provider ? common_args(group) : MAX_ARGS;
	unsigned int left_out = 0;
	char expression[64];

	for (size_t i = 0; i < group->n_sites; i++) {
		size_t n = count_operands(group->sites[i].args);

		most = n > most ? n : most;
		/* Of a usdt: probe all sites are said as the first one is. */
		for (size_t j = 0; j < shown && j < n && (i == 0 || !group->provider); j++) {
			enum arg_use use =
				use_arg(group, &group->sites[i], j, expression, sizeof(expression));

			if (use == ARG_NOT_SAYABLE)
				shown = j;
			else if (use == ARG_LEFT_OUT)
				left_out |= 1u << j;
		}
	}
	put_left_out(f, group, left_out);
	if (shown < most)
		fprintf(f,
			"# %s: only the first %zu of up to %zu arguments: bpftrace cannot say the "
			"others for all its sites at once.\n",
			group->name, shown, most);
}

static void put_limits(FILE *f, const struct bpftrace_plan *plan, enum ocp_bpftrace what)
{
	for (size_t i = 0; i < plan->n_absent; i++)
		fprintf(f, "# '%s': not traced: the compiler left its sites out.\n",
			plan->absent[i]);
	for (size_t i = 0; i < plan->n_groups; i++) {
		const struct bpftrace_group *group = &plan->groups[i];

		if (!group->provider)
			fprintf(f, "# '%s': uprobes, without a semaphore: %s.\n", group->name,
				group->why);
		if (group->n_absent)
			fprintf(f,
				"# '%s': %zu of its %zu uses have no site; they are not traced.\n",
				group->name, group->n_absent, group->n_uses);
		if (what == OCP_BPFTRACE_ARGS)
			put_arg_limits(f, group);
	}
	if (plan->needs_checks)
		fputs("# This needs a bpftrace that can check instructions; Debian 12's cannot.\n",
		      f);
	if (plan->by_predicate)
		fputs("# A predicate replaces -p: with -p, bpftrace confuses files of one process and\n"
		      "# does not find files that were deleted or are in a container.\n",
		      f);
	fprintf(f, "# bpftrace 0.17, 0.23.2%s and 0.27.0 count each hit once (tested).\n",
		plan->by_exe_link && !plan->n_uprobes ? ", 0.26.1" : "");
	if (plan->n_sites > MANY_SITES)
		fprintf(f,
			"# bpftrace attaches to each of the %zu sites separately: ending it may take about "
			"%zu s. `attach --count` does not.\n",
			plan->n_sites, plan->n_sites / 10);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* In single quotes. */
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
	/* BEGIN and END are probes too. */
	size_t n = plan->n_sites + 2, longest = 0;

	if (n > DEFAULT_LIMIT)
		fprintf(f, "BPFTRACE_MAX_PROBES=%zu BPFTRACE_MAX_BPF_PROGS=%zu ", n, n);
	if (n > 4096)
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
	if (what == OCP_BPFTRACE_TIME && plan->n_names + plan->n_absent != 2)
		return ctx_error(ctx, -EINVAL, "'%s': not two probes START,STOP", names);
	if (what == OCP_BPFTRACE_TIME && plan->n_absent)
		return ctx_error(ctx, -ENOENT,
				 "probe '%s': the compiler left its sites out, it cannot be traced",
				 plan->absent[0]);
	for (size_t i = 0; plan->n_uprobes && i < plan->n_names; i++)
		if (strlen(plan->names[i]) >= MOST_STRING_BYTES)
			return ctx_error(ctx, -EOPNOTSUPP,
					 "probe '%s': bpftrace has no strings that long",
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
	else if (what == OCP_BPFTRACE_TIME)
		put_time(f, plan);
	else
		put_args(f, plan);
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
		if (plan->pid && !plan->by_predicate)
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
	int err = bpftrace_plan_process(proc, names, &plan);

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
	int err = bpftrace_plan_program(prog, path, names, &plan);

	*script = NULL;
	if (err)
		return err;
	err = check_names(prog->ctx, &plan, what, names);
	if (!err)
		err = write_script(prog->ctx, &plan, what, path, script);
	bpftrace_plan_free(&plan);
	return err;
}
