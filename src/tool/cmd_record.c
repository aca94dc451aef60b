// SPDX-License-Identifier: MIT
/*
 * `record`: write what happened in a process, as a timeline. The events are those of a meter: hits
 * of probes, and each pair and each call with its beginning and its duration; and waits and CPU
 * samples (record/moments.h). They are kept in a buffer of a fixed size (record/trace.h), and
 * written at the end.
 *
 * As a flight recorder (--when), it runs until it is stopped. Each time that a condition holds, it
 * writes the last seconds, and the second that follows, to another file.
 */
#include "tool/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/plural.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "code/runtime.h"
#include "look/proc_file.h"
#include "measure/hit_filter.h"
#include "measure/meter.h"
#include "measure/open_pairs.h"
#include "program/program.h"
#include "record/conditions.h"
#include "record/counters.h"
#include "record/hit_events.h"
#include "record/moments.h"
#include "record/page_writer.h"
#include "record/perfetto_writer.h"
#include "record/recorder_socket.h"
#include "tool/gc_plan.h"
#include "tool/likely_pairs.h"
#include "tool/measure_session.h"
#include "tool/numbered_files.h"
#include "tool/profile_files.h"

enum {
	DEFAULT_MEMORY = 64 << 20,
	DEFAULT_DISK = 1 << 30,
	DEFAULT_FILES = 10,
	MOST_FILES = 10000,
	SHARE_OF_EVENTS =
		4, /* the part of --memory for events that processes write: one in so many */
	USUAL_HZ = 99,
	MOST_HZ = 10000,
	REFRESH_NS = 1000 * 1000 * 1000,
};

/* How long after the moment of a condition the events are still recorded. */
static const int64_t AFTERWARDS_NS = 1000000000;
static const int64_t DEFAULT_LAST_NS = 10000000000;
/* The default limit of the cost of waits, and of samples. */
static const double MOST_OF_A_CORE = 0.05;

/* ---- options and conditions ------------------------------------------------------------------ */

struct record_options {
	struct record_condition *conditions;
	size_t n_conditions;
	int64_t last_ns;
	size_t memory, n_files, disk;
	const char *name; /* of the flight recorder, for --dump; NULL: none */
	const char *dump; /* ask the flight recorder of this name for a file; NULL: record */
	unsigned int hz;  /* samples of the CPU per second; 0: none */
	const char *html; /* the page to write; NULL: none */
	bool has_last, has_files, has_disk, has_no_waits;
};

/* Set by SIGUSR1, which asks for a file in the same way as a condition. */
static volatile sig_atomic_t is_asked;

static void ask_for_file(int number)
{
	(void)number;
	is_asked = 1;
}

static int add_condition(const struct command *command, struct ocp_ctx *ctx,
			 struct record_options *own, const char *text)
{
	struct record_condition *condition = array_add(own->conditions, own->n_conditions);
	int err;

	if (!condition) {
		say("out of memory");
		return EXIT_FAILED;
	}
	err = record_condition_read(ctx, text, condition);
	return err ? say_usage(command, "--when '%s': %s", text, ocp_error(ctx)) : EXIT_DONE;
}

static bool times_pair(const struct measure_request *request, const char *what)
{
	for (size_t i = 0; i < request->n_pairs; i++)
		if (record_condition_names_pair(what, request->pairs[i].start.text,
						request_pair_stop(&request->pairs[i])))
			return true;
	return false;
}

/* Return true if the hits of PROBE are printed by its name. */
static bool prints_probe(const struct measure_request *request, const char *probe)
{
	for (size_t i = 0; i < request->printed.n; i++)
		if (request->printed.list[i].text &&
		    strcmp(request->printed.list[i].text, probe) == 0)
			return true;
	return false;
}

/* Measure what the conditions are about. */
static int request_conditions(const struct command *command, struct options *options)
{
	const struct record_options *own = options->own;
	int code = EXIT_DONE;

	for (size_t i = 0; code == EXIT_DONE && i < own->n_conditions; i++) {
		const struct record_condition *condition = &own->conditions[i];

		if (condition->kind == WHEN_SLOWER &&
		    !times_pair(&options->request, condition->what))
			code = measure_options_add(command, options, "time", condition->what);
		if (condition->kind == WHEN_HIT &&
		    !prints_probe(&options->request, condition->what))
			code = measure_options_add(command, options, "print", condition->what);
	}
	return code;
}

/* Return true if the engine `inside` may record the request of OPTIONS. */
static bool may_be_inside(const struct options *options)
{
	if (measure_options_need_bpf(options) || options->engine == ENGINE_BPF)
		return false;
	return options->engine != ENGINE_DEFAULT || meter_lacks_bpf(options->ctx);
}

/*
 * With a key, also record the hits of the starts and stops of the pairs: they show in which threads
 * a request was. A filter need not apply to the arguments of both, so with a filter they are not
 * recorded.
 */
