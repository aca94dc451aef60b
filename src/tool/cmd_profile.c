// SPDX-License-Identifier: MIT
/*
 * `profile`: where a program spends its time, by stacks. Samples are taken in the kernel until the end
 * of the session; then the stacks are named and written.
 */
#include "tool/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ctx.h"
#include "profile/folded_writer.h"
#include "profile/formats/html_writer.h"
#include "profile/formats/pprof_writer.h"
#include "profile/profile.h"
#include "tool/profile_output.h"
#include "tool/session.h"

enum { DEFAULT_HZ = 99, MAX_HZ = 10000, MAX_PROCESSES = 64, REFRESH_NS = 1000 * 1000 * 1000 };

struct profile_options {
	struct profiler_spec spec;
	const char *kind_flag; /* the flag that chose the kind; NULL: none */
	bool folded, has_hz;
	const char *html, *pprof; /* files to write; NULL: none */
};

struct profile_session {
	struct options *options;
	const struct profile_options *own;
	struct profiler *profiler;
	struct frame_names *names;
	int64_t start_ns, end_ns;
	uint64_t start_time_ns; /* since 1970 */
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

	errno = 0;
	hz = strtol(value, &end, 10);
	if (errno || end == value || *end || hz < 1 || hz > MAX_HZ)
		return say_usage(command, "--hz '%s': not a number from 1 to %d", value, MAX_HZ);
	own->spec.hz = (unsigned int)hz;
	own->has_hz = true;
	return EXIT_DONE;
}

static struct profile_options *own_of(struct options *options)
{
	static struct profile_options own = {
		.spec = { .kind = PROFILE_CPU, .hz = DEFAULT_HZ, .max_processes = MAX_PROCESSES }
	};

	options->own = &own;
	return &own;
}

static int set_own(const struct command *command, struct options *options, const char *name,
		   const char *value)
{
	struct profile_options *own = own_of(options);

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
	if (strcmp(name, "html") == 0)
		own->html = value;
	else if (strcmp(name, "pprof") == 0)
		own->pprof = value;
	else
		own->folded = true;
	return EXIT_DONE;
}

static int check_options(const struct options *options, const struct profile_options *own)
{
	if (!options->n_pids == !options->exe)
		return say_usage(&command_profile, options->exe
							   ? "-pid and --exe are mutually exclusive"
							   : "-pid or --exe is required");
	if (own->has_hz && !profile_is_sampled(own->spec.kind))
		return say_usage(&command_profile, "--hz: only for --cpu and --gc");
	if (own->folded && options->json)
		return say_usage(&command_profile, "--folded and --json are mutually exclusive");
	return EXIT_DONE;
}

/* ---- processes ------------------------------------------------------------------------------ */

static int find_processes(struct options *options)
{
	pid_t *pids;
	size_t n;
	int code = EXIT_DONE;
	int err = ocp_find_processes(options->ctx, options->exe, &pids, &n);

	if (err)
		return say_error(options->ctx, err);
	for (size_t i = 0; i < n && code == EXIT_DONE; i++)
		code = options_add_pid(options, pids[i]);
	free(pids);
	if (code == EXIT_DONE && !n) {
		say("%s: no process runs it", options->exe);
		return EXIT_GONE;
	}
	return code;
}

static int add_processes(struct profile_session *s)
{
	for (size_t i = 0; i < s->options->n_pids; i++) {
		int err = profiler_add_process(s->profiler, s->options->pids[i]);

		if (err)
			return err;
	}
	return 0;
}

/* ---- the session ---------------------------------------------------------------------------- */

static enum ending take_samples(struct profile_session *s, struct session *session)
{
	const int64_t end_ns = s->options->for_ns ? s->start_ns + s->options->for_ns : INT64_MAX;

	for (;;) {
		const int64_t refresh_ns = session_now_ns() + REFRESH_NS;
		enum ending ending =
			session_wait(session, refresh_ns < end_ns ? refresh_ns : end_ns);

		if (ending != NOT_ENDED)
			return ending;
		if (session_now_ns() >= end_ns)
			return ENDED_BY_TIME;
		if (profiler_refresh(s->profiler))
			return ENDED_BY_ERROR;
	}
}

/* ---- files ---------------------------------------------------------------------------------- */

enum file_format { FORMAT_HTML, FORMAT_PPROF };

static int write_format(struct profile_session *s, const struct profile *profile,
			enum file_format format, FILE *to)
{
	char title[128];

	if (format == FORMAT_PPROF)
		return pprof_write(s->options->ctx, profile, to);
	if (s->options->exe)
		snprintf(title, sizeof(title), "%s of %s", profile_kind_name(profile->kind),
			 s->options->exe);
	else
		snprintf(title, sizeof(title), "%s of pid %d", profile_kind_name(profile->kind),
			 (int)s->options->pid);
	return html_write(s->options->ctx, profile, title, to);
}

/* Open a new file beside PATH. *TEMPORARY is its path, which the caller frees. */
static FILE *open_beside(struct ocp_ctx *ctx, const char *path, char **temporary, int *err)
{
	FILE *to;

	if (asprintf(temporary, "%s.%d.tmp", path, (int)getpid()) < 0) {
		*temporary = NULL;
		*err = ctx_no_memory(ctx);
		return NULL;
	}
	to = fopen(*temporary, "wxe");
	*err = to ? 0 : ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	return to;
}

/* Before samples are taken: can PATH be written? */
static int check_file(struct ocp_ctx *ctx, const char *path)
{
	char *temporary = NULL;
	FILE *to;
	int err = 0;

	if (!path)
		return 0;
	to = open_beside(ctx, path, &temporary, &err);
	if (to) {
		fclose(to);
		unlink(temporary);
	}
	free(temporary);
	return err;
}

