// SPDX-License-Identifier: MIT
/*
 * `memprof`: print what a program allocates and what stays alive, measured by Gc.Memprof. The
 * library ocaml-probes.memprof in the program starts and stops Gc.Memprof. Events are read
 * continuously; names and reports come at the end.
 */
#include "tool/commands.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "memprof/heap_profile.h"
#include "memprof/probes.h"
#include "memprof/session.h"
#include "process/process_kind.h"
#include "profile/allocation.h"
#include "profile/folded_writer.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"
#include "tool/memprof_memtrace.h"
#include "tool/memprof_output.h"
#include "tool/profile_files.h"
#include "tool/session.h"

enum {
	USUAL_DEPTH = 128,
	/*
	 * Each look at the ring takes CPU time from the program, if there are too few processors.
	 */
	READ_NS = 20 * 1000 * 1000,
	SOON_NS = 5 * 1000 * 1000, /* while many events come, to keep space free in the ring */
	MANY_EVENTS = 2000,
	TURN_NS = 100 * 1000 * 1000,
	EVENTS_A_LOOK = 256, /* events between two looks at the clock */
	STOP_NS = 1000 * 1000 * 1000,
	GONE_NS = 500 * 1000 * 1000,
	REFRESH_NS = 1000 * 1000 * 1000,
};

struct memprof_options {
	struct memprof_spec spec;
	bool folded, by_live, lifetimes;
	const char *html, *pprof, *memtrace; /* files to write; NULL: none */
};

struct memprof_run {
	struct options *options;
	const struct memprof_options *own;
	struct memprof_session *memprof;
	struct memprof_probes *probes; /* NULL: events come out of the ring */
	struct heap_names *names;
	struct heap *heap;
	struct memtrace_file *memtrace;
	size_t n_said; /* number of stacks printed as JSON */
	int64_t asked_ns, start_ns, end_ns;
	int64_t read_ns;	/* time until the next look at the ring */
	int64_t refresh_ns;	/* when the probes are to be refreshed */
	uint64_t start_time_ns; /* since 1970 */
	struct memprof_answers answers;
	int err;
	bool has_said_sampling;
};

static void say_refusals(const struct memprof_run *r)
{
	for (size_t i = 0; i < r->answers.n_refused && !r->options->quiet; i++)
		say("no events of domain %u: %s", r->answers.refused[i], r->answers.refusal);
}

/* ---- options -------------------------------------------------------------------------------- */

static struct memprof_options *memprof_options_of(struct options *options)
{
	static struct memprof_options own = { .spec = { .rate = MEMPROF_USUAL_RATE,
							.depth = USUAL_DEPTH } };

	options->own = &own;
	return &own;
}

static int set_rate(const struct command *command, struct memprof_options *own, const char *value)
{
	if (!memprof_rate_read(value, &own->spec.rate))
		return say_usage(command, "--rate '%s': not a number from 1e-9 to 1", value);
	return EXIT_DONE;
}

static int set_depth(const struct command *command, struct memprof_options *own, const char *value)
{
	char *end;
	long depth;

	errno = 0;
	depth = strtol(value, &end, 10);
	if (errno || end == value || *end || depth < 0 || depth > MEMPROF_MAX_DEPTH)
		return say_usage(command, "--callstack '%s': not a number from 0 to %d", value,
				 MEMPROF_MAX_DEPTH);
	own->spec.depth = (uint32_t)depth;
	return EXIT_DONE;
}

static int set_events(const struct command *command, struct memprof_options *own, const char *value)
{
	own->spec.by_probes = strcmp(value, "probes") == 0;
	if (!own->spec.by_probes && strcmp(value, "ring") != 0)
		return say_usage(command, "--events '%s': not ring or probes", value);
	return EXIT_DONE;
}

static int set_memprof_option(const struct command *command, struct options *options,
			      const char *name, const char *value)
{
	struct memprof_options *own = memprof_options_of(options);

	if (strcmp(name, "rate") == 0)
		return set_rate(command, own, value);
	if (strcmp(name, "callstack") == 0)
		return set_depth(command, own, value);
	if (strcmp(name, "events") == 0)
		return set_events(command, own, value);
	if (strcmp(name, "html") == 0)
		return profile_file_set(command, name, value, &own->html);
	if (strcmp(name, "pprof") == 0)
		return profile_file_set(command, name, value, &own->pprof);
	if (strcmp(name, "memtrace") == 0)
		return profile_file_set(command, name, value, &own->memtrace);
	if (strcmp(name, "live") == 0)
		own->by_live = true;
	else if (strcmp(name, "lifetimes") == 0)
		own->lifetimes = true;
	else
		own->folded = true;
	return EXIT_DONE;
}