static int request_ends_of_pairs(const struct command *command, struct options *options)
{
	struct measure_request *request = &options->request;
	int code = EXIT_DONE;

	if (!measure_request_has_key(request) || request->filter)
		return EXIT_DONE;
	for (size_t i = 0; code == EXIT_DONE && i < request->n_pairs; i++) {
		const char *ends[] = { request->pairs[i].start.text,
				       request_pair_stop(&request->pairs[i]) };

		for (int j = 0; code == EXIT_DONE && *ends[1] && j < 2; j++)
			if (!prints_probe(request, ends[j]))
				code = measure_options_add(command, options, "print", ends[j]);
	}
	return code;
}

/* Check that the probes of METER have the arguments of the conditions. */
static int check_conditions(const struct options *options, const struct ocp_meter *meter)
{
	const struct record_options *own = options->own;
	int err = 0;

	for (size_t i = 0; !err && i < own->n_conditions; i++)
		if (own->conditions[i].filter)
			err = hit_filter_check(own->conditions[i].filter, meter,
					       own->conditions[i].what);
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

/* ---- the recorder --------------------------------------------------------------------------- */

struct recording {
	struct options *options;
	const struct record_options *own;
	struct trace *trace;
	struct hit_keys keys; /* by which the pairs are matched */
	struct measure_session measure;
	struct ocp_process *held;  /* the program that was started and is held; NULL: none */
	struct workload command;   /* the command, if there is one */
	struct moments *moments;   /* NULL: no waits and no samples */
	int64_t refreshed_ns;	   /* when `moments` was refreshed last */
	struct counters *counters; /* NULL: not read */
	int64_t start_ns, end_ns;  /* when recording began, and when events were taken last */
	uint64_t n_lost;	   /* events that did not fit into the buffer */
	uint64_t n_open;	   /* slices without an end that were added last */
	uint64_t n_unkept;	   /* pairs and calls without an end that are missing */
	/* of a flight recorder: the next file, and when it is due (0: no condition holds) */
	const char *why;
	int64_t due_ns, held_ns;
	bool is_for_dump;  /* no condition holds; --dump has asked for the file */
	size_t n_existing; /* the number of the last file that was there before */
	size_t n_written, n_removed;
	struct recorder_socket *socket; /* NULL: the recorder has no name */
	uint64_t n_held;		/* how often a condition held */
	int err;
};

/* A condition holds, or the user asks for a file: write one when the time afterwards is over. */
static void plan_file(struct recording *r, const char *why, int64_t ns)
{
	r->n_held++;
	/* A file for --dump would lack the time afterwards. */
	if (r->due_ns && !r->is_for_dump)
		return;
	r->is_for_dump = false;
	r->why = why;
	r->held_ns = ns;
	r->due_ns = ns + AFTERWARDS_NS;
}

/* Somebody waits for a file: write it soon, unless one is planned already. */
static void plan_dump(struct recording *r)
{
	if (r->due_ns)
		return;
	r->is_for_dump = true;
	r->why = "record --dump";
	r->held_ns = r->due_ns = session_now_ns();
}

static void take_hit(void *data, const struct ocp_hit *hit)
{
	struct recording *r = data;
	const int64_t start_ns = meter_start_ns(r->measure.meter);
	int err = hit_events_add(r->trace, &r->keys, start_ns, hit);

	if (err == -E2BIG)
		r->n_lost++;
	else if (err)
		r->err = err;
	for (size_t i = 0; i < r->own->n_conditions; i++)
		if (record_condition_holds(r->options->ctx, &r->own->conditions[i], hit))
			plan_file(r, r->own->conditions[i].text, start_ns + hit->time_ns);
}

static void take_open_hit(void *data, const struct ocp_hit *hit)
{
	struct recording *r = data;
	int err = hit_events_add(r->trace, &r->keys, meter_start_ns(r->measure.meter), hit);

	if (!err)
		r->n_open++;
	else if (err == -E2BIG)
		r->n_unkept++;
	else
		r->err = err;
}

/* Add what has begun and not ended: pairs and calls, and waits. */
static int take_open(struct recording *r)
{
	int err = meter_take_open(r->measure.meter, take_open_hit, r, &r->n_unkept);

	if (!err)
		err = r->err;
	return err || !r->moments ? err : moments_take_open(r->moments, r->trace);
}

/*
 * Find the calls that an exception has ended, while the meter is attached: first take those that
 * have begun just now.
 */
static int before_detach(void *data)
{
	struct recording *r = data;
	int err = ocp_meter_take_hits(r->measure.meter, take_hit, r);

	return err ? err : meter_find_ended_calls(r->measure.meter);
}

/* Take the waits and samples, and refresh what takes them. */
static int take_moments(struct recording *r)
{
	const int64_t now_ns = session_now_ns();
	int err = r->moments ? moments_take(r->moments, r->trace) : 0;

	if (err || !r->moments || now_ns < r->refreshed_ns + REFRESH_NS)
		return err;
	r->refreshed_ns = now_ns;
	return moments_refresh(r->moments);
}

/* Set *N to the number of events that the kernel, or the buffer, had no room for. */
static int count_lost(struct recording *r, uint64_t *n)
{
	const struct ocp_losses *losses;
	struct ocp_sample *sample;
	uint64_t n_moments = 0;
	int err = ocp_meter_read(r->measure.meter, &sample);

	if (err)
		return err;
	losses = ocp_sample_losses(sample);
	*n = r->n_lost + r->n_unkept + losses->prints_dropped + losses->slow_dropped +
	     losses->prints_limited + losses->slow_limited;
	ocp_sample_free(sample);
	err = r->moments ? moments_n_lost(r->moments, &n_moments) : 0;
	*n += n_moments;
	return err;
}

/* A form in which the trace is written. */
struct trace_form {
	const char *path;
	int (*write)(struct ocp_ctx *ctx, const void *data, FILE *to);
	const char *opened_by;
};

enum { MOST_FORMS = 2 };

/* Set FORMS to the forms that the user has asked for. Returns their number. */
static size_t trace_forms(const struct options *options, struct trace_form forms[MOST_FORMS])
{
	const struct record_options *own = options->own;
	size_t n = 0;

	if (options->output)
		forms[n++] = (struct trace_form){ options->output, perfetto_write,
						  "ui.perfetto.dev opens it" };
	if (own->html)
		forms[n++] =
			(struct trace_form){ own->html, timeline_page_write, "a browser opens it" };
	return n;
}

/*
 * Set SOURCE to what is recorded from SINCE_NS on, for all forms. It is valid until the next event.
 */
static int make_source(struct recording *r, int64_t since_ns, const char *why,
		       struct trace_source *source)
{
	int err;

	*source = (struct trace_source){
		.trace = r->trace,
		.since_ns = since_ns,
		.end_ns = r->end_ns,
		.n_open = r->n_open,
		.tool = "recorded by ocaml-probes " OCP_VERSION,
		.why = why,
		.gaps = r->moments ? moments_gaps(r->moments) : "",
		.moments = r->moments,
	};
	err = count_lost(r, &source->n_lost);
	return err || !r->moments ? err : moments_read_stacks(r->moments);
}

/* Files of an earlier recorder stay: find the number after theirs. */
static int find_existing(struct recording *r)
{
	struct trace_form forms[MOST_FORMS];
	const size_t n = trace_forms(r->options, forms);

	for (size_t i = 0; i < n; i++) {
		size_t last;
		int err = numbered_file_last(r->options->ctx, forms[i].path, &last);

		if (err)
			return err;
		r->n_existing = last > r->n_existing ? last : r->n_existing;
	}
	return 0;
}

/* Remove file NUMBER in all FORMS. */
static void remove_numbered(const struct trace_form *forms, size_t n, size_t number)
{
	for (size_t i = 0; i < n; i++) {
		char *path = numbered_file_path(forms[i].path, number);

		if (path && unlink(path) != 0 && errno != ENOENT)
			say("%s: %s", path, strerror(errno));
		free(path);
	}
}

/* Return the size of file NUMBER in all FORMS. */
static uint64_t numbered_bytes(const struct trace_form *forms, size_t n, size_t number)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		char *path = numbered_file_path(forms[i].path, number);
		struct stat st;

		if (path && stat(path, &st) == 0)
			bytes += (uint64_t)st.st_size;
		free(path);
	}
	return bytes;
}

