// SPDX-License-Identifier: MIT
/*
 * Time the calls of one function, or the pauses of one phase of the collector. The start and the
 * end of a call are matched by its frame, as in bpf/measure_frames.bpf.h: by the stack pointer at
 * the entry of the function or, on an OCaml 5 stack, by the number of the stack and the distance of
 * the stack pointer from the base. So recursive calls nest, and frames that an exception skips do
 * no harm.
 */
#include "bpftrace/script.h"

#include <stdlib.h>

/* Offsets of OCaml 5.1 to 5.3, in bytes: see bpf/measure_frames.bpf.h. */
enum { STATE_STACK = 40, STACK_HANDLER = 16, STACK_ID = 48 };

/* Return whether SITE begins, ends or confirms a timed call, as a bit of `events`. */
static unsigned int part_of(const struct bpftrace_site *site)
{
	return site->site->events & (SITE_BEGINS | SITE_ENDS | SITE_CONFIRMS);
}

/* Return true if A and B can share one block of the script. */
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
bool script_counts_orphans(const struct bpftrace_plan *plan)
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

/* Write the element of the map @entered for a call. Its key identifies the frame of the call. */
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

/* Return true if the block of site I of GROUP has been written, together with an earlier site. */
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

void script_put_calls(FILE *f, const struct bpftrace_plan *plan)
{
	bool confirms = false;

	for (size_t i = 0; i < plan->n_groups; i++)
		put_group(f, plan, &plan->groups[i]);
	for (size_t i = 0; i < plan->n_sites; i++)
		confirms |= is_confirmed(&plan->sites[i]);
	fprintf(f, "END { clear(@entered);%s }\n", confirms ? " clear(@confirmed);" : "");
}
