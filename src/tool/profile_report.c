// SPDX-License-Identifier: MIT
#include "tool/profile_report.h"

#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "profile/folded_writer.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"
#include "tool/profile_diff_output.h"
#include "tool/profile_files.h"
#include "tool/profile_output.h"

/* The data for the functions that write files. */
struct page {
	const struct profile *profile;
	const struct profile_diff *diff; /* NULL: no comparison */
	const char *title;
};

static int write_html(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct page *page = data;

	return page->diff ? html_write_diff(ctx, page->diff, page->title, to)
			  : html_write(ctx, page->profile, page->title, to);
}

static int write_page_pprof(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct page *page = data;

	return pprof_write(ctx, page->profile, to);
}

static int write_files(struct ocp_ctx *ctx, const struct profile_report *report,
		       const struct page *page)
{
	int err = report->html ? profile_file_write(ctx, report->html, write_html, page) : 0;

	if (!err && report->html && !report->quiet)
		say("%s: written", report->html);
	if (!err && report->pprof)
		err = profile_file_write(ctx, report->pprof, write_page_pprof, page);
	if (!err && report->pprof && !report->quiet)
		say("%s: written", report->pprof);
	return err;
}

/* Print losses that the output format cannot show. */
static void say_losses(const struct profile *profile)
{
	if (profile->lost)
		say("%llu samples lost: the shares are not exact",
		    (unsigned long long)profile->lost);
	if (profile->missing_words)
		say("%llu words of small blocks are missing: no minor heap ran out",
		    (unsigned long long)profile->missing_words);
	if (profile->unsure_words)
		say("the words of small blocks may be wrong by %llu",
		    (unsigned long long)profile->unsure_words);
}

static int print_profile(struct ocp_ctx *ctx, const struct profile_report *report,
			 struct profile *profile)
{
	const enum profile_form form = report->form;

	if (form == PROFILE_JSON)
		return profile_print_json(ctx, profile);
	if (form == PROFILE_TABLE)
		return profile_print_table(ctx, profile);
	if (!report->quiet)
		say_losses(profile);
	profile_merge_lines(profile);
	folded_write(profile, stdout);
	return 0;
}

/*
 * Print the comparison as a table. Fold recursions first, so that stacks that differ only in the
 * depth of a recursion become one stack.
 */
static int print_diff_table(struct ocp_ctx *ctx, struct profile *before, struct profile *now)
{
	struct profile_diff diff;
	int err;

	profile_fold_recursion(before);
	profile_fold_recursion(now);
	err = profile_diff_make(ctx, before, now, &diff);
	if (!err) {
		profile_diff_print_table(&diff);
		profile_diff_free(&diff);
	}
	return err;
}

static int report_diff(struct ocp_ctx *ctx, const struct profile_report *report,
		       struct profile *profile)
{
	struct profile_diff diff;
	int err;

	profile_merge_lines(profile);
	err = profile_diff_make(ctx, report->before, profile, &diff);

	if (err)
		return err;
	err = write_files(ctx, report, &(struct page){ profile, &diff, report->title });
	if (!err && report->form == PROFILE_JSON)
		profile_diff_print_json(&diff);
	else if (!err && report->form == PROFILE_FOLDED)
		profile_diff_print_folded(&diff);
	profile_diff_free(&diff);
	return err || report->form != PROFILE_TABLE
		       ? err
		       : print_diff_table(ctx, report->before, profile);
}

int profile_report(struct ocp_ctx *ctx, const struct profile_report *report,
		   struct profile *profile)
{
	int err;

	if (report->before)
		return report_diff(ctx, report, profile);
	err = write_files(ctx, report, &(struct page){ profile, NULL, report->title });
	return err ? err : print_profile(ctx, report, profile);
}

int profile_read_old(struct ocp_ctx *ctx, const char *path, enum profile_kind kind, bool has_kind,
		     struct read_profile *read)
{
	static const char *const what[] = {
		[PROFILE_CPU] = "CPU time (--cpu)",
		[PROFILE_WAITS] = "waits (--off-cpu)",
		[PROFILE_WORDS] = "allocation (--alloc)",
		[PROFILE_GC] = "the collector (--gc)",
	};
	int err = read_profile_open(ctx, path, kind, read);

	if (err || !has_kind || !read->has_kind || read->profile.kind == kind)
		return err;
	return ctx_error(ctx, -EINVAL, "%s: a profile of %s cannot be compared with one of %s",
			 path, what[read->profile.kind], what[kind]);
}