/* Check that no file is written twice. */
static int check_memprof_files(const struct memprof_options *own)
{
	const struct {
		const char *flag, *path;
	} files[] = { { "--html", own->html },
		      { "--pprof", own->pprof },
		      { "--memtrace", own->memtrace } };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		for (size_t j = 0; j < i; j++)
			if (profile_file_is_same(files[i].path, files[j].path))
				return say_usage(&command_memprof,
						 "%s and %s name the same file: '%s'",
						 files[j].flag, files[i].flag, files[i].path);
	return EXIT_DONE;
}

static int check_options(const struct options *options, const struct memprof_options *own)
{
	if (!options->n_pids)
		return say_usage(&command_memprof, "-pid is required");
	if (own->folded && options->json)
		return say_usage(&command_memprof, "--folded and --json are mutually exclusive");
	if (own->lifetimes && (own->folded || options->json))
		return say_usage(&command_memprof, "--lifetimes: only for the table");
	return check_memprof_files(own);
}

/* ---- events --------------------------------------------------------------------------------- */

static int take_event(struct memprof_run *r, const struct memprof_event *event)
{
	size_t stack, n;
	int err = heap_enter(r->heap, event, &stack);

	memprof_answers_see(&r->answers, event->domain);
	if (!err)
		err = memtrace_file_put(r->memtrace, event, heap_block_number(r->heap));
	if (err || !r->options->json)
		return err;
	for (const struct heap_stack *stacks = heap_stacks(r->heap, &n); r->n_said < n && !err;
	     r->n_said++)
		err = memprof_json_stack(r->options->ctx, r->names, r->n_said,
					 stacks[r->n_said].frames, stacks[r->n_said].depth);
	if (!err)
		memprof_json_event(event, stack);
	return err;
}

static bool next_event(const struct memprof_run *r, struct memprof_event *event)
{
	return r->probes ? memprof_probes_next(r->probes, memprof_number(r->memprof), event)
			 : memprof_next(r->memprof, event);
}

/*
 * Take the events that have come. Stop after TURN_NS, since a program may write faster than the
 * tool reads. If ALL, take the events that have come up to now without this limit; later events are
 * not taken any more.
 */
static int take_events(struct memprof_run *r, bool all)
{
	const int64_t until_ns = session_now_ns() + TURN_NS;
	struct memprof_event event;
	int err = 0, n = 0;

	if (all)
		memprof_finish(r->memprof);
	if (all && r->probes)
		memprof_probes_finish(r->probes);
	for (; !err && next_event(r, &event); n++) {
		err = take_event(r, &event);
		if (!all && n % EVENTS_A_LOOK == 0 && session_now_ns() > until_ns)
			break;
	}
	r->read_ns = n > MANY_EVENTS ? SOON_NS : READ_NS;
	return err ? err : memtrace_file_flush(r->memtrace);
}

static void take_answers(struct memprof_run *r)
{
	const int err =
		memprof_answers_take(r->options->ctx, r->options->pid, r->memprof, &r->answers);

	if (err)
		r->err = err;
	if (r->answers.started_ns)
		r->start_ns = r->answers.started_ns;
}

/* ---- the session ---------------------------------------------------------------------------- */

static int refused(struct memprof_run *r)
{
	return memprof_answers_refusal(r->options->ctx, r->options->pid, &r->answers);
}

static bool has_started(const struct memprof_run *r)
{
	return r->answers.started_ns != 0;
}

/*
 * Wait until the profile has started in a domain, but at most until MEMPROF_LATE_NS after the
 * request: a program that is blocked starts the profile only when it runs again.
 */
static enum ending await_start(struct memprof_run *r, struct session *session)
{
	enum ending ending = NOT_ENDED;

	while (ending == NOT_ENDED && !has_started(r) && !r->err && !r->answers.is_closed) {
		struct pollfd answer = { .fd = memprof_fd(r->memprof), .events = POLLIN };

		poll(&answer, 1, 10);
		take_answers(r);
		if (memprof_answers_refuse(&r->answers, session_now_ns()))
			r->err = refused(r);
		if (session_now_ns() >= r->asked_ns + MEMPROF_LATE_NS)
			break;
		ending = session_wait(session, session_now_ns());
	}
	return r->err ? ENDED_BY_ERROR : ending;
}

/*
 * Say once that samples are taken. This may be late: a program that is blocked starts the profile
 * only when it runs again.
 */
static void say_sampling(struct memprof_run *r)
{
	if (r->has_said_sampling || r->options->quiet)
		return;
	r->has_said_sampling = true;
	say("sampling %g of the words that pid %d allocates%s", r->own->spec.rate,
	    (int)r->options->pid, r->options->for_ns ? "" : "; end with Ctrl-C");
}

