// SPDX-License-Identifier: MIT
/*
 * `report`: what a program does right now, on one screen. The command only composes what other
 * commands measure: profiles, figures of the collector, hits of probes.
 */
#include "tool/commands.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/progress.h"
#include "cli/session.h"
#include "process/process_kind.h"
#include "tool/overview.h"
#include "tool/profile_files.h"

enum {
	CHECK_NS = 25 * 1000 * 1000,
};

/*
 * Without --for, the report takes 5 s, or less if preparing it took long, as for a large program on
 * a busy machine: the answer must come within ten seconds. Naming functions at the end takes some
 * quarter of the time of the preparation.
 */
static const int64_t LONGEST_NS = 5000000000, SHORTEST_NS = 2000000000, ANSWER_NS = 9000000000;

/* Return how long to measure, if preparing has taken PREPARED_NS. */
static int64_t default_time(int64_t prepared_ns)
{
	const int64_t left_ns = ANSWER_NS - prepared_ns - prepared_ns / 4;

	return left_ns > LONGEST_NS ? LONGEST_NS : left_ns < SHORTEST_NS ? SHORTEST_NS : left_ns;
}

static enum ending check_overview(void *data)
{
	overview_check(data);
	return NOT_ENDED;
}

/* The options of `report` alone. */
struct report_options {
	const char *html; /* file to write; NULL: none */
};

static int set_report_option(const struct command *command, struct options *options,
			     const char *name, const char *value)
{
	static struct report_options own;

	options->own = &own;
	return profile_file_set(command, name, value, &own.html);
}

/* Return the file of --html; NULL: not given. */
static const char *html_of(const struct options *options)
{
	const struct report_options *own = options->own;

	return own ? own->html : NULL;
}

static int write_report_page(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	return overview_write_page(ctx, data, to);
}

/*
 * Write the file of --html, then the standard output, which has the report also if the file cannot
 * be written.
 */
static int print_overview(const struct options *options, const struct overview *overview)
{
	const char *html = html_of(options);
	int code = EXIT_DONE, err = 0;

	if (html)
		err = profile_file_write(options->ctx, html, write_report_page, overview);
	if (err)
		code = say_error(options->ctx, err);
	else if (html && !options->quiet)
		say("%s: written", html);
	err = 0;
	if (options->json)
		overview_print_json(overview);
	else
		err = overview_print_text(options->ctx, overview);
	return err ? say_error(options->ctx, err) : code;
}

static int measure_and_print(struct options *options, struct session *session,
			     struct overview_meters *meters, int64_t began_ns)
{
	struct session_timer timers[2];
	struct overview overview;
	enum ending ending;

	overview_start(meters);
	progress_end();
	if (!options->for_ns)
		options->for_ns = default_time(session_now_ns() - began_ns);
	if (!options->quiet)
		say("measuring pid %d for %.1f s", (int)options->pid,
		    (double)options->for_ns / 1e9);
	timers[0] = session_every(session_now_ns(), options->for_ns, NULL);
	timers[1] = session_pause(CHECK_NS, check_overview);
	ending = session_run(session, &(struct session_events){
					      .timers = timers, .n_timers = 2, .data = meters });
	overview_stop(meters);
	if (ending == ENDED_BY_ERROR)
		return EXIT_FAILED;
	if (ending == ENDED_WITH_PROCESS && !options->quiet)
		say("pid %d has ended", (int)options->pid);
	progress_begin(options, "naming the functions of");
	overview_read(meters, &overview);
	progress_end();
	return print_overview(options, &overview);
}

static int run_report(struct options *options)
{
	struct overview_meters *meters = NULL;
	const int64_t began_ns = session_now_ns();
	struct session session = { 0 };
	int err, code;

	if (!options->pid)
		return say_usage(&command_report, "-pid or --exe is required");
	err = profile_file_check(options->ctx, html_of(options));
	if (err)
		return say_error(options->ctx, err);
	progress_begin(options, "reading");
	err = overview_open(options, &meters);
	code = err ? say_error(options->ctx, err) : session_open(&session, &options->pid, 1);
	if (code == EXIT_DONE)
		code = measure_and_print(options, &session, meters, began_ns);
	if (!err)
		session_close(&session);
	overview_close(meters);
	return code;
}

const struct command command_report = {
	.name = "report",
	.help = &help_report,
	.takes_running = true,
	.run = run_report,
	.set_own = set_report_option,
};