/* Remove the oldest files of this recorder while there are too many or they are too large. */
static void remove_oldest(struct recording *r, const struct trace_form *forms, size_t n)
{
	const size_t most = r->own->n_files, first = r->n_existing + 1;
	size_t kept = 0;
	uint64_t bytes = 0;

	/* The newest file always stays. */
	while (kept < most && kept < r->n_written - r->n_removed) {
		bytes += numbered_bytes(forms, n, first + r->n_written - 1 - kept);
		if (kept && bytes > r->own->disk)
			break;
		kept++;
	}
	while (r->n_written - r->n_removed > kept)
		remove_numbered(forms, n, first + r->n_removed++);
}

/* Write the file that is due, with the events of SOURCE, to PATH in the form FORM. */
static int write_due_form(struct recording *r, const struct trace_source *source,
			  const struct trace_form *form, const char *path)
{
	int err = path ? profile_file_write(r->options->ctx, path, form->write, source)
		       : ctx_no_memory(r->options->ctx);

	if (!err && !r->options->quiet)
		say("%s: written, since %s", path, r->why);
	return err;
}

/* Write a file, in all forms, and say so to those who have asked for it. */
static int write_due_forms(struct recording *r)
{
	struct trace_form forms[MOST_FORMS];
	char *paths[MOST_FORMS] = { NULL };
	const size_t n = trace_forms(r->options, forms);
	struct trace_source source;
	int err = make_source(r, r->held_ns - r->own->last_ns, r->why, &source);

	for (size_t i = 0; !err && i < n; i++) {
		paths[i] = numbered_file_path(forms[i].path, r->n_existing + r->n_written + 1);
		err = write_due_form(r, &source, &forms[i], paths[i]);
	}
	if (!err) {
		r->n_written++;
		remove_oldest(r, forms, n);
	}
	recorder_socket_answer(r->socket, paths, n, err ? ocp_error(r->options->ctx) : NULL);
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	return err;
}

