// SPDX-License-Identifier: MIT
#include "tool/measure_session.h"
#include "tool/output_file.h"
#include "cli/progress.h"
#include "tool/commands.h"
#include "measure/meter.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Signals that arrived while the program was being started. */
static volatile sig_atomic_t early[NSIG];

/*
 * Remember a signal for the program, unless the signal comes from a terminal: the terminal sends it
 * to the program, too.
 */
static void remember_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code != SI_KERNEL)
		early[number] = 1;
}

/*
 * Catch signals before the program starts: no signal may end the tool, since the program would then
 * continue without the tool. Signals are caught, not blocked, since the program would inherit a
 * signal mask. Ignored signals stay ignored, in the program too.
 */
static void catch_signals(void)
{
	const struct sigaction action = { .sa_sigaction = remember_signal,
					  .sa_flags = SA_RESTART | SA_SIGINFO };
	struct sigaction before;

	for (size_t i = 0; i < N_FORWARDED; i++)
		if (sigaction(forwarded_signals[i], NULL, &before) == 0 &&
		    before.sa_handler != SIG_IGN)
			sigaction(forwarded_signals[i], &action, NULL);
}

/* Wait for the program and forward signals. Returns the program's exit status. */
static int wait_for_program(pid_t pid)
{
	struct workload program = { 0 };
	struct session session;
	/* Signals are blocked only after the start, since the program would inherit the mask. */
	int code = session_open(&session, NULL, 0);

	if (code == EXIT_DONE)
		code = session_adopt_workload(&session, &program, pid);
	for (size_t i = 0; code == EXIT_DONE && i < N_FORWARDED; i++)
		if (early[forwarded_signals[i]])
			kill(pid, forwarded_signals[i]);
	if (code == EXIT_DONE)
		session_await_workload(&session);
	session_close(&session);
	workload_close(&program);
	if (code != EXIT_DONE)
		return code;
	if (program.has_ended)
		return end_like(program.status);
	say("pid %d: its exit status is lost: %s", (int)pid, strerror(errno));
	return EXIT_FAILED;
}

/*
 * Measure PROC, a held process, until the process or the session ends, and complete OUTPUT.
 */
static int measure_program(struct options *options, struct ocp_process *proc,
			   struct output_file *output)
{
	struct measure_session measure = { 0 };
	struct session session = { 0 };
	int status, code;

	code = session_open(&session, &options->pid, 1);
	if (code == EXIT_DONE)
		code = measure_open(&measure, options, &proc, 1);
	if (code == EXIT_DONE)
		code = measure_attach(&measure);
	if (code == EXIT_DONE && options->keep)
		code = measure_keep(&measure);
	if (code != EXIT_DONE)
		kill(options->pid, SIGKILL);
	ocp_process_release(proc);
	if (code == EXIT_DONE && !options->keep)
		code = measure_wait(&measure, &session);
	measure_close(&measure);
	session_close(&session);
	code = output_file_end(output, code);
	if (options->wait && code == EXIT_DONE && waitpid(options->pid, &status, 0) > 0)
		return end_like(status);
	return code;
}

static int trace_and_measure(struct options *options, char **argv)
{
	const struct ocp_actions *actions = options->actions_flag ? options->actions : NULL;
	struct output_file output;
	struct ocp_process *proc;
	int err, code = output_file_begin(&output, options);

	if (code != EXIT_DONE)
		return code;
	progress_begin(options, "reading");
	err = ocp_trace_held(options->ctx, options->prog, argv, actions, &proc);
	if (err)
		return output_file_end(&output, say_error(options->ctx, err));
	options->pid = ocp_process_pid(proc);
	options->n_pids = 1;
	err = measure_check_program(options);
	if (err)
		kill(options->pid, SIGKILL);
	code = err ? output_file_end(&output, say_error(options->ctx, err))
		   : measure_program(options, proc, &output);
	ocp_process_free(proc);
	return code;
}

static int trace(struct options *options, char **argv)
{
	struct ocp_process *proc;
	pid_t pid;
	int err;

	if (options->wait)
		catch_signals();
	err = ocp_trace_held(options->ctx, options->prog, argv, options->actions, &proc);
	if (err)
		return say_error(options->ctx, err);
	pid = ocp_process_pid(proc);
	say_no_probes(options, proc);
	ocp_process_free(proc);
	if (options->verbose)
		say("%s: started as pid %d", options->prog, (int)pid);
	return options->wait ? wait_for_program(pid) : EXIT_DONE;
}

static int trace_program(struct options *options)
{
	char **argv;
	int code;

	if (!options->prog)
		return say_usage(&command_trace, "-prog is required");
	code = measure_options_check(&command_trace, options);
	if (code != EXIT_DONE)
		return code;
	if (options_measure(options))
		measure_choose_for_program(options);
	if (!options->actions_flag && !options_measure(options))
		return say_usage(&command_trace,
				 "nothing to do: neither actions nor --count, --time or --print");
	if (options->for_ns && !options_measure(options))
		return say_usage(&command_trace, "--for requires --count, --time or --print");
	argv = calloc((size_t)options->n_args + 2, sizeof(*argv));
	if (!argv) {
		say("out of memory");
		return EXIT_FAILED;
	}
	argv[0] = (char *)options->prog;
	for (int i = 0; i < options->n_args; i++)
		argv[i + 1] = options->args[i];
	/* SIGCHLD may be inherited as ignored. Then the kernel would not keep the exit status. */
	signal(SIGCHLD, SIG_DFL);
	code = options_measure(options) ? trace_and_measure(options, argv) : trace(options, argv);
	free(argv);
	return code;
}

const struct command command_trace = {
	.name = "trace",
	.help = &help_trace,
	.takes_program = true,
	.takes_file = true,
	.run = trace_program,
};