/* A file that is there is replaced when the new one is whole. */
static int write_file(struct profile_session *s, const struct profile *profile,
		      enum file_format format, const char *path)
{
	struct ocp_ctx *ctx = s->options->ctx;
	char *temporary = NULL;
	int err = 0;
	FILE *to = open_beside(ctx, path, &temporary, &err);

	if (to) {
		err = write_format(s, profile, format, to);
		if (fclose(to) != 0 && !err)
			err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
		if (!err && rename(temporary, path) != 0)
			err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
		if (err)
			unlink(temporary);
		else if (!s->options->quiet)
			say("%s: written", path);
	}
	free(temporary);
	return err;
}

static int write_files(struct profile_session *s, const struct profile *profile)
{
	int err = s->own->html ? write_file(s, profile, FORMAT_HTML, s->own->html) : 0;

	if (!err && s->own->pprof)
		err = write_file(s, profile, FORMAT_PPROF, s->own->pprof);
	return err;
}

static int write_profile(struct profile_session *s, struct profile *profile)
{
	if (s->own->folded) {
		folded_write(profile, stdout);
		return 0;
	}
	if (s->options->json)
		return profile_print_json(s->options->ctx, profile);
	return profile_print_table(s->options->ctx, profile);
}

static int report(struct profile_session *s)
{
	static const char *const nothing[] = {
		[PROFILE_CPU] = "no thread ran",
		[PROFILE_WAITS] = "no thread waited and ran again",
		[PROFILE_WORDS] = "no minor heap ran out, and no large blocks were allocated",
		[PROFILE_GC] = "the collector did not run",
	};
	struct profile_reading reading;
	struct profile profile;
	int err = profiler_read(s->profiler, &reading);

	if (err)
		return err;
	err = profile_make(s->options->ctx, &reading, s->names, &s->own->spec, &profile);
	profile_reading_free(&reading);
	if (err)
		return err;
	profile.start_ns = s->start_time_ns;
	profile.duration_ns = (uint64_t)(s->end_ns - s->start_ns);
	err = write_files(s, &profile);
	if (!err)
		err = write_profile(s, &profile);
	if (!profile.samples && !s->options->quiet)
		say("no samples: %s", nothing[s->own->spec.kind]);
	profile_free(&profile);
	return err;
}

static void say_start(const struct profile_session *s)
{
	char what[64];

	if (s->options->quiet)
		return;
	if (profile_is_sampled(s->own->spec.kind))
		snprintf(what, sizeof(what), "sampling the CPU %u times a second", s->own->spec.hz);
	else
		snprintf(what, sizeof(what), "%s",
			 s->own->spec.kind == PROFILE_WAITS ? "recording the waits"
							    : "sampling allocation");
	if (s->options->n_pids == 1)
		say("%s: pid %d%s", what, (int)s->options->pid,
		    s->options->for_ns ? "" : "; end with Ctrl-C");
	else
		say("%s: %zu processes%s", what, s->options->n_pids,
		    s->options->for_ns ? "" : "; end with Ctrl-C");
}

static int run_session(struct profile_session *s, struct session *session)
{
	struct timespec now;
	enum ending ending;
	int err = profiler_start(s->profiler);

	if (err)
		return say_error(s->options->ctx, err);
	clock_gettime(CLOCK_REALTIME, &now);
	s->start_time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	s->start_ns = session_now_ns();
	say_start(s);
	ending = take_samples(s, session);
	s->end_ns = session_now_ns();
	profiler_stop(s->profiler);
	if (ending == ENDED_BY_ERROR)
		return session->err ? EXIT_FAILED : say_error(s->options->ctx, -EIO);
	if (ending == ENDED_WITH_PROCESS && !s->options->quiet)
		say(s->options->n_pids == 1 ? "pid %d has ended" : "all processes have ended",
		    (int)s->options->pid);
	err = report(s);
	return err ? say_error(s->options->ctx, err) : EXIT_DONE;
}

static int profile_with(struct options *options, const struct profile_options *own)
{
	struct profile_session s = { .options = options, .own = own };
	struct profiler_spec spec = own->spec;
	struct session session;
	int err, code;

	spec.pid = options->pid;
	err = check_file(options->ctx, own->html);
	if (!err)
		err = check_file(options->ctx, own->pprof);
	if (!err)
		err = profiler_open(options->ctx, &spec, &s.profiler);
	if (!err)
		err = add_processes(&s);
	if (!err)
		err = frame_names_open(options->ctx, profiler_walker(s.profiler), &s.names);
	if (err) {
		profiler_close(s.profiler);
		return say_error(options->ctx, err);
	}
	code = session_open(&session, options->pids, options->n_pids);
	if (code == EXIT_DONE)
		code = run_session(&s, &session);
	session_close(&session);
	frame_names_close(s.names);
	profiler_close(s.profiler);
	return code;
}

static int run(struct options *options)
{
	const struct profile_options *own = own_of(options);
	int code = check_options(options, own);

	if (code == EXIT_DONE && options->exe)
		code = find_processes(options);
	if (code == EXIT_DONE && options->n_pids > MAX_PROCESSES) {
		say("%zu processes: at most %d can be profiled at one time", options->n_pids,
		    MAX_PROCESSES);
		code = EXIT_FAILED;
	}
	return code == EXIT_DONE ? profile_with(options, own) : code;
}

const struct command command_profile = {
	.name = "profile",
	.help = &help_profile,
	.many_pids = true,
	.run = run,
	.set_own = set_own,
};
