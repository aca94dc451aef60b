// SPDX-License-Identifier: MIT
/*
 * `profile`: show where a program spends its time, by stacks. The kernel, or a thread of the tool,
 * takes samples until the end of the session; then the stacks are named and written.
 */
#include "tool/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ctx.h"
#include "cli/cli.h"
#include "look/proc_file.h"
#include "measure/calibrate.h"
#include "measure/meter.h"
#include "process/process_kind.h"
#include "profile/folded_writer.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"
#include "profile/formats/profile_reader.h"
#include "profile/profile_fold.h"
#include "tool/profile_files.h"
#include "tool/profile_output.h"
#include "cli/progress.h"
#include "cli/session.h"

/* ---- the report at the end: files and standard output --------------------------------------- */

enum profile_form { PROFILE_TABLE, PROFILE_JSON, PROFILE_FOLDED };

struct profile_report {
	enum profile_form form;
	const char *html, *pprof; /* files to write; NULL: none */
	const char *title;	  /* title of the HTML page */
	bool quiet;
	bool by_leaf;		/* in tables, words belong to the innermost functions */
	bool is_unfolded;	/* in tables and on the page, functions are not folded */
	struct profile *before; /* older profile to compare with; NULL: none */
	double fail_above;	/* points; negative: growth is no failure */
	char *failure;		/* set to a message if a function has grown too much */
};

/* The data for the functions that write files. */
struct page {
	const struct profile *profile;
	const struct profile_diff *diff; /* NULL: no comparison */
	struct flame_form form;
};

static int write_html(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct page *page = data;

	return page->diff ? html_write_diff(ctx, page->diff, &page->form, to)
			  : html_write(ctx, page->profile, &page->form, to);
}

static int write_page_pprof(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	const struct page *page = data;

	return pprof_write(ctx, page->profile, to);
}

static struct flame_form form_of(const struct profile_report *report)
{
	return (struct flame_form){ .title = report->title, .is_unfolded = report->is_unfolded };
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
		return profile_print_table(
			ctx, profile,
			&(struct profile_table){ profile->kind == PROFILE_WORDS && !report->by_leaf
							 ? SITES_OWN
							 : SITES_LEAF,
						 report->is_unfolded });
	if (!report->quiet)
		say_losses(profile);
	profile_merge_lines(profile);
	folded_write(profile, stdout);
	return 0;
}

/*
 * Print the comparison as a table. Fold recursions first, so that stacks that differ only in the
 * depth of a recursion become one stack, and libraries, unless IS_UNFOLDED.
 */
static int print_diff_table(struct ocp_ctx *ctx, struct profile *before, struct profile *now,
			    bool is_unfolded)
{
	char libraries[FOLDED_TEXT_BYTES] = "";
	struct profile_diff diff;
	int err;

	if (!is_unfolded) {
		profile_fold_libraries(before, libraries);
		profile_fold_libraries(now, libraries);
	}
	profile_fold_repeats(before);
	profile_fold_repeats(now);
	err = profile_diff_make(ctx, before, now, &diff);
	if (!err) {
		profile_diff_print_table(&diff, libraries);
		profile_diff_free(&diff);
	}
	return err;
}

/*
 * Set the `failure` of REPORT if the share of a function has grown by more than --fail-above. Name
 * the functions that have grown most. Return 0 or a negative errno.
 */
