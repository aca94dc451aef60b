// SPDX-License-Identifier: MIT
/*
 * A plan as text: a command for a shell, with what the reader should know in comments before it.
 *
 * Words of bpftrace 0.17 on, with its limits: arg0 to arg5 only, 512 bytes of stack for a program
 * (hence the few arguments a printf), >> that shifts in zeros, strings of 64 bytes. An OCaml value
 * is printed as the int that it is, or in hexadecimal, by one printf, which no other can come
 * between: a string that says "0", "0x" or nothing, then two numbers of precision 0, which print
 * nothing for 0.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/bpftrace_plan.h"
#include "base/ctx.h"
#include "process/process.h"

enum {
	MAX_ARGS = 16,
	MAX_NAMED_ARGS = 6, /* arg0 ... */
	ARGS_A_PRINTF = 4,  /* more do not fit the stack */
	STRING_BYTES = 64,  /* of bpftrace, unless BPFTRACE_STRLEN says otherwise */
	MOST_STRING_BYTES = 200,
	DEFAULT_LIMIT = 512, /* on its probes and programs */
	MANY_SITES = 50,     /* whose detaching takes seconds */
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

/* All attach points of a group, a line each; SEPARATOR stands before the first one. */
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
	/* The one with a dot has to be quoted. */
	if (strchr(group->provider, '.'))
		fprintf(f, ":\"%s\":%s", group->provider, group->name);
	else
		fprintf(f, ":%s:%s", group->provider, group->name);
	return ",\n";
}

/* The attach points of all groups called NAME, or of all groups if that is NULL, and predicate. */
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

/* The part of TEXT up to the next space, which is taken off it; false at its end. */
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

/* bpftrace's name for the register that stands at TEXT; how long it was is put into *BYTES. */
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
 * What OPERAND stands for in bpftrace's words: SIZE@%REGISTER, SIZE@N(%REGISTER) or SIZE@$NUMBER,
 * the size being that of an OCaml value. False if it is none of these.
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

/* How many arguments a usdt: probe can print: those that all its sites have. */
static size_t common_args(const struct bpftrace_group *group)
{
	size_t least = MAX_ARGS;
	bool same = true;

	for (size_t i = 0; i < group->n_sites; i++) {
		size_t n = count_operands(group->sites[i].args);

		least = n < least ? n : least;
		same = same && strcmp(group->sites[i].args, group->sites[0].args) == 0;
	}
	/* Beyond those that have a name it takes the registers, which must be the same everywhere.
	 */
	return !same && least > MAX_NAMED_ARGS ? MAX_NAMED_ARGS : least;
}

static void put_printf(FILE *f, const char *name, size_t first, size_t end)
{
	fprintf(f, "	printf(\"%%d.%%06d %%d %s", name);
	for (size_t i = first; i < end; i++)
		fprintf(f, " arg%zu=%%s%%.0lld%%.0llx", i);
	fputs("\\n\", elapsed / 1000000000, elapsed % 1000000000 / 1000, tid", f);
	for (size_t i = first; i < end; i++)
		fprintf(f,
			",\n		$a%zu == 1 ? \"0\" : ($a%zu & 1 ? \"\" : \"0x\"), "
			"$a%zu & 1 ? ($a%zu >> 1) | (($a%zu >> 63) << 63) : 0, $a%zu & 1 ? 0 : $a%zu",
			i, i, i, i, i, i, i);
	fputs(");\n", f);
}

/* Print the first N of the arguments ARGS. */
static void put_hit(FILE *f, const struct bpftrace_group *group, const char *args, size_t n)
{
	char operand[128], expression[64];
	size_t i;

	fputs("{\n", f);
	for (i = 0; i < n && next_operand(&args, operand, sizeof(operand)); i++) {
		if (group->provider && i < MAX_NAMED_ARGS)
			snprintf(expression, sizeof(expression), "arg%zu", i);
		else if (!read_operand(operand, expression, sizeof(expression)))
			break;
		fprintf(f, "	$a%zu = (uint64)%s;\n", i, expression);
	}
	n = i;
	for (i = 0; i == 0 || i < n; i += ARGS_A_PRINTF)
		put_printf(f, group->name, i, i + ARGS_A_PRINTF < n ? i + ARGS_A_PRINTF : n);
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
			put_hit(f, group, group->sites[0].args, common_args(group));
			continue;
		}
		for (size_t j = 0; j < group->n_sites; j++) {
			put_uprobe(f, group, &group->sites[j]);
			put_predicate(f, plan);
			put_hit(f, group, group->sites[j].args, MAX_ARGS);
		}
	}
}

/* ---- comments ------------------------------------------------------------------------------- */

/* Of a path: a newline in it would end the comment. */
static void put_text(FILE *f, const char *text)
{
	for (; *text; text++)
		fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, f);
}

static void put_about(FILE *f, const struct bpftrace_plan *plan, enum ocp_bpftrace what,
		      const char *owner)
{
	if (what == OCP_BPFTRACE_COUNT)
		fprintf(f, "# Counts the hits of %zu probe%s (%zu sites)", plan->n_names,
			plan->n_names == 1 ? "" : "s", plan->n_sites);
	else if (what == OCP_BPFTRACE_TIME)
		fprintf(f, "# Times what is between %s and %s in one thread (%zu sites)",
			plan->names[0], plan->names[1], plan->n_sites);
	else
		fprintf(f, "# Prints time, thread, probe and arguments of every hit (%zu sites)",
			plan->n_sites);
	fputs(" of ", f);
	if (plan->pid)
		fprintf(f, "pid %d, ", (int)plan->pid);
	put_text(f, owner);
	fputs(plan->pid ? ". End it with Ctrl-C.\n"
			: ", in every process that runs it. End it with Ctrl-C.\n",
	      f);
	if (what == OCP_BPFTRACE_TIME)
		fputs("# They do not nest here: a start before the stop of the last one makes that an "
		      "orphan.\n",
		      f);
}

static void put_arg_limits(FILE *f, const struct bpftrace_group *group)
{
	char operand[128], expression[64];
	size_t most = 0, shown = group->provider ? common_args(group) : MAX_ARGS;

	for (size_t i = 0; i < group->n_sites; i++) {
		const char *args = group->sites[i].args;
		size_t n = count_operands(args);

		most = n > most ? n : most;
		for (size_t j = 0; j < shown && next_operand(&args, operand, sizeof(operand)); j++)
			if ((!group->provider || j >= MAX_NAMED_ARGS) &&
			    !read_operand(operand, expression, sizeof(expression)))
				shown = j;
	}
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
		if (group->has_absent)
			fprintf(f,
				"# '%s': what the compiler left out of its sites is not traced.\n",
				group->name);
		if (what == OCP_BPFTRACE_ARGS)
			put_arg_limits(f, group);
	}
	if (plan->needs_checks)
		fputs("# This needs a bpftrace that can check instructions; Debian 12's is built "
		      "without.\n",
		      f);
	if (plan->by_predicate)
		fputs("# A predicate stands for -p, with which bpftrace mixes up files of one process "
		      "and\n# does not find one that was deleted or is in a container.\n",
		      f);
	if (plan->n_sites > MANY_SITES)
		fprintf(f,
			"# bpftrace attaches to each of the %zu sites apart: ending it may take about "
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