static void say_event_source(struct memprof_run *r)
{
	if (r->options->quiet)
		return;
	if (r->probes)
		say("events: through eBPF (uprobes on %zu probes)",
		    memprof_probes_count(r->probes));
	else
		say("events: through the ring of the library");
	if (has_started(r))
		say_sampling(r);
	else if (!r->answers.is_closed)
		say("pid %d: waits, or runs no OCaml code: the profile starts when it goes on",
		    (int)r->options->pid);
}

/*
 * If a refresh is due, probe the new files of the program. Return true if the probes have ended, so
 * that no more events will come. Other errors of the refresh do not matter.
 */
static bool have_probes_ended(struct memprof_run *r)
{
	if (!r->probes || session_now_ns() < r->refresh_ns)
		return false;
	r->refresh_ns = session_now_ns() + REFRESH_NS;
	if (memprof_probes_refresh(r->probes) != -ESTALE)
		return false;
	say("%s: the profile ends", ocp_error(r->options->ctx));
	return true;
}

static enum ending take_samples(struct memprof_run *r, struct session *session)
{
	const int64_t end_ns = r->options->for_ns ? r->start_ns + r->options->for_ns : INT64_MAX;

	r->read_ns = SOON_NS;
	for (;;) {
		const int64_t next_ns = session_now_ns() + r->read_ns;
		const enum ending ending =
			session_wait(session, next_ns < end_ns ? next_ns : end_ns);

		r->err = take_events(r, false);
		if (!r->err)
			take_answers(r);
		if (has_started(r))
			say_sampling(r);
		if (r->answers.refused_ns && !has_started(r) && !r->err)
			r->err = refused(r);
		if (r->err)
			return ENDED_BY_ERROR;
		if (ending != NOT_ENDED)
			return ending;
		if (r->answers.is_closed) {
			/* An ending process closes its files slightly before its end. */
			session_wait(session, session_now_ns() + GONE_NS);
			return ENDED_WITH_PROCESS;
		}
		if (session_now_ns() >= end_ns || have_probes_ended(r))
			return ENDED_BY_TIME;
	}
}

/*
 * Ask the program to stop the profile. The program may be blocked and not reply; the profile then
 * stops when the program runs again.
 */
static int stop(struct memprof_run *r)
{
	const int64_t until_ns = session_now_ns() + STOP_NS;
	int err = take_events(r, false);

	memprof_stop(r->memprof);
	while (!r->answers.has_stopped && !r->answers.is_closed && session_now_ns() < until_ns) {
		struct pollfd answer = { .fd = memprof_fd(r->memprof), .events = POLLIN };

		poll(&answer, 1, 10);
		take_answers(r);
	}
	if (!r->answers.has_stopped && !r->answers.is_closed && !r->options->quiet)
		say("pid %d: waits: the profile stops when it goes on", (int)r->options->pid);
	return err ? err : take_events(r, true);
}

/* ---- the report ----------------------------------------------------------------------------- */

static int write_html(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	return html_write(ctx, data, "words", to);
}

static int write_blocks_pprof(struct ocp_ctx *ctx, const void *data, FILE *to)
{
	return pprof_write(ctx, data, to);
}

static int write_profile(struct memprof_run *r)
{
	struct ocp_ctx *ctx = r->options->ctx;
	struct profile profile;
	int err;

	if (!r->own->html && !r->own->pprof && !r->own->folded)
		return 0;
	err = heap_profile_make(ctx, r->heap, r->names, r->own->spec.rate, r->own->by_live,
				&profile);
	if (err)
		return err;
	profile.start_ns = r->start_time_ns;
	profile.duration_ns = (uint64_t)(r->end_ns - r->start_ns);
	if (r->own->html)
		err = profile_file_write(ctx, r->own->html, write_html, &profile);
	if (r->own->folded && !err)
		folded_write(&profile, stdout);
	profile_free(&profile);
	/* The pprof file has both values, allocated words first. */
	if (err || !r->own->pprof)
		return err;
	err = heap_profile_make(ctx, r->heap, r->names, r->own->spec.rate, false, &profile);
	if (err)
		return err;
	profile.start_ns = r->start_time_ns;
	profile.duration_ns = (uint64_t)(r->end_ns - r->start_ns);
	profile.is_live = r->own->by_live;
	err = profile_file_write(ctx, r->own->pprof, write_blocks_pprof, &profile);
	profile_free(&profile);
	return err;
}