static int check_growth(struct ocp_ctx *ctx, struct profile_report *report,
			const struct profile_diff *diff)
{
	enum { MAX_NAMED = 3 };
	const struct profile_diff_function *worst[MAX_NAMED];
	const size_t max = MAX_NAMED;
	size_t bytes, n;
	FILE *text;

	if (report->fail_above < 0)
		return 0;
	if (diff->old_samples <= 0 || diff->new_samples <= 0)
		return ctx_error(ctx, -EINVAL,
				 "--fail-above: nothing is decided: the number of samples is %s",
				 diff->new_profile->samples ? "not known" : "0");
	n = profile_diff_grown(diff, report->fail_above, worst, max);
	if (!n)
		return 0;
	text = open_memstream(&report->failure, &bytes);
	if (!text)
		return ctx_no_memory(ctx);
	fprintf(text, "--fail-above %g: %zu function%s grown by more beyond the sampling error: ",
		report->fail_above, n, n == 1 ? " has" : "s have");
	for (size_t i = 0; i < n && i < max; i++)
		fprintf(text, "%s%s (%.1f%% to %.1f%%: %+.1f, error %.1f)", i ? ", " : "",
			worst[i]->frame->function,
			profile_share(diff->old_profile, worst[i]->self.old_value),
			profile_share(diff->new_profile, worst[i]->self.new_value),
			worst[i]->points, profile_diff_error(diff, &worst[i]->self));
	fputs(n > max ? ", ..." : "", text);
	return fclose(text) ? ctx_no_memory(ctx) : 0;
}

static int report_diff(struct ocp_ctx *ctx, struct profile_report *report, struct profile *profile)
{
	struct profile_diff diff;
	int err;

	profile_merge_lines(profile);
	err = profile_diff_make(ctx, report->before, profile, &diff);

	if (err)
		return err;
	err = check_growth(ctx, report, &diff);
	if (!err)
		err = write_files(ctx, report, &(struct page){ profile, &diff, form_of(report) });
	if (!err && report->form == PROFILE_JSON)
		profile_diff_print_json(&diff);
	else if (!err && report->form == PROFILE_FOLDED)
		profile_diff_print_folded(&diff);
	profile_diff_free(&diff);
	return err || report->form != PROFILE_TABLE
		       ? err
		       : print_diff_table(ctx, report->before, profile, report->is_unfolded);
}

/* Write the files, then the standard output. This changes PROFILE. */
static int profile_report(struct ocp_ctx *ctx, struct profile_report *report,
			  struct profile *profile)
{
	int err;

	if (report->before)
		return report_diff(ctx, report, profile);
	err = write_files(ctx, report, &(struct page){ profile, NULL, form_of(report) });
	return err ? err : print_profile(ctx, report, profile);
}

/*
 * Read the older profile PATH, with which another profile is compared. KIND is the kind of that
 * other profile; HAS_KIND is true if KIND is certain. Profiles of different kinds are refused. The
 * caller frees *READ, also after an error.
 */
static int profile_read_old(struct ocp_ctx *ctx, const char *path, enum profile_kind kind,
			    bool has_kind, struct read_profile *read)
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

enum {
	DEFAULT_HZ = 99,
	MAX_HZ = 10000,
	MAX_PROCESSES = 64,
	/*
	 * time between two searches for loaded code, and for processes that have started or ended
	 */
	REFRESH_NS = 100 * 1000 * 1000,
	BUDGET_NS = 100 * 1000 * 1000,
};

struct profile_options {
	struct profiler_spec spec;
	const char *kind_flag; /* the flag that chose the kind; NULL: none */
	bool folded, by_leaf, is_unfolded, has_hz;
	const char *engine;	  /* "bpf" or "ptrace"; NULL: ptrace where BPF is not permitted */
	const char *html, *pprof; /* files to write; NULL: none */
	double fail_above;	  /* points; negative: not given */
	const char *diff;	  /* file of an older profile; NULL: compare with nothing */
};

struct profile_session {
	struct options *options;
	const struct profile_options *own;
	struct profiler_spec spec;
	struct read_profile old; /* the older profile to compare with */
	struct profiler *profiler;
	/* measures the cost of a uprobe; NULL unless allocated words are sampled with a budget */
	struct calibration *calibration;
	struct frame_names *names;
	int64_t start_ns, end_ns;
	uint64_t start_time_ns; /* the time of the start, in nanoseconds since 1970 */
	/*
	 * The budget limits what the samples cost from the time cost_since_ns on. cost_ns is the
	 * total cost at that time.
	 */
	int64_t cost_since_ns;
	double cost_ns;
	/* when the sampling of large blocks was stopped; 0: it was not stopped */
	int64_t large_end_ns;
	bool is_over_budget;
	bool is_foreign; /* no OCaml code in any process */
	bool is_empty;	 /* no samples */
	int growth_code; /* EXIT_NOT_MET if a function has grown by more than --fail-above */
};

