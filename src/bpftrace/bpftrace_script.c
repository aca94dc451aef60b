// SPDX-License-Identifier: MIT
/*
 * Write a plan as a shell command, preceded by comments that tell the user what the command does.
 *
 * The script uses the syntax and the limits of bpftrace 0.17; for example, its strings have 64
 * bytes.
 */
#include "bpftrace/script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/plural.h"
#include "base/sanitize.h"
#include "process/process.h"
#include "program/item.h"

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
			"goes to no other.\n"
			"# A hit there costs up to ten times as much as where `attach --count` counts.\n",
			plan->n_at_entry, plural(plan->n_at_entry));
	if (plan->omits_p)
		fputs("# There is no -p: with -p, bpftrace confuses files of one process and\n"
		      "# does not find files that were deleted or are in a container.\n",
		      f);
	if (plan->needs_checks)
		fputs("# This needs a bpftrace that can check instructions, since the file has symbols and is\n"
		      "# position-independent: 0.17 of Debian 12 cannot. `attach --count` needs none.\n",
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
	/* BEGIN and END count as probes, too. */
	size_t n = plan->n_sites + 2, longest = 0;

	if (n > DEFAULT_LIMIT)
		fprintf(f, "BPFTRACE_MAX_PROBES=%zu BPFTRACE_MAX_BPF_PROGS=%zu ", n, n);
	/* Each active call has a key; so has each call that an exception has ended. */
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
