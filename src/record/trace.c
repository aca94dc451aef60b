// SPDX-License-Identifier: MIT
/*
 * The buffer is a ring of bytes. Each event is one piece of a multiple of 8 bytes, and is not split
 * at the end of the buffer: the rest of the buffer is then left unused (`end`).
 *
 * An event is stored as a struct stored_event, followed by its arguments: a struct stored_arg each,
 * and the text of the argument with its NUL.
 */
#include "record/trace.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum {
	ALIGNMENT = 8,
	/* If the trace has this many tracks, remove those that have no event. */
	MANY_TRACKS = 4096,
};

struct stored_event {
	uint32_t bytes;
	uint8_t kind;
	uint8_t category;
	uint8_t n_args;
	uint8_t key_and_open; /* 2 * event->key + event->is_open */
	uint32_t track;
	uint32_t name;
	int64_t begin_ns;
	int64_t duration_ns; /* of TRACE_COUNTER: the value */
	uint64_t stack;
};

struct stored_arg {
	uint32_t name;
	uint16_t kind;
	uint16_t text_bytes; /* with the NUL and the padding */
	int64_t number;	     /* or the bytes of a double */
};

struct known_name {
	char *text;
	uint32_t number;
};

struct known_track {
	struct trace_track track;
	uint32_t number;
	uint32_t process; /* the number of the track of the process; UINT32_MAX: none */
	/* the number of the last event of this track, or of a track of this process */
	uint64_t last;
	int64_t named_ns; /* when the track had its name */
};

struct trace {
	struct ocp_ctx *ctx;
	unsigned char *bytes;
	size_t size;
	size_t first, next; /* the places of the oldest event and of the next one */
	size_t end;	    /* if next < first: the end of the last event before the wrap */
	uint64_t n_events, n_dropped;
	struct known_name **names; /* by number */
	size_t n_names;
	void *name_tree;	     /* of struct known_name, see tsearch(3) */
	struct known_track **tracks; /* by number; NULL: not in use */
	size_t n_tracks, n_used_tracks;
	void *track_tree; /* of struct known_track */
	size_t many_tracks;
	bool has_keys;
};

int trace_new(struct ocp_ctx *ctx, size_t bytes, struct trace **out)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	*out = NULL;
	if (!trace)
		return ctx_no_memory(ctx);
	trace->ctx = ctx;
	trace->size = (bytes < TRACE_MIN_BYTES ? TRACE_MIN_BYTES : bytes) / ALIGNMENT * ALIGNMENT;
	trace->many_tracks = MANY_TRACKS;
	trace->bytes = malloc(trace->size);
	if (!trace->bytes) {
		free(trace);
		return ctx_no_memory(ctx);
	}
	*out = trace;
	return 0;
}

static void keep_node(void *node)
{
	(void)node;
}

void trace_free(struct trace *trace)
{
	if (!trace)
		return;
	tdestroy(trace->name_tree, keep_node);
	tdestroy(trace->track_tree, keep_node);
	for (size_t i = 0; i < trace->n_names; i++) {
		free(trace->names[i]->text);
		free(trace->names[i]);
	}
	for (size_t i = 0; i < trace->n_tracks; i++) {
		if (trace->tracks[i])
			free(trace->tracks[i]->track.name);
		free(trace->tracks[i]);
	}
	free(trace->names);
	free(trace->tracks);
	free(trace->bytes);
	free(trace);
}