/* ---- options -------------------------------------------------------------------------------- */

static int set_kind(const struct command *command, struct profile_options *own, const char *flag,
		    enum profile_kind kind)
{
	if (own->kind_flag && strcmp(own->kind_flag, flag) != 0)
		return say_usage(command, "--%s and --%s are mutually exclusive", own->kind_flag,
				 flag);
	own->kind_flag = flag;
	own->spec.kind = kind;
	return EXIT_DONE;
}

static int set_hz(const struct command *command, struct profile_options *own, const char *value)
{
	char *end;
	long hz;

	if (own->has_hz)
		return say_usage(command, "--hz: given twice");
	errno = 0;
	hz = strtol(value, &end, 10);
	if (errno || end == value || *end || hz < 1 || hz > MAX_HZ)
		return say_usage(command, "--hz '%s': not a number from 1 to %d", value, MAX_HZ);
	own->spec.hz = (unsigned int)hz;
	own->has_hz = true;
	return EXIT_DONE;
}

static int set_fail_above(const struct command *command, struct profile_options *own,
			  const char *value)
{
	char *end;
	double points;

	if (own->fail_above >= 0)
		return say_usage(command, "--fail-above: given twice");
	points = strtod(value, &end);
	/* Written so that NaN, which compares false, is rejected. */
	if (end == value || (*end && strcmp(end, "%") != 0) || !(points >= 0 && points <= 100))
		return say_usage(command, "--fail-above '%s': not a number of points from 0 to 100",
				 value);
	own->fail_above = points;
	return EXIT_DONE;
}

static int set_profile_engine(const struct command *command, struct profile_options *own,
			      const char *value)
{
	if (strcmp(value, "bpf") != 0 && strcmp(value, "ptrace") != 0)
		return say_usage(command, "--engine '%s': not bpf or ptrace", value);
	own->engine = value;
	return EXIT_DONE;
}

static struct profile_options *profile_options_of(struct options *options)
{
	static struct profile_options own = {
		.spec = { .kind = PROFILE_CPU, .hz = DEFAULT_HZ, .max_processes = MAX_PROCESSES },
		.fail_above = -1,
	};

	options->own = &own;
	return &own;
}

static int set_profile_option(const struct command *command, struct options *options,
			      const char *name, const char *value)
{
	struct profile_options *own = profile_options_of(options);

	if (strcmp(name, "cpu") == 0)
		return set_kind(command, own, name, PROFILE_CPU);
	if (strcmp(name, "off-cpu") == 0)
		return set_kind(command, own, name, PROFILE_WAITS);
	if (strcmp(name, "alloc") == 0)
		return set_kind(command, own, name, PROFILE_WORDS);
	if (strcmp(name, "gc") == 0)
		return set_kind(command, own, name, PROFILE_GC);
	if (strcmp(name, "hz") == 0)
		return set_hz(command, own, value);
	if (strcmp(name, "engine") == 0)
		return set_profile_engine(command, own, value);
	if (strcmp(name, "html") == 0)
		return profile_file_set(command, name, value, &own->html);
	if (strcmp(name, "pprof") == 0)
		return profile_file_set(command, name, value, &own->pprof);
	if (strcmp(name, "diff") == 0)
		return profile_file_set(command, name, value, &own->diff);
	if (strcmp(name, "fail-above") == 0)
		return set_fail_above(command, own, value);
	if (strcmp(name, "leaf") == 0)
		own->by_leaf = true;
	else if (strcmp(name, "unfold") == 0)
		own->is_unfolded = true;
	else if (strcmp(name, "idle") == 0)
		own->spec.keeps_idle = true;
	else
		own->folded = true;
	return EXIT_DONE;
}

