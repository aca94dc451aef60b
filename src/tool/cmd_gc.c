// SPDX-License-Identifier: MIT
/*
 * `gc`: print what the garbage collector of a process does. The figures are read at the start, at
 * the end of each interval and at the end. They are also read periodically in between: a process
 * that has ended cannot be read, so the figures that were read last are printed for it.
 */
#include "tool/commands.h"

#include <errno.h>
#include <stdio.h>

#include "tool/collector_share.h"
#include "tool/gc_output.h"
#include "tool/gc_pauses.h"
#include "tool/session.h"

enum {
	KEEP_NS = 100 * 1000 * 1000,
	/* the longest time from when an ending process releases its memory to its exit */
	GRACE_NS = 100 * 1000 * 1000,
};

struct gc_session {
	struct options *options;
	struct gc_reader *reader;
	struct gc_pauses *pauses;      /* NULL: pauses are not measured */
	struct collector_share *share; /* NULL: the CPU time is not sampled */
	int64_t start_ns;
	/*
	 * Figures and their times: at the start, at the start of the interval, and the latest ones.
	 */
	struct gc_gauges first, before, now;
	int64_t first_ns, before_ns, now_ns;
	bool has_written;
	bool runs_another; /* the process has executed another program */
	int err;
};

static int read_gauges(struct gc_session *s)
{
	struct gc_gauges gauges;

	s->err = gc_reader_read(s->reader, &gauges);
	if (s->err)
		return s->err;
	s->now = gauges;
	s->now_ns = session_now_ns();
	return 0;
}

/*
 * Return the pauses. If they cannot be read, say why and return NULL; the report then has no
 * pauses.
 */
static const struct ocp_sample *read_pauses(struct gc_session *s, bool is_total)
{
	const struct ocp_sample *sample = NULL;

	if (s->pauses && gc_pauses_read(s->pauses, is_total, &sample))
		say("pauses: %s", ocp_error(s->options->ctx));
	return sample;
}

static void write_report(struct gc_session *s, bool is_total)
{
	const struct gc_report report = {
		.pid = s->options->pid,
		.exe = gc_reader_exe(s->reader),
		.runtime = gc_reader_runtime(s->reader),
		.now = &s->now,
		.before = is_total ? &s->first : &s->before,
		.at_ns = s->now_ns - s->start_ns,
		.span_ns = s->now_ns - (is_total ? s->first_ns : s->before_ns),
		.pauses = read_pauses(s, is_total),
		.is_total = is_total,
		.is_first = !s->has_written,
	};

	s->has_written = true;
	if (s->options->json)
		gc_write_json(&report);
	else
		gc_write_table(&report);
	fflush(stdout);
}

/*
 * Read the figures. If the process has ended, return ENDED_WITH_PROCESS, and keep the figures that
 * were read last. Do the same if the process has executed another program (s->runs_another).
 */
static enum ending read_now(struct gc_session *s, struct session *session)
{
	if (read_gauges(s) == 0)
		return NOT_ENDED;
	if (s->err != -ESRCH)
		return ENDED_BY_ERROR;
	s->runs_another = session_wait(session, session_now_ns() + GRACE_NS) != ENDED_WITH_PROCESS;
	return ENDED_WITH_PROCESS;
}

static enum ending read_gauges_until_end(struct gc_session *s, struct session *session)
{
	const int64_t interval_ns = s->options->interval_ns;
	const int64_t end_ns = s->options->for_ns ? s->start_ns + s->options->for_ns : INT64_MAX;
	int64_t interval_end_ns = interval_ns ? s->start_ns + interval_ns : INT64_MAX;

	for (;;) {
		int64_t until_ns = session_now_ns() + KEEP_NS;
		enum ending ending;

		until_ns = until_ns < end_ns ? until_ns : end_ns;
		until_ns = until_ns < interval_end_ns ? until_ns : interval_end_ns;
		ending = session_wait(session, until_ns);
		if (ending == ENDED_WITH_PROCESS || ending == ENDED_BY_ERROR)
			return ending;
		if (ending == NOT_ENDED)
			ending = read_now(s, session);
		else if (read_now(s, session) == ENDED_BY_ERROR)
			return ENDED_BY_ERROR;
		if (ending != NOT_ENDED)
			return ending;
		collector_share_refresh(s->share);
		if (session_now_ns() >= interval_end_ns) {
			write_report(s, false);
			s->before = s->now;
			s->before_ns = s->now_ns;
			while (interval_end_ns <= s->now_ns)
				interval_end_ns += interval_ns;
		}
		if (session_now_ns() >= end_ns)
			return ENDED_BY_TIME;
	}
}

static int measure_gc(struct gc_session *s, struct session *session)
{
	enum ending ending;

	s->start_ns = session_now_ns();
	if (read_gauges(s))
		return say_error(s->options->ctx, s->err);
	s->first = s->before = s->now;
	s->first_ns = s->before_ns = s->now_ns;
	ending = read_gauges_until_end(s, session);
	if (ending == ENDED_BY_ERROR)
		return session->err ? EXIT_FAILED : say_error(s->options->ctx, s->err);
	if (ending == ENDED_WITH_PROCESS && !s->runs_another && !s->options->quiet)
		say("pid %d has ended", (int)s->options->pid);
	write_report(s, true);
	if (!s->options->json)
		collector_share_print(s->share);
	fflush(stdout);
	if (s->now.lacks_ended_domains && !s->options->quiet)
		say("warning: %s: is stripped, so what ended domains have allocated is not known",
		    gc_reader_exe(s->reader));
	if (s->runs_another)
		return say_error(s->options->ctx, -ESRCH);
	return EXIT_DONE;
}

static int run_gc(struct options *options)
{
	struct gc_session s = { .options = options };
	struct session session;
	int code;

	if (!options->pid)
		return say_usage(&command_gc, "-pid is required");
	s.err = gc_reader_open(options->ctx, options->pid, &s.reader);
	if (s.err)
		return say_error(options->ctx, s.err);
	/* Reading the figures needs no privilege; measuring pauses in the kernel does. */
	if (gc_pauses_open(options->ctx, options->pid, &s.pauses) && !options->quiet)
		say("pauses are not measured: %s", ocp_error(options->ctx));
	if (!options->json)
		s.share = collector_share_begin(options->pid);
	code = session_open(&session, &options->pid, 1);
	if (code == EXIT_DONE)
		code = measure_gc(&s, &session);
	session_close(&session);
	collector_share_close(s.share);
	gc_pauses_close(s.pauses);
	gc_reader_free(s.reader);
	return code;
}

const struct command command_gc = {
	.name = "gc",
	.help = &help_gc,
	.takes_running = true,
	.run = run_gc,
};