/*
 * Write what is due. What has not ended is in this file only, since it may end later. If the meter
 * IS_ATTACHED, the calls that have ended without an exit can be found.
 */
static int write_due(struct recording *r, bool is_attached)
{
	const struct trace_mark mark = trace_mark(r->trace);
	int err = is_attached ? meter_find_ended_calls(r->measure.meter) : 0;

	r->n_open = 0;
	if (!err)
		err = take_open(r);
	if (!err)
		err = write_due_forms(r);
	trace_rewind(r->trace, &mark);
	r->due_ns = 0;
	return err;
}

static bool is_flight_recorder(const struct recording *r)
{
	return r->own->n_conditions || r->own->has_last;
}

/* Return true if a file is due, and all hits that happened until then have been taken. */
static bool is_due(const struct recording *r)
{
	return r->due_ns && session_now_ns() >= r->due_ns &&
	       meter_hits_until(r->measure.meter) >= r->due_ns;
}

static enum ending after_hits(void *data)
{
	struct recording *r = data;

	r->end_ns = session_now_ns();
	if (!r->err)
		r->err = take_moments(r);
	if (!r->err)
		r->err = counters_read(r->counters, r->trace, r->end_ns);
	if (is_asked) {
		is_asked = 0;
		plan_file(r, "SIGUSR1", session_now_ns());
	}
	if (!r->err && is_due(r))
		r->err = write_due(r, true);
	if (!r->err && recorder_socket_take(r->socket))
		plan_dump(r);
	r->measure.err = r->err;
	return r->err ? ENDED_BY_ERROR : NOT_ENDED;
}

/* ---- what to record ------------------------------------------------------------------------- */

/* Leave out the phases that the engine `inside` cannot time in PROG, and say why. */
static int leave_out_phases(const struct options *options, const struct ocp_program *prog,
			    struct gc_plan *plan)
{
	struct gc_refusals refusals = { .n = 0 };
	int err = gc_plan_fit_inside(options->ctx, prog, plan, &refusals);

	for (size_t i = 0; !options->quiet && i < refusals.n; i++)
		if (refusals.list[i])
			say("not recorded: %s", refusals.list[i]);
	gc_refusals_free(&refusals);
	return err;
}

/* Time the phases of the collector of the program that PID runs. */
static int request_phases(const struct options *options, pid_t pid, struct measure_request *request)
{
	struct ocp_ctx *ctx = options->ctx;
	const int fd = proc_open_exe(pid);
	struct ocp_program *prog = NULL;
	struct gc_plan plan = { .n = 0 };
	struct runtime runtime;
	int err = fd < 0 ? fd : program_open_fd(ctx, fd, "exe", &prog);

	if (!err)
		err = runtime_recognise(ctx, prog->elf, &runtime);
	if (!err)
		err = gc_plan_make(ctx, prog->elf, &runtime, &plan);
	if (!err && may_be_inside(options))
		err = leave_out_phases(options, prog, &plan);
	ocp_program_free(prog);
	/* A program whose phases are not known is recorded without them. */
	for (size_t i = 0; !err && i < plan.n; i++)
		if (plan.is_timed[i] && !times_pair(request, plan.names[i]) &&
		    measure_request_add_pair(request, plan.names[i], NULL))
			return ctx_no_memory(ctx);
	return 0;
}

/*
 * Without options that say what to record, record the pairs that the names of the probes suggest,
 * and the hits of all probes.
 */
static int request_default(struct options *options, struct ocp_process *proc)
{
	int err = likely_pairs_add(proc, &options->request);

	if (!err && ocp_process_probe_count(proc))
		return measure_options_add(&command_record, options, "print", ".*");
	return err ? say_error(options->ctx, err) : EXIT_DONE;
}

/* Check that the key and the filter apply to something: phases have no arguments. */
static int check_arguments_used(const struct options *options)
{
	const struct measure_request *request = &options->request;

	if (request->filter && measure_request_is_empty(request))
		return say_usage(&command_record, "--filter: the program has no probes; --time and "
						  "--print can name functions");
	if (measure_request_has_key(request) && !measure_request_has_pairs(request))
		return say_usage(&command_record,
				 "--key requires --time: no names of probes suggest a pair");
	return EXIT_DONE;
}

