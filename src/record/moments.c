// SPDX-License-Identifier: MIT
#include "record/moments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread_name.h"
#include "profile/profiler.h"
#include "profile/stack_namer.h"
#include "profile/wait_kinds.h"
#include "record/hit_events.h"
#include "unwind/frame_names.h"

enum { MAX_PROCESSES = 1024, N_SOURCES = 2, GAP_BYTES = 160 };

/* One profiler, and what names its stacks. */
struct moment_source {
	struct moments *moments;
	enum profile_kind kind;
	struct profiler *profiler; /* NULL: not used */
	struct frame_names *names;
	struct stack_store *stacks;
	bool is_stopped;
	/* the cost, and the time, at the last refresh */
	double cost_ns;
	int64_t since_ns;
};

struct moments {
	struct ocp_ctx *ctx;
	struct moments_spec spec;
	struct moment_source waits, samples;
	struct trace *trace; /* during moments_take() */
	int err;
	int64_t start_ns;
	char gaps[2 * GAP_BYTES]; /* see moments_gaps() */
};

/* ---- open and close ------------------------------------------------------------------------- */

static int open_moment_source(struct moments *m, struct moment_source *source,
			      enum profile_kind kind)
{
	const struct profiler_spec spec = {
		.kind = kind,
		.hz = m->spec.hz,
		.max_processes = MAX_PROCESSES,
		.counts_cost = true,
		.by_thread = true,
		.keeps_moments = true,
		.pid = m->spec.n_pids ? m->spec.pids[0] : 0,
		.exe = m->spec.exe,
	};
	int err = profiler_open(m->ctx, &spec, &source->profiler);

	source->moments = m;
	source->kind = kind;
	for (size_t i = 0; !err && i < m->spec.n_pids; i++)
		err = profiler_add_process(source->profiler, m->spec.pids[i]);
	if (!err)
		err = frame_names_open(m->ctx, profiler_walker(source->profiler), &source->names);
	return err;
}

static void close_source(struct moment_source *source)
{
	stack_store_free(source->stacks);
	frame_names_close(source->names);
	profiler_close(source->profiler);
}

int moments_open(struct ocp_ctx *ctx, const struct moments_spec *spec, struct moments **out)
{
	struct moments *m = calloc(1, sizeof(*m));
	int err = 0;

	*out = NULL;
	if (!m)
		return ctx_no_memory(ctx);
	m->ctx = ctx;
	m->spec = *spec;
	if (spec->has_waits)
		err = open_moment_source(m, &m->waits, PROFILE_WAITS);
	if (!err && spec->hz)
		err = open_moment_source(m, &m->samples, PROFILE_CPU);
	if (err)
		moments_close(m);
	else
		*out = m;
	return err;
}

int moments_start(struct moments *m)
{
	struct moment_source *const sources[N_SOURCES] = { &m->waits, &m->samples };
	int err = 0;

	m->start_ns = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; !err && i < N_SOURCES; i++) {
		if (sources[i]->profiler)
			err = profiler_start(sources[i]->profiler);
		sources[i]->since_ns = m->start_ns;
	}
	return err;
}

void moments_close(struct moments *m)
{
	if (!m)
		return;
	close_source(&m->waits);
	close_source(&m->samples);
	free(m);
}

/* ---- events --------------------------------------------------------------------------------- */

static int add_moment(struct moments *m, const struct profile_moment *moment,
		      struct trace_event *event, enum trace_track_kind track, const char *name)
{
	char comm[THREAD_NAME_BYTES];
	int err = trace_name(m->trace, name, &event->name);

	thread_name_copy(comm, moment->key.comm);
	if (!err)
		err = hit_events_track(m->trace, track, (pid_t)moment->key.tgid,
				       (pid_t)moment->key.tid, comm, event->begin_ns,
				       &event->track);
	return err < 0 ? err : trace_add(m->trace, event);
}

/* A wait, and the time after it in which the thread could run, but had no CPU. */
static void take_wait(void *data, const struct profile_moment *moment)
{
	struct moments *m = data;
	const uint64_t end_ns = moment->woken_ns ? moment->woken_ns : moment->end_ns;
	struct trace_event wait = { .kind = TRACE_SLICE,
				    .category = TRACE_WAIT,
				    .begin_ns = (int64_t)moment->begin_ns,
				    .duration_ns = (int64_t)(end_ns - moment->begin_ns),
				    .stack = moment->key.stack };
	struct trace_event ready = { .kind = TRACE_SLICE,
				     .category = TRACE_READY,
				     .begin_ns = (int64_t)moment->woken_ns,
				     .duration_ns = (int64_t)(moment->end_ns - moment->woken_ns) };

	if (end_ns < moment->begin_ns)
		return;
	if (!m->err)
		m->err = add_moment(m, moment, &wait, TRACE_THREAD, "waits");
	if (!m->err && moment->woken_ns && moment->end_ns > moment->woken_ns)
		m->err = add_moment(m, moment, &ready, TRACE_THREAD, "ready, but no CPU");
}

static void take_sample(void *data, const struct profile_moment *moment)
{
	struct moments *m = data;
	struct trace_event event = { .kind = TRACE_INSTANT,
				     .category = TRACE_SAMPLE,
				     .begin_ns = (int64_t)moment->begin_ns,
				     .stack = moment->key.stack };

	if (!m->err)
		m->err = add_moment(m, moment, &event, TRACE_SAMPLES, "runs");
}