/* Check that no file is written twice, or over a file that is read. */
static int check_profile_files(const struct profile_options *own, const char *read)
{
	const struct {
		const char *flag, *path;
	} written[] = { { "--html", own->html }, { "--pprof", own->pprof } };

	if (profile_file_is_same(own->html, own->pprof))
		return say_usage(&command_profile, "--html and --pprof name the same file");
	for (size_t i = 0; i < sizeof(written) / sizeof(*written); i++)
		if (profile_file_is_same(written[i].path, own->diff) ||
		    profile_file_is_same(written[i].path, read))
			return say_usage(&command_profile,
					 "%s names a file that --diff reads: '%s'", written[i].flag,
					 written[i].path);
	return EXIT_DONE;
}

/* Check the options of `profile --diff OLD NEW`, which compares two files. */
static int check_two_files(const struct options *options, const struct profile_options *own)
{
	const char *flag = options->n_pids		 ? "-pid"
			   : options->exe		 ? "--exe"
			   : options->for_ns		 ? "--for"
			   : own->has_hz		 ? "--hz"
			   : own->engine		 ? "--engine"
			   : own->pprof			 ? "--pprof"
			   : own->spec.keeps_idle	 ? "--idle"
			   : options->request.budget > 0 ? "--budget"
							 : NULL;

	if (!own->diff || options->n_args > 1)
		return say_usage(&command_profile, "'%s': unexpected",
				 options->args[own->diff ? 1 : 0]);
	if (flag)
		return say_usage(&command_profile,
				 "%s: not where two files are compared ('%s' and '%s')", flag,
				 own->diff, options->args[0]);
	return check_profile_files(own, options->args[0]);
}

/* Return true if the user has chosen the engine NAME. */
static bool is_engine(const struct profile_options *own, const char *name)
{
	return own->engine && strcmp(own->engine, name) == 0;
}

static int check_options(const struct options *options, const struct profile_options *own)
{
	if (own->folded && options->json)
		return say_usage(&command_profile, "--folded and --json are mutually exclusive");
	if (own->spec.by_thread && own->diff)
		return say_usage(&command_profile, "--by-thread and --diff are mutually exclusive");
	if (own->fail_above >= 0 && !own->diff)
		return say_usage(&command_profile, "--fail-above needs --diff");
	if (own->by_leaf &&
	    (own->spec.kind != PROFILE_WORDS || own->folded || options->json || own->diff))
		return say_usage(&command_profile, "--leaf: only for the table of --alloc");
	if (own->is_unfolded && (own->folded || options->json) && !own->html)
		return say_usage(&command_profile, "--unfold: only for the table and for --html");
	if (own->spec.keeps_idle && own->spec.kind != PROFILE_WAITS)
		return say_usage(&command_profile, "--idle: only for --off-cpu");
	if (options->n_args)
		return check_two_files(options, own);
	if (!options->n_pids == !options->exe)
		return say_usage(&command_profile, options->exe
							   ? "-pid and --exe are mutually exclusive"
							   : "-pid or --exe is required");
	if (own->has_hz && own->spec.kind == PROFILE_WAITS && !is_engine(own, "ptrace"))
		return say_usage(&command_profile, "--hz: not for --off-cpu by BPF");
	if (is_engine(own, "ptrace") && own->spec.kind == PROFILE_WORDS)
		return say_usage(&command_profile, "--engine ptrace excludes --%s", own->kind_flag);
	return check_profile_files(own, NULL);
}

/* ---- processes ------------------------------------------------------------------------------ */