/* Complete the request of OPTIONS for the processes PROCS. */
static int complete_request(struct options *options, struct ocp_process **procs)
{
	int code = EXIT_DONE, err;

	if (measure_request_is_empty(&options->request) && options->n_pids)
		code = request_default(options, procs[0]);
	if (code == EXIT_DONE)
		code = request_conditions(&command_record, options);
	if (code == EXIT_DONE)
		code = check_arguments_used(options);
	if (code == EXIT_DONE)
		code = request_ends_of_pairs(&command_record, options);
	if (code != EXIT_DONE)
		return code;
	err = options->n_pids ? request_phases(options, options->pids[0], &options->request) : 0;
	if (err)
		return say_error(options->ctx, err);
	if (measure_request_is_empty(&options->request) && !options->n_pids) {
		say("%s: no process runs it: --time or --print must say what to record",
		    options->exe);
		return EXIT_USAGE;
	}
	if (measure_request_is_empty(&options->request)) {
		say("nothing to record: the program has no probes, and the phases of its collector "
		    "are not known");
		fputs("hint: --time fn:NAME records the calls of a function\n", stderr);
		return EXIT_USAGE;
	}
	if (options->engine == ENGINE_INSIDE && measure_options_need_bpf(options))
		return say_usage(&command_record, "--engine inside excludes %s",
				 measure_options_need_bpf(options));
	/* Each pair is reported, however short it is. */
	options->request.has_slower = measure_request_has_pairs(&options->request);
	options->request.spares_phases = true;
	options->request.has_print_limit = true;
	options->request.print_limit = 0;
	return EXIT_DONE;
}

/* ---- the session ---------------------------------------------------------------------------- */

static int open_processes(const struct options *options, struct ocp_process **procs)
{
	for (size_t i = 0; i < options->n_pids; i++) {
		int err = ocp_process_open(options->ctx, options->pids[i], &procs[i]);

		if (err)
			return say_error(options->ctx, err);
	}
	return EXIT_DONE;
}

/* Write SOURCE, which is the whole trace, in the form FORM, and say what it has. */
static int write_whole(struct recording *r, const struct trace_source *source,
		       const struct trace_form *form)
{
	const uint64_t n = trace_event_count(r->trace);
	char open[64] = "";
	int err = profile_file_write(r->options->ctx, form->path, form->write, source);

	if (err)
		return say_error(r->options->ctx, err);
	if (r->options->quiet)
		return EXIT_DONE;
	if (r->n_open)
		snprintf(open, sizeof(open), " (%" PRIu64 " without an end)", r->n_open);
	say("%s: written: %" PRIu64 " event%s%s of %.1f s, %" PRIu64 " dropped, %" PRIu64
	    " lost; %s",
	    form->path, n, plural(n), open, (double)(r->end_ns - r->start_ns) / 1e9,
	    trace_dropped(r->trace), source->n_lost, form->opened_by);
	return EXIT_DONE;
}

static int write_all(struct recording *r)
{
	struct trace_form forms[MOST_FORMS];
	const size_t n = trace_forms(r->options, forms);
	struct trace_source source;
	int err = make_source(r, INT64_MIN, NULL, &source);
	int code = err ? say_error(r->options->ctx, err) : EXIT_DONE;

	for (size_t i = 0; code == EXIT_DONE && i < n; i++)
		code = write_whole(r, &source, &forms[i]);
	return code;
}

/* The end of a flight recorder: write the file that is planned, and say how many there are. */
static int end_flight(struct recording *r)
{
	int err = r->due_ns ? write_due(r, false) : 0;

	if (err)
		return say_error(r->options->ctx, err);
	if (!r->options->quiet)
		say("%zu file%s written; a condition held %" PRIu64 " time%s", r->n_written,
		    plural(r->n_written), r->n_held, plural(r->n_held));
	return EXIT_DONE;
}

/*
 * Start the command, if there is one. The session then ends with the command. A program that is
 * held runs from here on.
 */
static int start_command(struct recording *r, struct session *session)
{
	int code = EXIT_DONE;

	if (r->held)
		code = session_adopt_workload(session, &r->command, r->options->pid);
	else if (session->workload)
		code = workload_start(session->workload);
	if (r->held && code == EXIT_DONE)
		ocp_process_release(r->held);
	return code;
}

static int record(struct recording *r, struct session *session)
{
	int err = r->moments ? moments_start(r->moments) : 0, code;

	if (err)
		return say_error(r->options->ctx, err);
	r->start_ns = r->refreshed_ns = session_now_ns();
	code = measure_attach(&r->measure);
	if (code == EXIT_DONE)
		code = start_command(r, session);
	if (code == EXIT_DONE)
		code = measure_wait(&r->measure, session);
	if (code != EXIT_DONE && code != EXIT_OVER_BUDGET)
		return code;
	/* What has not ended is perhaps what the user looks for. */
	err = is_flight_recorder(r) ? 0 : take_open(r);
	if (err)
		return say_error(r->options->ctx, err);
	/* What was recorded up to there is true, even if the recording had to end early. */
	return (is_flight_recorder(r) ? end_flight(r) : write_all(r)) ?: code;
}