int moments_take(struct moments *m, struct trace *trace)
{
	int err = 0;

	m->trace = trace;
	m->err = 0;
	if (m->waits.profiler)
		err = profiler_take_moments(m->waits.profiler, take_wait, m);
	if (!err && m->samples.profiler)
		err = profiler_take_moments(m->samples.profiler, take_sample, m);
	return err ? err : m->err;
}

int moments_take_open(struct moments *m, struct trace *trace)
{
	int err = 0;

	m->trace = trace;
	m->err = 0;
	if (m->waits.profiler && !m->waits.is_stopped)
		err = profiler_take_open_waits(m->waits.profiler, take_wait, m);
	return err ? err : m->err;
}

/* ---- cost ----------------------------------------------------------------------------------- */

/* The events of SOURCE end now, since they took SHARE of a core. */
static void note_gap(struct moment_source *source, double share)
{
	struct moments *m = source->moments;
	const size_t used = strlen(m->gaps);
	char gap[GAP_BYTES];

	snprintf(gap, sizeof(gap),
		 "%s are missing after %.1f s: they took %.2g%% of a core, the limit is %g%%",
		 source->kind == PROFILE_WAITS ? "waits" : "CPU samples",
		 (double)(source->since_ns - m->start_ns) / 1e9, 100 * share, 100 * m->spec.most);
	ctx_log(m->ctx, OCP_LOG_WARN, "%s", gap);
	snprintf(m->gaps + used, sizeof(m->gaps) - used, "%s%s", used ? "; " : "", gap);
}

static int refresh_source(struct moment_source *source)
{
	const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	/* The costs of uprobes, of which there are none. */
	const struct ocp_costs of_uprobes = { 0 };
	struct profiler_cost cost;
	double share;
	int err;

	if (!source->profiler || source->is_stopped)
		return 0;
	err = profiler_refresh(source->profiler);
	if (!err)
		err = profiler_cost(source->profiler, &of_uprobes, &cost);
	if (err)
		return err;
	share = (cost.ns - source->cost_ns) / (double)(now_ns - source->since_ns);
	source->cost_ns = cost.ns;
	source->since_ns = now_ns;
	if (share <= source->moments->spec.most)
		return 0;
	note_gap(source, share);
	profiler_stop(source->profiler);
	source->is_stopped = true;
	return 0;
}

int moments_refresh(struct moments *m)
{
	int err = refresh_source(&m->waits);

	return err ? err : refresh_source(&m->samples);
}

const char *moments_gaps(const struct moments *m)
{
	return m->gaps;
}

int moments_n_lost(struct moments *m, uint64_t *n)
{
	struct moment_source *const sources[N_SOURCES] = { &m->waits, &m->samples };
	uint64_t lost;
	int err = 0;

	*n = 0;
	for (size_t i = 0; !err && i < N_SOURCES; i++) {
		if (!sources[i]->profiler)
			continue;
		err = profiler_n_lost(sources[i]->profiler, &lost);
		*n += err ? 0 : lost;
	}
	return err;
}

/* ---- stacks --------------------------------------------------------------------------------- */

int moments_read_stacks(struct moments *m)
{
	struct moment_source *const sources[N_SOURCES] = { &m->waits, &m->samples };
	int err = 0;

	for (size_t i = 0; !err && i < N_SOURCES; i++) {
		stack_store_free(sources[i]->stacks);
		sources[i]->stacks = NULL;
		if (sources[i]->profiler)
			err = profiler_read_stacks(sources[i]->profiler, &sources[i]->stacks);
	}
	return err;
}

static char *frames_text(const struct named_stack *named)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	for (size_t i = named->n; i-- > 0;) {
		const struct named_frame *frame = named->frames[i];

		fputs(frame->function, out);
		if (frame->file && frame->line)
			fprintf(out, " (%s:%" PRIu32 ")", frame->file, frame->line);
		if (i)
			fputc('\n', out);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* Return what the event is called: the kind of the wait, or the innermost function. */
static char *name_event(enum trace_category category, const struct named_stack *named)
{
	char *name;

	if (category == TRACE_WAIT)
		return asprintf(&name, "waits: %s", wait_kind_text(wait_kind_of(named))) < 0 ? NULL
											     : name;
	return strdup(named->n ? named->frames[named->n - 1]->function : "?");
}

int moments_describe(struct moments *m, enum trace_category category, uint64_t stack, char **name,
		     char **text)
{
	const struct moment_source *source = category == TRACE_WAIT ? &m->waits : &m->samples;
	const struct stored_stack *stored =
		source->stacks ? stack_store_find(source->stacks, stack) : NULL;
	struct stack_namer namer = { .ctx = m->ctx, .names = source->names };
	struct named_stack named;
	int err;

	*name = *text = NULL;
	if (!stored)
		return -ENOENT;
	err = stack_namer_name(&namer, stored);
	named = (struct named_stack){ .frames = namer.frames, .n = namer.n };
	if (!err) {
		*name = name_event(category, &named);
		*text = frames_text(&named);
		err = *name && *text ? 0 : -ENOMEM;
	}
	if (err) {
		free(*name);
		free(*text);
		*name = *text = NULL;
	}
	free(namer.frames);
	return err;
}