static int find_profiled_processes(struct options *options)
{
	pid_t *pids;
	size_t n;
	int code = EXIT_DONE;
	int err = ocp_find_processes(options->ctx, options->exe, &pids, &n);

	/* Continue even if no process runs the file yet: processes may start later. */
	if (err == -ESRCH)
		return EXIT_DONE;
	if (err)
		return say_error(options->ctx, err);
	for (size_t i = 0; i < n && code == EXIT_DONE; i++)
		code = options_add_pid(options, pids[i]);
	free(pids);
	return code;
}

/*
 * Return 0 if PID executes a program, otherwise a negative errno with a message. If only the main
 * thread has exited, the other threads can be sampled.
 */
static int need_program(struct ocp_ctx *ctx, pid_t pid)
{
	struct proc_status status;
	const int err = proc_status_read(ctx, pid, &status);

	if (err || status.threads > 1 || proc_has_memory(pid))
		return err;
	return proc_why_no_access(ctx, pid, ESRCH);
}

/* Add the processes. Processes of --exe start and end at any time; skip one that has just ended. */
static int add_listed_processes(struct profile_session *s)
{
	struct options *options = s->options;
	size_t n = 0;

	for (size_t i = 0; i < options->n_pids; i++) {
		const pid_t pid = options->pids[i];
		int err = need_program(options->ctx, pid);

		if (!err)
			err = profiler_add_process(s->profiler, pid);
		if (err && (!options->exe || (err != -ESRCH && err != -ENOENT)))
			return err;
		if (!err)
			options->pids[n++] = pid;
	}
	options->n_pids = n;
	return 0;
}

/*
 * Return 0 if the file of --exe or any of the processes has native OCaml code, otherwise a negative
 * errno with a message.
 */
static int need_native(const struct options *options)
{
	int err = options->exe ? program_file_need_native(options->ctx, options->exe) : 0;

	if (options->exe && !err)
		return 0;
	for (size_t i = 0; i < options->n_pids; i++) {
		err = process_need_native(options->ctx, options->pids[i]);
		if (!err)
			return 0;
	}
	return err;
}

/*
 * If no process runs native OCaml code, return an error for PROFILE_GC and PROFILE_WORDS. Only warn
 * for other kinds, since CPU time and waits of any program can be profiled.
 */
static int check_native(struct profile_session *s)
{
	const struct options *options = s->options;
	const int err = need_native(options);

	s->is_foreign = err;
	if (!err || s->own->spec.kind == PROFILE_GC || s->own->spec.kind == PROFILE_WORDS)
		return err;
	if (!options->quiet)
		say("warning: %s; the functions are those of C", ocp_error(options->ctx));
	return 0;
}

/* ---- the engine ----------------------------------------------------------------------------- */

/*
 * Choose between BPF and ptrace. Without --engine, choose ptrace if BPF is not permitted and ptrace
 * can take these samples, and say why.
 */
static int choose_sampler(struct profile_session *s)
{
	const struct options *options = s->options;

	if (s->own->engine)
		s->spec.by_ptrace = is_engine(s->own, "ptrace");
	else if (s->spec.kind != PROFILE_WORDS && meter_lacks_bpf(options->ctx)) {
		s->spec.by_ptrace = true;
		if (!options->quiet)
			say("engine: ptrace, since BPF is not available: %s",
			    ocp_error(options->ctx));
	}
	if (s->spec.by_ptrace && options->exe && !options->n_pids)
		return ctx_error(options->ctx, -ESRCH,
				 "%s: no process runs this file, and the engine ptrace samples "
				 "only processes that run already",
				 options->exe);
	return 0;
}

/* ---- the session ---------------------------------------------------------------------------- */

static bool needs_uprobe_cost(const struct profile_session *s)
{
	return s->own->spec.counts_cost && s->own->spec.kind == PROFILE_WORDS;
}