/* ---- names ---------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
	const struct known_name *x = a, *y = b;

	return strcmp(x->text, y->text);
}

static struct known_name *new_name(const char *text, uint32_t number)
{
	struct known_name *name = malloc(sizeof(*name));

	if (!name)
		return NULL;
	*name = (struct known_name){ .text = strdup(text), .number = number };
	if (name->text)
		return name;
	free(name);
	return NULL;
}

int trace_name(struct trace *trace, const char *name, uint32_t *number)
{
	const struct known_name wanted = { .text = (char *)name };
	struct known_name **slot, *made;
	void *found = tfind(&wanted, &trace->name_tree, compare_names);

	if (found) {
		*number = (*(struct known_name **)found)->number;
		return 0;
	}
	made = new_name(name, (uint32_t)trace->n_names);
	if (!made)
		return ctx_no_memory(trace->ctx);
	slot = tsearch(made, &trace->name_tree, compare_names)
		       ? array_add(trace->names, trace->n_names)
		       : NULL;
	if (!slot) {
		tdelete(made, &trace->name_tree, compare_names);
		free(made->text);
		free(made);
		return ctx_no_memory(trace->ctx);
	}
	*slot = made;
	*number = made->number;
	return 0;
}

const char *trace_name_text(const struct trace *trace, uint32_t number)
{
	return trace->names[number]->text;
}

size_t trace_name_count(const struct trace *trace)
{
	return trace->n_names;
}

const char *trace_category_name(enum trace_category category)
{
	static const char *const names[TRACE_CATEGORIES] = {
		[TRACE_PROBE] = "probe", [TRACE_PAIR] = "pair", [TRACE_CALL] = "function",
		[TRACE_GC] = "gc",	 [TRACE_WAIT] = "wait", [TRACE_READY] = "ready",
		[TRACE_SAMPLE] = "cpu",
	};

	return names[category];
}

/* ---- tracks --------------------------------------------------------------------------------- */

