// SPDX-License-Identifier: MIT
#include "bpftrace/script.h"

#include <inttypes.h>
#include <string.h>

static void put_file(FILE *f, const char *file)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_/.-+";
	const char *quote = file[strspn(file, plain)] ? "\"" : "";

	fprintf(f, "%s%s%s", quote, file, quote);
}

void script_put_uprobe(FILE *f, const struct bpftrace_group *group,
		       const struct bpftrace_site *site)
{
	fputs(site->site->is_return ? "uretprobe:" : "uprobe:", f);
	put_file(f, group->file);
	fprintf(f, ":0x%" PRIx64, site->at);
}

/* Write one attach point per line. */
const char *script_put_points(FILE *f, const struct bpftrace_group *group, const char *separator)
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

void script_put_predicate(FILE *f, const struct bpftrace_plan *plan, const struct site *code)
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
