// SPDX-License-Identifier: MIT
/*
 * Counting from the command line: attach, wait for what comes first of time, signal and the
 * process's end, detach, print the last exact totals.
 *
 * Everything that can end the session is a descriptor, set up before the attach: no signal can cut
 * between attach and detach but SIGKILL, and then the kernel detaches.
 */
#include "tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tool/count_output.h"
#include "tool/session.h"

enum { PROGRESS_NS = 500 * 1000 * 1000 };

struct counting {
	struct options *options;
	struct ocp_counter *counter;
	struct session session;
	struct count_output output;
	uint64_t *hits;
	bool progress;
	int64_t start_ns; /* when attach had returned */
	int err;	  /* with ENDED_BY_ERROR */
};

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static enum ending tick(struct counting *s, bool interval)
{
	int64_t at_ns = session_now_ns();

	s->err = ocp_counter_read(s->counter, s->hits);
	if (s->err)
		return ENDED_BY_ERROR;
	if (s->progress)
		count_output_progress(&s->output, at_ns - s->start_ns, s->hits);
	if (interval)
		count_output_interval(&s->output, at_ns - s->start_ns, s->hits);
	return NOT_ENDED;
}

static enum ending run_counting(struct counting *s)
{
	const struct options *o = s->options;
	int64_t end_ns = o->for_ns ? s->start_ns + o->for_ns : INT64_MAX;
	int64_t interval_ns = o->interval_ns ? s->start_ns + o->interval_ns : INT64_MAX;
	int64_t progress_ns = s->progress ? s->start_ns + PROGRESS_NS : INT64_MAX;

	for (;;) {
		int64_t next_ns = earlier(end_ns, earlier(interval_ns, progress_ns));
		enum ending ending = session_wait(&s->session, next_ns);
		bool interval = next_ns == interval_ns;

		if (ending != NOT_ENDED)
			return ending;
		if (interval || next_ns == progress_ns)
			ending = tick(s, interval);
		if (ending != NOT_ENDED)
			return ending;
		/* Steps keep to their grid, so that late wake-ups do not add up. */
		while (interval_ns <= session_now_ns())
			interval_ns += o->interval_ns;
		while (progress_ns <= session_now_ns())
			progress_ns += PROGRESS_NS;
		if (next_ns == end_ns)
			return ENDED_BY_TIME;
	}
}

/* Attach, run, detach, print. */
static int count(struct counting *s)
{
	enum ending ending;
	int64_t end_ns;
	int err = ocp_counter_attach(s->counter);

	if (err)
		return say_error(s->options->ctx, err);
	s->start_ns = session_now_ns();
	if (!s->options->quiet)
		say("counting %zu probes (%zu sites) of pid %d",
		    ocp_counter_probe_count(s->counter), ocp_counter_site_count(s->counter),
		    (int)s->options->pid);
	ending = run_counting(s);
	end_ns = session_now_ns();
	count_output_end_progress(&s->output);
	err = ocp_counter_detach(s->counter);
	if (!err && ending != ENDED_BY_ERROR)
		err = ocp_counter_read(s->counter, s->hits);
	else if (ending == ENDED_BY_ERROR)
		err = s->err ? s->err : s->session.err;
	if (err)
		return say_error(s->options->ctx, err);
	if (ending == ENDED_WITH_PROCESS && !s->options->quiet)
		say("pid %d has ended", (int)s->options->pid);
	count_output_total(&s->output, end_ns - s->start_ns, s->hits);
	return EXIT_DONE;
}

int count_session(struct options *options, struct ocp_process *proc)
{
	struct counting s = {
		.options = options,
		.progress = isatty(STDERR_FILENO) && !options->quiet && !options->interval_ns,
	};
	pid_t pid = ocp_process_pid(proc);
	int code = session_open(&s.session, &pid, 1);
	int err = code == EXIT_DONE ? ocp_counter_open(proc, NULL, 0, &s.counter) : 0;

	if (err)
		code = say_error(options->ctx, err);
	if (code == EXIT_DONE) {
		s.hits = calloc(ocp_counter_probe_count(s.counter) + 1, sizeof(*s.hits));
		if (!s.hits || count_output_init(&s.output, s.counter, options->json) != 0) {
			say("out of memory");
			code = EXIT_FAILED;
		}
	}
	if (code == EXIT_DONE)
		code = count(&s);
	ocp_counter_free(s.counter);
	count_output_free(&s.output);
	free(s.hits);
	session_close(&s.session);
	return code;
}
