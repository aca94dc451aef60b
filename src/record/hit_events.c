// SPDX-License-Identifier: MIT
#include "record/hit_events.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "look/proc_file.h"
#include "measure/args/value.h"
#include "measure/slower.h"
#include "program/item.h"

enum {
	NAME_BYTES = 512,
	/* Longer texts of arguments are cut. BPF records less than this. */
	TEXT_BYTES = 8192,
};

/* ---- tracks --------------------------------------------------------------------------------- */

/* Write to NAME the last part of the path of the program that PID runs, or "?". */
static void find_program_name(pid_t pid, char name[PATH_MAX])
{
	char link[PROC_PATH_BYTES], path[PATH_MAX];
	const char *slash;
	ssize_t n;

	proc_path(link, pid, "exe");
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	snprintf(name, PATH_MAX, "%s", slash && slash[1] ? slash + 1 : "?");
}

int hit_events_process(struct trace *trace, pid_t pid)
{
	char program[PATH_MAX];
	uint32_t process;

	if (trace_find_track(trace, TRACE_PROCESS, pid, 0, "", &process))
		return 0;
	find_program_name(pid, program);
	return trace_track(trace, TRACE_PROCESS, pid, 0, program, 0, &process);
}

int hit_events_track(struct trace *trace, enum trace_track_kind kind, pid_t pid, pid_t tid,
		     const char *name, int64_t named_ns, uint32_t *number)
{
	int is_new = hit_events_process(trace, pid);

	return is_new < 0 ? is_new : trace_track(trace, kind, pid, tid, name, named_ns, number);
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* The arguments of an event while it is made. */
struct event_args {
	struct trace *trace;
	struct trace_arg list[TRACE_MAX_ARGS];
	char *texts[TRACE_MAX_ARGS];
	size_t n;
	size_t key; /* 1 + the number of the argument that is a key; 0: none */
};

/* Return true if argument number ARG of HIT, which is called NAME, is one of KEYS. */
static bool is_key(const struct hit_keys *keys, const struct ocp_hit *hit, size_t arg,
		   const char *name)
{
	for (size_t i = 0; i < keys->n; i++) {
		const struct hit_key *key = &keys->list[i];

		if (key->name ? strcmp(key->name, name) == 0
			      : arg == key->number && (strcmp(hit->probe, key->start) == 0 ||
						       strcmp(hit->probe, key->stop) == 0))
			return true;
	}
	return false;
}

static void free_args(struct event_args *args)
{
	for (size_t i = 0; i < args->n; i++)
		free(args->texts[i]);
}

/* Return VALUE in the syntax of OCaml; a string without its quotes. NULL: out of memory. */
static char *value_text(const struct value *value, enum ocp_arg_type type)
{
	char *text = NULL;
	size_t bytes;
	FILE *out;

	if (value->kind == OCP_STRING)
		return strndup(value->bytes, value->n_bytes);
	out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	value_write(out, value, type);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	if (bytes > TEXT_BYTES)
		text[TEXT_BYTES] = '\0';
	return text;
}

static int set_value(struct event_args *args, const struct value *value, enum ocp_arg_type type)
{
	struct trace_arg *arg = &args->list[args->n];

	args->texts[args->n] = NULL;
	if (value->kind == OCP_FLOAT) {
		arg->kind = TRACE_REAL;
		arg->real = value->real;
	} else if (value->kind <= OCP_NATIVEINT && type != OCP_ARG_BOOL && type != OCP_ARG_CHAR) {
		arg->kind = TRACE_INT;
		arg->number = value->number;
	} else {
		arg->kind = TRACE_TEXT;
		arg->text = args->texts[args->n] = value_text(value, type);
		if (!arg->text)
			return -ENOMEM;
	}
	args->n++;
	return 0;
}

/*
 * Add the arguments of HIT, of which one may be a key of KEYS. Unless AT is NULL, their names say
 * that they are those of probe AT, and none of them is taken for a key.
 */
static int add_args(struct event_args *args, const struct hit_keys *keys, const struct ocp_hit *hit,
		    const char *at)
{
	int err = 0;

	for (size_t i = 0; !err && i < hit->n_args && args->n < TRACE_MAX_ARGS; i++) {
		const struct value value = value_of_arg(hit->record, (unsigned int)i);
		char name[OCP_ARG_NAME_BYTES], full[NAME_BYTES];
		enum ocp_arg_type type = ocp_arg_name(hit->arg_names, i, name);

		if (!name[0])
			snprintf(name, sizeof(name), "arg%zu", i);
		snprintf(full, sizeof(full), "%s%s%s", name, at ? " at " : "", at ? at : "");
		err = trace_name(args->trace, full, &args->list[args->n].name);
		if (!at && !args->key && is_key(keys, hit, i, name))
			args->key = args->n + 1;
		if (!err)
			err = set_value(args, &value, type);
	}
	return err;
}

/* Add the thread of HIT as an argument, whose name no argument of a probe can have. */
static int add_thread_arg(struct event_args *args, const struct ocp_hit *hit, const char *at)
{
	char name[NAME_BYTES];
	int err;

	if (args->n == TRACE_MAX_ARGS)
		return 0;
	snprintf(name, sizeof(name), "on thread%s%s", at ? " at " : "", at ? at : "");
	err = trace_name(args->trace, name, &args->list[args->n].name);
	if (err)
		return err;
	args->list[args->n].kind = TRACE_INT;
	args->list[args->n].number = hit->tid;
	args->texts[args->n++] = NULL;
	return 0;
}

/* Say that no end of the slice is known. No argument of a probe can have this name. */
static int add_open_arg(struct event_args *args)
{
	struct trace_arg *arg = &args->list[args->n];
	int err;

	if (args->n == TRACE_MAX_ARGS)
		return 0;
	err = trace_name(args->trace, "did not end", &arg->name);
	if (err)
		return err;
	arg->kind = TRACE_TEXT;
	arg->text = args->texts[args->n] = strdup("no end was seen in the recording");
	if (!arg->text)
		return -ENOMEM;
	args->n++;
	return 0;
}

/* ---- events --------------------------------------------------------------------------------- */

static int add_instant(struct trace *trace, const struct hit_keys *keys, int64_t start_ns,
		       const struct ocp_hit *hit)
{
	struct event_args args = { .trace = trace };
	struct trace_event event = {
		.kind = TRACE_INSTANT,
		.category = TRACE_PROBE,
		.begin_ns = start_ns + hit->time_ns,
	};
	int err = trace_name(trace, hit->probe, &event.name);

	if (!err)
		err = add_args(&args, keys, hit, NULL);
	if (!err)
		err = hit_events_track(trace, TRACE_THREAD, hit->pid, hit->tid, hit->comm,
				       event.begin_ns, &event.track);
	event.args = args.list;
	event.n_args = args.n;
	event.key = (uint8_t)args.key;
	if (err >= 0)
		err = trace_add(trace, &event);
	free_args(&args);
	return err;
}

/* Write to NAME how the trace calls PAIR: START,STOP or the name of a function. */
static void name_pair(const struct slow_pair *pair, char name[NAME_BYTES])
{
	static const char prefix[] = "fn:";
	const bool is_function = strncmp(pair->start, prefix, sizeof(prefix) - 1) == 0;

	snprintf(name, NAME_BYTES, "%s%s%s", pair->start + (is_function ? sizeof(prefix) - 1 : 0),
		 pair->is_call ? "" : ",", pair->stop);
}

static enum trace_category category_of(const struct slow_pair *pair)
{
	if (!pair->is_call)
		return TRACE_PAIR;
	return strncmp(pair->start, "gc:", 3) == 0 ? TRACE_GC : TRACE_CALL;
}

/* Add what the slice of PAIR says of itself beside the arguments of START. */
static int add_slice_args(struct event_args *args, const struct slow_pair *pair)
{
	const struct ocp_hit *stop = pair->stop_hit, *start = pair->start_hit;
	int err = 0;

	if (stop && !pair->is_call)
		err = add_args(args, &(const struct hit_keys){ 0 }, stop, pair->stop);
	/* The track of the slice does not show its threads. */
	if (!err && pair->is_keyed && start)
		err = add_thread_arg(args, start, NULL);
	if (!err && pair->is_keyed && stop)
		err = add_thread_arg(args, stop, pair->stop);
	return err ?: pair->is_open ? add_open_arg(args) : 0;
}

static int add_slice(struct trace *trace, const struct hit_keys *keys, int64_t start_ns,
		     const struct slow_pair *pair)
{
	const struct ocp_hit *stop = pair->stop_hit, *start = pair->start_hit;
	struct event_args args = { .trace = trace };
	struct trace_event event = {
		.kind = TRACE_SLICE,
		.category = category_of(pair),
		.begin_ns = start_ns + (start ? start->time_ns : stop->time_ns - (int64_t)pair->ns),
		.duration_ns = (int64_t)pair->ns,
		.is_open = pair->is_open,
	};
	/* A fibre can end the pair in another thread. */
	const struct ocp_hit *on = start ? start : stop;
	char name[NAME_BYTES];
	int err;

	name_pair(pair, name);
	err = trace_name(trace, name, &event.name);
	if (!err && start)
		err = add_args(&args, keys, start, NULL);
	if (!err)
		err = add_slice_args(&args, pair);
	if (!err && pair->is_keyed)
		err = hit_events_track(trace, TRACE_GROUP, on->pid, 0, name, 0, &event.track);
	else if (!err)
		err = hit_events_track(trace, TRACE_THREAD, on->pid, on->tid, on->comm,
				       start_ns + on->time_ns, &event.track);
	event.args = args.list;
	event.n_args = args.n;
	event.key = (uint8_t)args.key;
	if (err >= 0)
		err = trace_add(trace, &event);
	free_args(&args);
	return err;
}

int hit_events_add(struct trace *trace, const struct hit_keys *keys, int64_t start_ns,
		   const struct ocp_hit *hit)
{
	const struct slow_pair *pair = slow_pair_of(hit);

	return pair ? add_slice(trace, keys, start_ns, pair)
		    : add_instant(trace, keys, start_ns, hit);
}