/*
 * Begin to record waits and samples. A program or kernel that does not allow this is recorded
 * without them.
 */
static void open_moments(struct recording *r)
{
	const struct options *options = r->options;
	const struct moments_spec spec = {
		.pids = options->pids,
		.n_pids = options->n_pids,
		.exe = options->exe,
		.hz = r->own->hz,
		.has_waits = !r->own->has_no_waits,
		.most = options->request.budget > 0 ? options->request.budget : MOST_OF_A_CORE,
	};

	if ((spec.hz || spec.has_waits) && moments_open(options->ctx, &spec, &r->moments) &&
	    !options->quiet)
		say("waits and CPU samples are not recorded: %s", ocp_error(options->ctx));
}

/* Make the trace, for which the engine may leave less memory. */
static int make_trace(struct recording *r)
{
	const struct options *options = r->options;
	const size_t shared = r->measure.engine.is_inside ? r->own->memory / SHARE_OF_EVENTS : 0;
	const size_t bytes = r->own->memory - shared;
	int err = trace_new(options->ctx, bytes > TRACE_MIN_BYTES ? bytes : TRACE_MIN_BYTES,
			    &r->trace);

	for (size_t i = 0; err >= 0 && i < options->n_pids; i++)
		err = hit_events_process(r->trace, options->pids[i]);
	return err < 0 ? say_error(options->ctx, err) : EXIT_DONE;
}

/* Set r->keys to the arguments by which the meter matches pairs. */
static int find_keys(struct recording *r)
{
	const struct ocp_meter *meter = r->measure.meter;
	struct hit_key *keys = calloc(meter->request.n_pairs + 1, sizeof(*keys));

	if (!keys)
		return say_error(r->options->ctx, ctx_no_memory(r->options->ctx));
	r->keys.list = keys;
	for (size_t i = 0; i < meter->request.n_pairs; i++) {
		const struct request_pair *pair = &meter->request.pairs[i];
		const unsigned int arg = (unsigned int)pair->key_arg;

		if (pair->key_arg >= 0)
			keys[r->keys.n++] = (struct hit_key){
				.start = pair->start.text,
				.stop = request_pair_stop(pair),
				.name = arg_requests_name(&meter->arg_requests, arg),
				.number = arg,
			};
	}
	return EXIT_DONE;
}

static int open_recorder(struct recording *r, struct ocp_process **procs)
{
	struct options *options = r->options;
	int code = complete_request(options, procs), err;

	if (code != EXIT_DONE)
		return code;
	err = profile_file_check(options->ctx, options->output);
	if (!err)
		err = profile_file_check(options->ctx, r->own->html);
	if (!err && is_flight_recorder(r))
		err = find_existing(r);
	if (!err && r->own->name)
		err = recorder_socket_open(options->ctx, r->own->name, &r->socket);
	if (err)
		return say_error(options->ctx, err);
	code = measure_open(&r->measure, options, procs, options->n_pids);
	r->measure.has_limit = true;
	r->measure.progress = false;
	r->measure.take = take_hit;
	r->measure.after_hits = after_hits;
	r->measure.before_detach = before_detach;
	r->measure.taker = r;
	if (code == EXIT_DONE)
		code = make_trace(r);
	if (code == EXIT_DONE)
		code = check_conditions(options, r->measure.meter);
	if (code == EXIT_DONE)
		code = find_keys(r);
	if (code == EXIT_DONE)
		code = measure_limit_sample(&r->measure, procs, options->n_pids);
	if (code == EXIT_DONE && options->n_pids == 1 &&
	    counters_open(options->ctx, options->pid, r->measure.meter, &r->counters))
		code = say_error(options->ctx, -ENOMEM);
	if (code == EXIT_DONE)
		open_moments(r);
	return code;
}

/* Return the path of the program NAME, as a shell finds it. NULL: out of memory, or not found. */
static char *find_in_path(const char *name)
{
	const char *from = getenv("PATH") ?: "/usr/local/bin:/usr/bin:/bin";

	if (strchr(name, '/'))
		return strdup(name);
	while (*from) {
		const size_t n = strcspn(from, ":");
		char *path;

		if (asprintf(&path, "%.*s/%s", n ? (int)n : 1, n ? from : ".", name) < 0)
			return NULL;
		if (access(path, X_OK) == 0)
			return path;
		free(path);
		from += n + (from[n] == ':');
	}
	return NULL;
}

/*
 * Start the program that the words of OPTIONS name, and hold it before its first instruction. It is
 * then the process of OPTIONS. Set *PROC to it.
 */