/* Set *COST to the cost of all samples so far. */
static int read_cost(struct profile_session *s, struct profiler_cost *cost)
{
	struct ocp_costs costs = { 0 };
	const char *why = "out of memory";

	if (needs_uprobe_cost(s) &&
	    (!s->calibration || calibration_result(s->calibration, true, &costs, &why)))
		return ctx_error(s->options->ctx, -ENODATA, "the cost of samples is not known: %s",
				 why);
	return profiler_cost(s->profiler, &costs, cost);
}

/*
 * Keep the cost within the budget: stop sampling large blocks first, then all sampling if that is
 * not enough.
 */
static enum ending check_budget(void *data)
{
	struct profile_session *s = data;
	const double budget = s->options->request.budget;
	const int64_t now_ns = session_now_ns();
	struct profiler_cost cost;
	double share;

	if (read_cost(s, &cost))
		return ENDED_BY_ERROR;
	share = (cost.ns - s->cost_ns) / (double)(now_ns - s->cost_since_ns);
	if (share <= budget)
		return NOT_ENDED;
	s->is_over_budget = true;
	if (!s->large_end_ns && cost.large_ns > 0) {
		profiler_stop_large(s->profiler); /* takes a while, so read the clock again */
		s->large_end_ns = s->cost_since_ns = session_now_ns();
		say("large blocks: sampling stopped after %.3f s, later ones are missing: CPU "
		    "overhead %.2f%% exceeds the budget of %g%%",
		    (double)(s->large_end_ns - s->start_ns) / 1e9, 100 * share, 100 * budget);
		if (read_cost(s, &cost))
			return ENDED_BY_ERROR;
		s->cost_ns = cost.ns;
		return NOT_ENDED;
	}
	say("profiling stopped: CPU overhead %.2f%% exceeds the budget of %g%%", 100 * share,
	    100 * budget);
	return ENDED_BY_TIME;
}

static enum ending refresh_profiler(void *data)
{
	struct profile_session *s = data;

	return profiler_refresh(s->profiler) ? ENDED_BY_ERROR : NOT_ENDED;
}

static enum ending take_samples(struct profile_session *s, struct session *session)
{
	struct session_timer timers[] = {
		session_every(s->start_ns, s->options->for_ns, NULL),
		session_pause(REFRESH_NS, refresh_profiler),
		session_pause(BUDGET_NS, check_budget),
	};

	return session_run(session, &(struct session_events){
					    .timers = timers,
					    .n_timers = s->own->spec.counts_cost ? 3 : 2,
					    .data = s,
				    });
}

/* ---- the end -------------------------------------------------------------------------------- */

static struct profile_report report_of(const struct options *options,
				       const struct profile_options *own, const char *title)
{
	return (struct profile_report){ .form = own->folded	? PROFILE_FOLDED
						: options->json ? PROFILE_JSON
								: PROFILE_TABLE,
					.html = own->html,
					.pprof = own->pprof,
					.title = title,
					.quiet = options->quiet,
					.fail_above = own->fail_above,
					.by_leaf = own->by_leaf,
					.is_unfolded = own->is_unfolded };
}

/* If a function has grown too much, say so and return EXIT_NOT_MET, otherwise EXIT_DONE. */
static int say_growth(struct profile_report *report)
{
	if (!report->failure)
		return EXIT_DONE;
	say("%s", report->failure);
	free(report->failure);
	return EXIT_NOT_MET;
}

