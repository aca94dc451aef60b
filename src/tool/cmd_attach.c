// SPDX-License-Identifier: MIT
/*
 * `attach` switches the probes of one or several processes. Each process is switched completely or
 * not at all. All processes are opened and verified before the first one is changed, so a usage
 * error changes no process. If a process fails later (it has exited, is traced, or does not stop),
 * the remaining processes are still switched, and the failed ones are named.
 */
#include "tool/measure_limit.h"
#include "tool/measure_session.h"
#include "tool/output_file.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "tool/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Print the error of process PID. If there are several processes, put "pid PID" before the message,
 * unless the message begins with "pid PID" already.
 */
static int say_process_error(const struct options *options, pid_t pid, int err)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "pid %d", (int)pid);
	if (options->n_pids == 1 || strncmp(ocp_error(options->ctx), prefix, strlen(prefix)) == 0)
		return say_error(options->ctx, err);
	return say_error_of(prefix, options->ctx, err);
}

/* An opened process, and the actions that undo a temporary change. */
struct opened {
	struct ocp_process *proc;
	struct ocp_undo *undo;
};

/* Return true if handlers are switched only for the time of --for, or while the command runs. */
static bool is_temporary(const struct options *options)
{
	return options->for_ns || options->n_args;
}

static int update(const struct options *options, struct opened *opened, unsigned int flags)
{
	int err;

	flags |= options->update_flags;
	if (is_temporary(options) && !(flags & OCP_DRY_RUN))
		err = ocp_process_update_undoable(opened->proc, options->actions, flags,
						  &opened->undo);
	else
		err = ocp_process_update(opened->proc, options->actions, flags);
	if (err)
		return say_process_error(options, ocp_process_pid(opened->proc), err);
	if (!(flags & OCP_DRY_RUN))
		say_no_probes(options, opened->proc);
	return EXIT_DONE;
}

static int update_all(const struct options *options, struct opened *opened)
{
	size_t n_updated = 0;
	int code = EXIT_DONE;

	for (size_t i = 0; options->n_pids > 1 && code == EXIT_DONE && i < options->n_pids; i++)
		code = update(options, &opened[i], OCP_DRY_RUN);
	if (code != EXIT_DONE)
		return code;
	for (size_t i = 0; i < options->n_pids; i++) {
		int its_code = update(options, &opened[i], 0);

		n_updated += its_code == EXIT_DONE;
		if (code == EXIT_DONE)
			code = its_code;
	}
	if (code != EXIT_DONE && options->n_pids > 1)
		say("%zu of %zu processes switched; the others are named above", n_updated,
		    options->n_pids);
	return code;
}

/*
 * Undo temporary changes. Return CODE or, if CODE is EXIT_DONE and undoing fails, the exit code for
 * that error.
 */
static int undo_all(const struct options *options, struct opened *opened, int code)
{
	for (size_t i = 0; i < options->n_pids; i++) {
		int err = opened[i].undo ? ocp_undo_run(opened[i].undo) : 0;

		if (err) {
			err = say_process_error(options, options->pids[i], err);
			code = code == EXIT_DONE ? err : code;
		}
		ocp_undo_free(opened[i].undo);
	}
	return code;
}

/* Start the command, if there is one, and measure until the end. */
static int start_and_measure(struct options *options, struct session *session,
			     struct measure_session *measure)
{
	int code = measure_attach(measure);

	if (code == EXIT_DONE && options->keep)
		return measure_keep(measure);
	if (code == EXIT_DONE && session->workload)
		code = workload_start(session->workload);
	return code == EXIT_DONE ? measure_wait(measure, session) : code;
}

/*
 * Start the command, if there is one, and wait for the end. Handlers are switched meanwhile;
 * nothing is measured.
 */
static int wait_for_end(const struct options *options, struct session *session)
{
	int64_t until_ns = INT64_MAX;
	int code = EXIT_DONE;

	progress_end();
	if (session->workload)
		code = workload_start(session->workload);
	else
		until_ns = session_now_ns() + options->for_ns;
	if (code == EXIT_DONE && session_wait(session, until_ns) == ENDED_BY_ERROR)
		code = EXIT_FAILED;
	return code;
}

/*
 * Switch the probes, measure, and undo temporary changes. The caller must have loaded the meter
 * before, so that no process has been changed if loading fails.
 */
static int do_all(struct options *options, struct opened *opened, struct session *session,
		  struct measure_session *measure_session)
{
	int code = EXIT_DONE;

	if (options->actions_flag)
		code = update_all(options, opened);
	if (code == EXIT_DONE && options_measure(options))
		code = start_and_measure(options, session, measure_session);
	else if (code == EXIT_DONE)
		code = wait_for_end(options, session);
	return undo_all(options, opened, code);
}