static int report_heap(struct memprof_run *r)
{
	struct memprof_report report = {
		.heap = r->heap,
		.names = r->names,
		.rate = r->own->spec.rate,
		.seconds = (double)(r->end_ns - r->start_ns) / 1e9,
		.losses =
			memprof_losses(r->memprof, r->answers.is_closed && !r->answers.has_stopped),
		.by_probes = r->probes,
		.by_live = r->own->by_live,
		.lifetimes = r->own->lifetimes,
	};
	int err = r->probes ? memprof_probes_add_losses(r->probes, &report.losses) : 0;

	if (err)
		return err;
	err = memtrace_file_finish(r->memtrace, &report.losses, r->options->quiet);
	r->memtrace = NULL;
	if (!err)
		err = write_profile(r);
	if (err)
		return err;
	if (r->options->json)
		memprof_json_end(&report);
	else if (!r->own->folded)
		err = memprof_print_table(r->options->ctx, &report);
	else if (!r->options->quiet)
		memprof_print_losses(&report, stderr);
	say_refusals(r);
	if (!err && !heap_totals(r->heap).blocks && !r->options->quiet)
		say(has_started(r) ? "no samples: the program has allocated too little at this rate"
				   : "no samples: the profile has not started");
	return err;
}

static int run_memprof_session(struct memprof_run *r, struct session *session)
{
	enum ending ending;
	int err;

	ending = await_start(r, session);
	if (!has_started(r))
		r->start_ns = session_now_ns();
	r->start_time_ns = (uint64_t)clock_ns(CLOCK_REALTIME);
	if (ending == NOT_ENDED) {
		say_event_source(r);
		if (r->options->json)
			memprof_json_start(&(struct memprof_json_head){
				.pid = (int)r->options->pid,
				.rate = r->own->spec.rate,
				.depth = r->own->spec.depth,
				.ocaml = memprof_ocaml(r->memprof),
				.by_probes = r->probes,
				.after_ns = has_started(r) ? r->start_ns - r->asked_ns : -1 });
		ending = take_samples(r, session);
	}
	r->end_ns = session_now_ns();
	err = r->err;
	if (!err && ending == ENDED_BY_ERROR)
		return EXIT_FAILED;
	if (!err)
		err = stop(r);
	if (!err && ending == ENDED_WITH_PROCESS && !r->options->quiet)
		say(session->n_alive
			    ? "pid %d has executed another program, or has closed the session"
			    : "pid %d has ended",
		    (int)r->options->pid);
	if (!err)
		err = report_heap(r);
	return err ? say_error(r->options->ctx, err) : EXIT_DONE;
}

/*
 * Check that the program is linked with the library. Programs without native OCaml code cannot be.
 * For native OCaml programs, the hint is to sample allocation without the library; say why if that
 * is not possible.
 */
static int check_linked(struct ocp_ctx *ctx, pid_t pid, const struct memprof_spec *spec)
{
	int err = memprof_check(ctx, pid, spec);
	struct ocp_ctx *own;

	if (err != -ENODATA || process_need_native(ctx, pid) != 0)
		return err;
	err = memprof_check(ctx, pid, spec);
	own = ocp_ctx_new();
	if (own && allocation_check(own, pid))
		ctx_hint(
			ctx,
			"`ocaml-probes profile --alloc`, which needs no library, is not possible: %s",
			ocp_error(own));
	ocp_ctx_free(own);
	return err;
}

static int open_run(struct memprof_run *r)
{
	struct ocp_ctx *ctx = r->options->ctx;
	int err = profile_file_check(ctx, r->own->html);

	if (!err)
		err = profile_file_check(ctx, r->own->pprof);
	if (!err)
		err = check_linked(ctx, r->options->pid, &r->own->spec);
	if (!err)
		err = heap_new(ctx, &r->heap);
	/* Read the mappings before the request, since the program can end soon after it. */
	if (!err)
		err = heap_names_open(ctx, r->options->pid, &r->names);
	if (!err)
		err = memtrace_file_open(ctx, r->own->memtrace, r->options->pid, &r->own->spec,
					 r->names, &r->memtrace);
	r->asked_ns = session_now_ns();
	if (!err && r->own->spec.by_probes)
		err = memprof_probes_open(ctx, r->options->pid, r->own->spec.depth, &r->probes);
	if (!err)
		err = memprof_open(ctx, r->options->pid, &r->own->spec, &r->memprof);
	return err ? say_error(ctx, err) : EXIT_DONE;
}

static int run_heap_tracking(struct options *options)
{
	struct memprof_run r = { .options = options, .own = memprof_options_of(options) };
	struct session session = { 0 };
	int code = check_options(options, r.own);

	if (code != EXIT_DONE)
		return code;
	code = session_open(&session, options->pids, options->n_pids);
	if (code == EXIT_DONE)
		code = open_run(&r);
	if (code == EXIT_DONE)
		code = run_memprof_session(&r, &session);
	memprof_close(r.memprof);
	memprof_probes_close(r.probes);
	memtrace_file_abandon(r.memtrace);
	session_close(&session);
	heap_names_close(r.names);
	heap_free(r.heap);
	return code;
}

const struct command command_memprof = {
	.name = "memprof",
	.help = &help_memprof,
	.takes_running = true,
	.run = run_heap_tracking,
	.set_own = set_memprof_option,
};