static int report_profile(struct profile_session *s)
{
	char title[PATH_MAX + 64];
	struct profile_report what = report_of(s->options, s->own, title);
	struct profile_reading reading;
	struct profile profile;
	int err;

	progress_begin(s->options, "naming the functions of");
	err = profiler_read(s->profiler, &reading);
	if (err)
		return err;
	err = profile_make(s->options->ctx, &reading, s->names, &s->spec, &profile);
	profile_reading_free(&reading);
	progress_end();
	if (err)
		return err;
	profile.start_ns = s->start_time_ns;
	profile.duration_ns = (uint64_t)(s->end_ns - s->start_ns);
	if (s->large_end_ns)
		profile.large_ns = (uint64_t)(s->large_end_ns - s->start_ns);
	snprintf(title, sizeof(title), "%s of ", profile_kind_name(profile.kind));
	if (s->options->exe)
		strncat(title, s->options->exe, PATH_MAX);
	else
		snprintf(title + strlen(title), 32, "pid %d", (int)s->options->pid);
	if (s->own->diff)
		what.before = &s->old.profile;
	err = profile_report(s->options->ctx, &what, &profile);
	s->growth_code = say_growth(&what);
	s->is_empty = !profile.samples;
	if (s->is_empty && !s->options->quiet)
		say("no samples: %s", profile_empty_text(s->own->spec.kind));
	profile_free(&profile);
	return err;
}

static void say_what_is_sampled(const struct profile_session *s)
{
	const size_t n = s->options->n_pids;
	char what[64], whose[64];

	if (s->options->quiet)
		return;
	if (profile_is_sampled(s->own->spec.kind))
		snprintf(what, sizeof(what), "sampling the CPU %u times a second", s->own->spec.hz);
	else if (s->spec.by_ptrace)
		snprintf(what, sizeof(what), "sampling the waits %u times a second",
			 s->own->spec.hz);
	else
		snprintf(what, sizeof(what), "%s",
			 s->own->spec.kind == PROFILE_WAITS ? "recording the waits"
							    : "sampling allocation");
	if (s->options->exe)
		snprintf(whose, sizeof(whose), "%zu process%s that run%s it now%s", n,
			 n == 1 ? "" : "es", n == 1 ? "s" : "",
			 s->spec.by_ptrace ? "" : ", and all later ones");
	else if (n == 1)
		snprintf(whose, sizeof(whose), "pid %d", (int)s->options->pid);
	else
		snprintf(whose, sizeof(whose), "%zu processes", n);
	say("%s: %s%s", what, whose, s->options->for_ns ? "" : "; end with Ctrl-C");
}

static int run_profile_session(struct profile_session *s, struct session *session)
{
	const struct engine_spec counting = { 0 };
	struct timespec now;
	enum ending ending;
	int err;

	if (needs_uprobe_cost(s))
		s->calibration = calibration_start(&engine_bpf, &counting, true);
	err = profiler_start(s->profiler);
	if (err)
		return say_error(s->options->ctx, err);
	clock_gettime(CLOCK_REALTIME, &now);
	s->start_time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	s->start_ns = s->cost_since_ns = profiler_start_ns(s->profiler);
	progress_end();
	say_what_is_sampled(s);
	ending = take_samples(s, session);
	profiler_stop(s->profiler);
	s->end_ns = profiler_stop_ns(s->profiler);
	if (ending == ENDED_BY_ERROR)
		return session->err ? EXIT_FAILED : say_error(s->options->ctx, -EIO);
	if (ending == ENDED_WITH_PROCESS && !s->options->quiet)
		say(s->options->n_pids == 1 ? "pid %d has ended" : "all processes have ended",
		    (int)s->options->pid);
	err = report_profile(s);
	if (err)
		return say_error(s->options->ctx, err);
	if (s->is_empty && s->is_foreign)
		return EXIT_FAILED;
	return s->is_over_budget ? EXIT_OVER_BUDGET : s->growth_code;
}