static int compare_ids(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Return true if the name is no part of what distinguishes tracks of KIND. */
static bool is_found_by_ids(enum trace_track_kind kind)
{
	return kind == TRACE_PROCESS || kind == TRACE_THREAD || kind == TRACE_SAMPLES;
}

static int compare_tracks(const void *a, const void *b)
{
	const struct trace_track *x = &((const struct known_track *)a)->track;
	const struct trace_track *y = &((const struct known_track *)b)->track;
	int order = compare_ids(x->kind, y->kind);

	if (!order)
		order = compare_ids(x->pid, y->pid);
	if (!order)
		order = compare_ids(x->tid, y->tid);
	return order || is_found_by_ids(x->kind) ? order : strcmp(x->name, y->name);
}

static void remove_track(struct trace *trace, uint32_t number)
{
	struct known_track *known = trace->tracks[number];

	tdelete(known, &trace->track_tree, compare_tracks);
	free(known->track.name);
	free(known);
	trace->tracks[number] = NULL;
	trace->n_used_tracks--;
}

/*
 * Remove the tracks whose events were all dropped. If most tracks have events, let there be twice
 * as many before the next attempt.
 */
static void remove_empty_tracks(struct trace *trace)
{
	for (uint32_t i = 0; i < trace->n_tracks; i++)
		if (trace->tracks[i] && trace->tracks[i]->last <= trace->n_dropped)
			remove_track(trace, i);
	while (trace->n_used_tracks > trace->many_tracks / 2)
		trace->many_tracks *= 2;
}

/* Return the lowest number that is not in use, and make room for it. UINT32_MAX: out of memory. */
static uint32_t free_track_number(struct trace *trace)
{
	struct known_track **slot;

	for (uint32_t i = 0; trace->n_used_tracks < trace->n_tracks && i < trace->n_tracks; i++)
		if (!trace->tracks[i])
			return i;
	slot = array_add(trace->tracks, trace->n_tracks);
	if (!slot)
		return UINT32_MAX;
	*slot = NULL;
	return (uint32_t)trace->n_tracks - 1;
}

static struct known_track *find_track(const struct trace *trace, const struct trace_track *track)
{
	const struct known_track wanted = { .track = *track };
	void *node = tfind(&wanted, &trace->track_tree, compare_tracks);

	return node ? *(struct known_track **)node : NULL;
}

static uint32_t process_of(const struct trace *trace, const struct trace_track *track)
{
	const struct known_track *process = find_track(
		trace, &(struct trace_track){ .kind = TRACE_PROCESS, .pid = track->pid });

	return process && track->kind != TRACE_PROCESS ? process->number : UINT32_MAX;
}

static int add_track(struct trace *trace, const struct trace_track *wanted, int64_t named_ns,
		     uint32_t *number)
{
	struct known_track *known;

	if (trace->n_used_tracks >= trace->many_tracks)
		remove_empty_tracks(trace);
	*number = free_track_number(trace);
	known = *number == UINT32_MAX ? NULL : calloc(1, sizeof(*known));
	if (!known)
		return ctx_no_memory(trace->ctx);
	known->track = *wanted;
	known->track.name = strdup(wanted->name);
	/* Until its first event, the track counts as one with the newest event. */
	known->last = trace->n_dropped + trace->n_events + 1;
	known->number = *number;
	known->process = process_of(trace, wanted);
	known->named_ns = named_ns;
	if (!known->track.name || !tsearch(known, &trace->track_tree, compare_tracks)) {
		free(known->track.name);
		free(known);
		return ctx_no_memory(trace->ctx);
	}
	trace->tracks[*number] = known;
	trace->n_used_tracks++;
	return 1;
}

int trace_track(struct trace *trace, enum trace_track_kind kind, pid_t pid, pid_t tid,
		const char *name, int64_t named_ns, uint32_t *number)
{
	const struct trace_track wanted = {
		.kind = kind, .pid = pid, .tid = tid, .name = (char *)name
	};
	struct known_track *found = find_track(trace, &wanted);
	char *copy;

	if (!found)
		return add_track(trace, &wanted, named_ns, number);
	*number = found->number;
	if (named_ns < found->named_ns)
		return 0;
	found->named_ns = named_ns;
	if (strcmp(found->track.name, name) == 0)
		return 0;
	copy = strdup(name);
	if (!copy)
		return ctx_no_memory(trace->ctx);
	free(found->track.name);
	found->track.name = copy;
	return 0;
}

bool trace_find_track(const struct trace *trace, enum trace_track_kind kind, pid_t pid, pid_t tid,
		      const char *name, uint32_t *number)
{
	const struct known_track *found = find_track(
		trace, &(struct trace_track){
			       .kind = kind, .pid = pid, .tid = tid, .name = (char *)name });

	if (found)
		*number = found->number;
	return found != NULL;
}

const struct trace_track *trace_track_get(const struct trace *trace, uint32_t number)
{
	return trace->tracks[number] ? &trace->tracks[number]->track : NULL;
}

uint32_t trace_track_process(const struct trace *trace, uint32_t number)
{
	return trace->tracks[number]->process;
}

size_t trace_track_count(const struct trace *trace)
{
	return trace->n_tracks;
}

/* ---- events --------------------------------------------------------------------------------- */

static size_t padded_bytes(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t text_room(const struct trace_arg *arg)
{
	return arg->kind == TRACE_TEXT ? padded_bytes(strlen(arg->text) + 1) : 0;
}

static void drop_oldest(struct trace *trace)
{
	const struct stored_event *oldest = (const void *)(trace->bytes + trace->first);

	trace->first += oldest->bytes;
	trace->n_events--;
	trace->n_dropped++;
	if (!trace->n_events)
		trace->first = trace->next = 0;
	else if (trace->next <= trace->first && trace->first == trace->end)
		trace->first = 0;
}

/* Return the place for an event of BYTES bytes, after the newest event. */
static unsigned char *make_room(struct trace *trace, size_t bytes)
{
	unsigned char *place;

	for (;;) {
		const bool is_wrapped = trace->n_events && trace->next <= trace->first;
		const size_t room = (is_wrapped ? trace->first : trace->size) - trace->next;

		if (room >= bytes)
			break;
		if (is_wrapped) {
			drop_oldest(trace);
			continue;
		}
		trace->end = trace->next;
		trace->next = 0;
	}
	place = trace->bytes + trace->next;
	trace->next += bytes;
	return place;
}

static unsigned char *store_arg(unsigned char *to, const struct trace_arg *arg)
{
	const size_t room = text_room(arg);
	struct stored_arg stored = { .name = arg->name,
				     .kind = (uint16_t)arg->kind,
				     .text_bytes = (uint16_t)room,
				     .number = arg->number };

	if (arg->kind == TRACE_REAL)
		memcpy(&stored.number, &arg->real, sizeof(arg->real));
	memcpy(to, &stored, sizeof(stored));
	to += sizeof(stored);
	if (room) {
		memset(to, 0, room);
		memcpy(to, arg->text, strlen(arg->text));
	}
	return to + room;
}

/* Note that the newest event is one of track NUMBER. */
static void note_event(struct trace *trace, uint32_t number)
{
	struct known_track *known = trace->tracks[number];
	const uint64_t last = trace->n_dropped + trace->n_events;

	known->last = last;
	if (known->process != UINT32_MAX)
		trace->tracks[known->process]->last = last;
}

int trace_add(struct trace *trace, const struct trace_event *event)
{
	struct stored_event stored = {
		.kind = (uint8_t)event->kind,
		.category = (uint8_t)event->category,
		.n_args = (uint8_t)event->n_args,
		.key_and_open = (uint8_t)(2 * event->key + event->is_open),
		.track = event->track,
		.name = event->name,
		.begin_ns = event->begin_ns,
		.duration_ns = event->kind == TRACE_COUNTER ? event->value : event->duration_ns,
		.stack = event->stack,
	};
	size_t bytes = sizeof(stored);
	unsigned char *to;

	for (size_t i = 0; i < event->n_args; i++) {
		if (text_room(&event->args[i]) > UINT16_MAX)
			return -E2BIG;
		bytes += sizeof(struct stored_arg) + text_room(&event->args[i]);
	}
	if (event->n_args > TRACE_MAX_ARGS || bytes > trace->size / 4)
		return -E2BIG;
	to = make_room(trace, bytes);
	stored.bytes = (uint32_t)bytes;
	memcpy(to, &stored, sizeof(stored));
	to += sizeof(stored);
	for (size_t i = 0; i < event->n_args; i++)
		to = store_arg(to, &event->args[i]);
	trace->n_events++;
	trace->has_keys |= event->key != 0;
	note_event(trace, event->track);
	return 0;
}

struct trace_mark trace_mark(const struct trace *trace)
{
	return (struct trace_mark){ trace->next, trace->end, trace->n_dropped + trace->n_events };
}

void trace_rewind(struct trace *trace, const struct trace_mark *mark)
{
	const uint64_t n_added = trace->n_dropped + trace->n_events - mark->n_ever;

	if (!n_added)
		return;
	if (n_added >= trace->n_events) {
		/* Nothing older is left. */
		trace->n_dropped = mark->n_ever;
		trace->n_events = 0;
		trace->first = trace->next = 0;
		return;
	}
	trace->n_events -= n_added;
	trace->next = mark->next;
	trace->end = mark->end;
}

bool trace_has_keys(const struct trace *trace)
{
	return trace->has_keys;
}

uint64_t trace_event_count(const struct trace *trace)
{
	return trace->n_events;
}

uint64_t trace_dropped(const struct trace *trace)
{
	return trace->n_dropped;
}

static void load_args(const unsigned char *from, size_t n, struct trace_arg *args)
{
	for (size_t i = 0; i < n; i++) {
		const struct stored_arg *stored = (const void *)from;

		args[i] = (struct trace_arg){ .kind = (enum trace_arg_kind)stored->kind,
					      .name = stored->name,
					      .number = stored->number };
		if (args[i].kind == TRACE_REAL)
			memcpy(&args[i].real, &stored->number, sizeof(args[i].real));
		from += sizeof(*stored);
		if (args[i].kind == TRACE_TEXT)
			args[i].text = (const char *)from;
		from += stored->text_bytes;
	}
}

bool trace_next(const struct trace *trace, size_t *place)
{
	if (*place == TRACE_START) {
		*place = trace->first;
		return trace->n_events != 0;
	}
	*place += ((const struct stored_event *)(const void *)(trace->bytes + *place))->bytes;
	if (trace->next <= trace->first && *place == trace->end)
		*place = 0;
	return *place != trace->next;
}

void trace_read(const struct trace *trace, size_t place, struct trace_arg args[TRACE_MAX_ARGS],
		struct trace_event *event)
{
	const struct stored_event *stored = (const void *)(trace->bytes + place);
	const bool is_counter = stored->kind == TRACE_COUNTER;

	load_args(trace->bytes + place + sizeof(*stored), stored->n_args, args);
	*event = (struct trace_event){
		.kind = (enum trace_event_kind)stored->kind,
		.category = (enum trace_category)stored->category,
		.track = stored->track,
		.name = stored->name,
		.begin_ns = stored->begin_ns,
		.duration_ns = is_counter ? 0 : stored->duration_ns,
		.value = is_counter ? stored->duration_ns : 0,
		.is_open = stored->key_and_open & 1,
		.key = stored->key_and_open >> 1,
		.stack = stored->stack,
		.args = args,
		.n_args = stored->n_args,
	};
}