static int start_program(struct options *options, struct ocp_process **proc)
{
	char *path = find_in_path(options->args[0]);
	int err, code;

	if (!path) {
		say("%s: %s", options->args[0], strerror(ENOENT));
		return EXIT_NOT_FOUND;
	}
	measure_choose_for_program(options);
	/* SIGCHLD may be inherited as ignored. Then the kernel would not keep the exit status. */
	signal(SIGCHLD, SIG_DFL);
	err = ocp_trace_held(options->ctx, path, options->args, NULL, proc);
	free(path);
	if (err)
		return say_error(options->ctx, err);
	options->prog = options->args[0];
	code = options_add_pid(options, ocp_process_pid(*proc));
	err = code == EXIT_DONE ? measure_check_program(options) : 0;
	return err ? say_error(options->ctx, err) : code;
}

/*
 * After the recording: wait for the command if it belongs to another process, and return the exit
 * code. A program that was started and not recorded must not stay held.
 */
static int end_command(struct recording *r, struct session *session, int code)
{
	if (r->held && !r->command.has_started) {
		kill(r->options->pid, SIGKILL);
		ocp_process_release(r->held);
	}
	if (!r->held)
		session_await_workload(session);
	else if (code == EXIT_DONE && r->command.has_started && !r->command.has_ended &&
		 !r->options->quiet)
		say("pid %d continues to run", (int)r->options->pid);
	return code;
}

static int record_processes(struct options *options)
{
	/* There is at most one process more than those that are named: the one that is started. */
	struct ocp_process **procs = calloc(options->n_pids + 2, sizeof(void *));
	const bool starts = options->n_args && !options->n_pids;
	struct recording r = { .options = options, .own = options->own };
	struct session session = { 0 };
	int code;

	if (!procs) {
		say("out of memory");
		return EXIT_FAILED;
	}
	progress_begin(options, "reading");
	code = starts ? start_program(options, &procs[0]) : open_processes(options, procs);
	r.held = starts ? procs[0] : NULL;
	if (code == EXIT_DONE)
		code = session_open(&session, options->pids,
				    options->exe || starts ? 0 : options->n_pids);
	/* The command is forked: no thread of this process may run meanwhile. */
	if (options->n_args)
		progress_end();
	if (code == EXIT_DONE && options->n_args && !starts)
		code = session_hold_workload(&session, &r.command, options->args);
	if (code == EXIT_DONE)
		code = open_recorder(&r, procs);
	if (code == EXIT_DONE)
		code = record(&r, &session);
	progress_end();
	code = end_command(&r, &session, code);
	measure_close(&r.measure);
	session_close(&session);
	workload_close(&r.command);
	recorder_socket_close(r.socket);
	counters_free(r.counters);
	moments_close(r.moments);
	trace_free(r.trace);
	free((void *)r.keys.list);
	for (size_t i = 0; i < options->n_pids; i++)
		ocp_process_free(procs[i]);
	free(procs);
	return workload_exit_code(&r.command, code);
}

/* ---- options -------------------------------------------------------------------------------- */

/* Set *BYTES to VALUE, the size that the option NAME gives. */
static int set_size(const struct command *command, const char *name, const char *value,
		    size_t *bytes)
{
	static const struct {
		const char *unit;
		double bytes;
	} units[] = { { "MB", 1 << 20 }, { "GB", 1 << 30 } };
	char *end;
	const double number = strtod(value, &end);

	for (size_t i = 0; end != value && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(end, units[i].unit) == 0 && number * units[i].bytes >= TRACE_MIN_BYTES &&
		    number * units[i].bytes <= 64.0 * (1 << 30)) {
			*bytes = (size_t)(number * units[i].bytes);
			return EXIT_DONE;
		}
	return say_usage(command, "--%s '%s': not a size from 1MB to 64GB", name, value);
}

static int set_files(const struct command *command, struct record_options *own, const char *value)
{
	char *end;
	const unsigned long n = strtoul(value, &end, 10);

	if (!is_number(value) || *end || !n || n > MOST_FILES)
		return say_usage(command, "--files '%s': not a number from 1 to %d", value,
				 MOST_FILES);
	own->n_files = n;
	own->has_files = true;
	return EXIT_DONE;
}

static int set_hz(const struct command *command, struct record_options *own, const char *value)
{
	char *end;
	const unsigned long hz = strtoul(value, &end, 10);

	if (!is_number(value) || *end || hz > MOST_HZ)
		return say_usage(command, "--hz '%s': not a number from 0 to %d", value, MOST_HZ);
	own->hz = (unsigned int)hz;
	return EXIT_DONE;
}

static int set_last(const struct command *command, struct record_options *own, const char *value)
{
	uint64_t ns;

	if (!record_condition_read_time(value, &ns) || ns > (uint64_t)3600 * 1000000000)
		return say_usage(command,
				 "--last '%s': not a time such as 500ms or 10s (at most 1h)",
				 value);
	own->last_ns = (int64_t)ns;
	own->has_last = true;
	return EXIT_DONE;
}