static int profile_with(struct options *options, const struct profile_options *own)
{
	struct profile_session s = { .options = options, .own = own, .spec = own->spec };
	struct session session;
	int err, code;

	/* The other outputs do not show who released a lock. */
	s.spec.finds_releases = own->spec.kind == PROFILE_WAITS && !own->folded && !own->diff;
	s.spec.pid = options->pid;
	s.spec.exe = options->exe;
	progress_begin(options, "reading");
	err = profile_file_check(options->ctx, own->html);
	if (!err)
		err = profile_file_check(options->ctx, own->pprof);
	if (!err && own->diff)
		err = profile_read_old(options->ctx, own->diff, s.spec.kind, true, &s.old);
	if (!err)
		err = check_native(&s);
	if (!err)
		err = choose_sampler(&s);
	if (!err)
		err = profiler_open(options->ctx, &s.spec, &s.profiler);
	if (!err)
		err = add_listed_processes(&s);
	if (!err)
		err = frame_names_open(options->ctx, profiler_walker(s.profiler), &s.names);
	if (err) {
		profiler_close(s.profiler);
		read_profile_free(&s.old);
		return say_error(options->ctx, err);
	}
	/* With --exe, BPF also profiles processes that start later. */
	code = session_open(&session, options->pids,
			    options->exe && !s.spec.by_ptrace ? 0 : options->n_pids);
	if (code == EXIT_DONE)
		code = run_profile_session(&s, &session);
	session_close(&session);
	frame_names_close(s.names);
	calibration_free(s.calibration);
	profiler_close(s.profiler);
	read_profile_free(&s.old);
	return code;
}

static int compare_files(struct options *options, const struct profile_options *own)
{
	struct read_profile before = { 0 }, now;
	char title[2 * PATH_MAX + 64] = "";
	struct profile_report what = report_of(options, own, title);
	int code, err = read_profile_open(options->ctx, options->args[0], own->spec.kind, &now);

	if (!err && own->kind_flag && now.has_kind && now.profile.kind != own->spec.kind)
		err = ctx_error(options->ctx, -EINVAL, "%s: not a profile of --%s",
				options->args[0], own->kind_flag);
	if (!err)
		err = profile_read_old(options->ctx, own->diff, now.profile.kind,
				       now.has_kind || own->kind_flag, &before);
	if (!err && before.has_kind && !now.has_kind && before.profile.kind != now.profile.kind) {
		/*
		 * The new file does not name its kind: read it again as a profile of the kind of
		 * the older one, since the kind determines the unit of the values.
		 */
		read_profile_free(&now);
		err = read_profile_open(options->ctx, options->args[0], before.profile.kind, &now);
	}
	if (!err)
		err = profile_file_check(options->ctx, own->html);
	if (!err) {
		snprintf(title, sizeof(title), "%s: %s and %s", profile_kind_name(now.profile.kind),
			 own->diff, options->args[0]);
		what.before = &before.profile;
		err = profile_report(options->ctx, &what, &now.profile);
	}
	code = say_growth(&what);
	read_profile_free(&before);
	read_profile_free(&now);
	return err ? say_error(options->ctx, err) : code;
}

static int run_profile(struct options *options)
{
	struct profile_options *own = profile_options_of(options);
	int code;

	own->spec.counts_cost = options->request.budget > 0;
	own->spec.by_thread = options->request.split == OCP_BY_THREAD;
	code = check_options(options, own);
	if (code == EXIT_DONE && options->n_args)
		return compare_files(options, own);
	if (code == EXIT_DONE && options->exe)
		code = find_profiled_processes(options);
	if (code == EXIT_DONE && options->n_pids > MAX_PROCESSES) {
		say("%zu processes: at most %d can be profiled at one time", options->n_pids,
		    MAX_PROCESSES);
		code = EXIT_FAILED;
	}
	return code == EXIT_DONE ? profile_with(options, own) : code;
}

/*
 * Return true if WORD is an existing file and --diff is given: then WORD is NEW of `--diff OLD
 * NEW`, and not a process id.
 */
static bool is_new_file(const struct options *options, const char *word)
{
	const struct profile_options *own = options->own;

	return own && own->diff && access(word, F_OK) == 0;
}

const struct command command_profile = {
	.name = "profile",
	.help = &help_profile,
	.many_pids = true,
	.takes_words = true,
	.owns_engine = true,
	.keeps_number = is_new_file,
	.run = run_profile,
	.set_own = set_profile_option,
};