static int open_measure(struct options *options, const struct opened *opened,
			struct measure_session *measure)
{
	struct ocp_process **procs = calloc(options->n_pids + 1, sizeof(void *));
	int code;

	if (!procs) {
		say("out of memory");
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < options->n_pids; i++)
		procs[i] = opened[i].proc;
	code = measure_open(measure, options, procs, options->n_pids);
	measure->has_limit = true;
	if (code == EXIT_DONE)
		code = measure_limit_sample(measure, procs, options->n_pids);
	free(procs);
	return code;
}

/* Open a session for the named processes. */
static int open_session(const struct opened *opened, size_t n, struct session *session)
{
	pid_t *tgids = calloc(n + 1, sizeof(*tgids));
	int code;

	if (!tgids) {
		say("out of memory");
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++)
		tgids[i] = ocp_process_tgid(opened[i].proc);
	code = session_open(session, tgids, n);
	free(tgids);
	return code;
}

/* Open the processes. Processes of --exe that have ended since they were found are left out. */
static int open_all(struct options *options, struct opened *opened)
{
	size_t n = 0;
	int err = 0;

	for (size_t i = 0; i < options->n_pids; i++) {
		const pid_t pid = options->pids[i];

		err = ocp_process_open(options->ctx, pid, &opened[n].proc);
		if (err && !(err == -ESRCH && options->exe))
			return say_process_error(options, pid, err);
		if (!err)
			options->pids[n++] = pid;
	}
	options->n_pids = n;
	return n || !err || options_measure(options) ? EXIT_DONE : say_error(options->ctx, err);
}

static int run_with(struct options *options, struct opened *opened)
{
	struct measure_session measure = { 0 };
	struct workload workload = { 0 };
	struct session session = { 0 };
	struct output_file output = { 0 };
	int code;
	/*
	 * With --exe, later processes are measured too, so the session does not end with the
	 * current ones.
	 */
	const size_t n_awaited = options_measure(options) && options->exe ? 0 : options->n_pids;

	progress_begin(options, "reading");
	code = open_all(options, opened);
	if (code != EXIT_DONE)
		return code;
	if (!options_measure(options) && !is_temporary(options))
		return update_all(options, opened);
	code = output_file_begin(&output, options);
	if (code != EXIT_DONE)
		return code;
	code = open_session(opened, n_awaited, &session);
	/* The command is forked: no thread of this process may run meanwhile. */
	if (options->n_args)
		progress_end();
	if (code == EXIT_DONE && options->n_args)
		code = session_hold_workload(&session, &workload, options->args);
	if (code == EXIT_DONE && options_measure(options)) {
		progress_begin(options, "reading");
		code = open_measure(options, opened, &measure);
	}
	/* Show no progress line: the command may write to the terminal, too. */
	if (options->n_args)
		measure.progress = false;
	if (code == EXIT_DONE)
		code = do_all(options, opened, &session, &measure);
	measure_close(&measure);
	code = output_file_end(&output, code);
	session_await_workload(&session);
	session_close(&session);
	workload_close(&workload);
	return workload_exit_code(&workload, code);
}

static int check_attach_usage(const struct options *options)
{
	int code;

	if (!options->n_pids && !options->exe)
		return say_usage(&command_attach, "-pid or --exe is required");
	/*
	 * Check measuring options first: "--hist needs --count" is a clearer message than "nothing
	 * to do".
	 */
	code = measure_options_check(&command_attach, options);
	if (code != EXIT_DONE)
		return code;
	if (!options->actions_flag && !options_measure(options))
		return say_usage(&command_attach,
				 "nothing to do: neither actions nor --count, --time or --print");
	if (options->n_args && (options->for_ns || options->keep))
		return say_usage(&command_attach,
				 "%s and a command are mutually exclusive: measuring ends when "
				 "'%s' has ended",
				 options->keep ? "--keep" : "--for", options->args[0]);
	if (!options->actions_flag && options->update_flags)
		return say_usage(&command_attach, "-force and -atomically require an action");
	return EXIT_DONE;
}

static int run_attach(struct options *options)
{
	struct opened *opened;
	int code = check_attach_usage(options);

	if (code == EXIT_DONE && options->exe && options->n_pids && options_measure(options))
		code = say_usage(&command_attach,
				 "-pid and --exe are mutually exclusive when measuring");
	if (code == EXIT_DONE && options->exe)
		code = measure_find_processes(options);
	if (code != EXIT_DONE)
		return code;
	opened = calloc(options->n_pids + 1, sizeof(*opened));
	if (!opened) {
		say("out of memory");
		return EXIT_FAILED;
	}
	code = run_with(options, opened);
	for (size_t i = 0; i < options->n_pids; i++)
		ocp_process_free(opened[i].proc);
	free(opened);
	return code;
}

const struct command command_attach = {
	.name = "attach",
	.help = &help_attach,
	.many_pids = true,
	.takes_program = true,
	.run = run_attach,
};