static struct record_options *record_options_of(struct options *options)
{
	static struct record_options own = { .last_ns = DEFAULT_LAST_NS,
					     .memory = DEFAULT_MEMORY,
					     .disk = DEFAULT_DISK,
					     .n_files = DEFAULT_FILES,
					     .hz = USUAL_HZ };

	options->own = &own;
	return &own;
}

static int set_record_option(const struct command *command, struct options *options,
			     const char *name, const char *value)
{
	struct record_options *own = record_options_of(options);

	if (strcmp(name, "when") == 0)
		return add_condition(command, options->ctx, own, value);
	if (strcmp(name, "hz") == 0)
		return set_hz(command, own, value);
	if (strcmp(name, "html") == 0)
		return profile_file_set(command, name, value, &own->html);
	if (strcmp(name, "no-waits") == 0) {
		own->has_no_waits = true;
		return EXIT_DONE;
	}
	if (strcmp(name, "name") == 0)
		return profile_file_set(command, name, value, &own->name);
	if (strcmp(name, "dump") == 0)
		return profile_file_set(command, name, value, &own->dump);
	if (strcmp(name, "memory") == 0)
		return set_size(command, name, value, &own->memory);
	if (strcmp(name, "disk") == 0) {
		own->has_disk = true;
		return set_size(command, name, value, &own->disk);
	}
	if (strcmp(name, "files") == 0)
		return set_files(command, own, value);
	return set_last(command, own, value);
}

static int check_record_usage(const struct options *options)
{
	const struct record_options *own = options->own;

	if (!options->n_pids && !options->exe && !options->n_args)
		return say_usage(&command_record, "-pid, --exe or -- COMMAND is required");
	if (options->n_args && options->exe)
		return say_usage(&command_record, "--exe and a command are mutually exclusive");
	if (options->n_args && options->n_pids && options->for_ns)
		return say_usage(&command_record,
				 "--for and a command are mutually exclusive: recording the "
				 "processes ends when '%s' has ended",
				 options->args[0]);
	if (!options->output && !own->html)
		return say_usage(&command_record, "-o FILE or --html FILE is required");
	if (profile_file_is_same(options->output, own->html))
		return say_usage(&command_record, "-o and --html name the same file");
	if (options->engine == ENGINE_INSIDE && options->exe)
		return say_usage(&command_record,
				 "--engine inside excludes --exe: it records processes of -pid");
	if ((own->has_files || own->has_disk || own->name) && !own->n_conditions && !own->has_last)
		return say_usage(&command_record, "--%s needs --when or --last",
				 own->has_files	 ? "files"
				 : own->has_disk ? "disk"
						 : "name");
	/* What is recorded by default has no options to check. */
	return measure_request_is_empty(&options->request)
		       ? EXIT_DONE
		       : measure_options_check(&command_record, options);
}

/* Ask the flight recorder of the name for a file, and print its path. */
static int dump(struct options *options, const char *name)
{
	const struct record_options *own = options->own;
	char *path;
	int fd, more;

	if (options->n_pids || options->exe || options->n_args || options->output || own->html ||
	    own->name || own->n_conditions || own->has_last ||
	    !measure_request_is_empty(&options->request))
		return say_usage(&command_record, "--dump excludes other options");
	fd = recorder_dump_begin(options->ctx, name);
	if (fd < 0)
		return say_error(options->ctx, fd);
	while ((more = recorder_dump_take(options->ctx, name, fd, true, &path)) == 1) {
		puts(path);
		free(path);
	}
	close(fd);
	return more ? say_error(options->ctx, more) : EXIT_DONE;
}

static int run_record(struct options *options)
{
	const struct sigaction action = { .sa_handler = ask_for_file, .sa_flags = SA_RESTART };
	struct record_options *own = record_options_of(options);
	int code;

	/* Where only BPF can record, no memory is for the engine inside. */
	if (!options->exe)
		options->request.event_bytes =
			own->memory / SHARE_OF_EVENTS / (options->n_pids ? options->n_pids : 1);
	code = own->dump ? dump(options, own->dump) : check_record_usage(options);

	if (own->dump)
		return code;
	if (code == EXIT_DONE && options->exe && options->n_pids)
		code = say_usage(&command_record, "-pid and --exe are mutually exclusive");
	if (code == EXIT_DONE && options->exe)
		code = measure_find_processes(options);
	if (code == EXIT_DONE && (own->n_conditions || own->has_last))
		sigaction(SIGUSR1, &action, NULL);
	if (code == EXIT_DONE)
		code = record_processes(options);
	for (size_t i = 0; i < own->n_conditions; i++)
		record_condition_free(&own->conditions[i]);
	free(own->conditions);
	*own = (struct record_options){ 0 };
	return code;
}

const struct command command_record = {
	.name = "record",
	.help = &help_record,
	.many_pids = true,
	.takes_program = true,
	.run = run_record,
	.set_own = set_record_option,
};
