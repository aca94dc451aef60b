// SPDX-License-Identifier: MIT
#include "measure/engine/event_matcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "kernel/event_clock.h"
#include "measure/engine/event_threads.h"
#include "measure_slower.h"

enum {
	FIRST_ROOM = 1024,
	MOST_OPEN = 1 << 18,	   /* places for open starts */
	MOST_OPEN_BYTES = 1 << 29, /* their data: 152 bytes each, or 5 KB for a thread */
	LATE_NS = 1000,		   /* what events of different CPUs can seem to be out of order */
};

/* An event, as it is kept until its pair ends. */
struct kept_event {
	uint64_t ns, frame;
	uint32_t id; /* of the thread: inside_record.tid */
	uint32_t point;
	uint64_t args[INSIDE_EVENT_ARGS];
};

/* The open starts of a pair in a thread: see struct measure_open in bpf/measure.h. */
struct thread_starts {
	uint32_t n, next;
	struct kept_event ring[MEASURE_DEPTH];
};

enum open_kind { OPEN_NONE, OPEN_BY_THREAD, OPEN_BY_KEY, OPEN_CALL };

/* An element of the table of open starts. Owner and value are as in struct slow_key. */
struct open_place {
	enum open_kind kind;
	uint32_t owner, pair;
	uint64_t value;
	/* struct thread_starts if OPEN_BY_THREAD, otherwise struct kept_event */
	void *data;
};

struct matched_pair {
	struct ocp_pair sums;
	uint64_t buckets[OCP_BUCKETS];
};

struct event_matcher {
	struct ocp_ctx *ctx;
	const struct engine_role *roles;
	const struct event_point *points;
	size_t n_pairs, n_points;
	unsigned int depth;
	struct inside *inside;
	struct event_threads *threads;
	struct event_clock clock;
	uint64_t last_ns; /* the time of the last event */
	struct matched_pair *pairs;
	struct open_place *open; /* a hash table of ROOM places, a power of 2 */
	size_t n_open, room, open_bytes;
	uint64_t n_unplaced; /* events of which nothing is known, since memory is short */
	bool has_told_args, has_told_damage;
	int err;
	/* while events are read */
	engine_print_fn fn;
	void *data;
	struct slow_record record; /* .stop is also used for a printed hit */
};

int event_matcher_new(struct ocp_ctx *ctx, const struct engine_role *roles, size_t n_pairs,
		      unsigned int depth, const struct event_point *points, size_t n_points,
		      struct inside *inside, pid_t pid, struct event_matcher **out)
{
	struct event_matcher *matcher = calloc(1, sizeof(*matcher));

	*out = matcher;
	if (!matcher)
		return ctx_no_memory(ctx);
	*matcher = (struct event_matcher){
		.ctx = ctx,
		.roles = roles,
		.points = points,
		.n_pairs = n_pairs,
		.n_points = n_points,
		.depth = depth,
		.inside = inside,
		.threads = event_threads_new(ctx, inside, pid),
		.pairs = calloc(n_pairs + 1, sizeof(*matcher->pairs)),
		.open = calloc(FIRST_ROOM, sizeof(*matcher->open)),
		.room = FIRST_ROOM,
	};
	event_clock_start(&matcher->clock, ticks_moment);
	return matcher->threads && matcher->pairs && matcher->open ? 0 : ctx_no_memory(ctx);
}

void event_matcher_free(struct event_matcher *matcher)
{
	if (!matcher)
		return;
	for (size_t i = 0; matcher->open && i < matcher->room; i++)
		free(matcher->open[i].data);
	event_threads_free(matcher->threads);
	free(matcher->open);
	free(matcher->pairs);
	free(matcher);
}

/* ---- the table of open starts --------------------------------------------------------------- */

static size_t hash_of(const struct open_place *key)
{
	uint64_t mixed = key->value * UINT64_C(0x9e3779b97f4a7c15);

	mixed ^= (uint64_t)key->owner << 32 ^ (uint64_t)key->pair << 2 ^ key->kind;
	mixed *= UINT64_C(0xd6e8feb86659fd93);
	return (size_t)(mixed >> 32);
}

static bool is_same_key(const struct open_place *a, const struct open_place *b)
{
	return a->kind == b->kind && a->owner == b->owner && a->pair == b->pair &&
	       a->value == b->value;
}

/* Return the place of KEY in the N places LIST: an unused one if KEY is not in the table. */
static struct open_place *open_place_of(struct open_place *list, size_t n,
					const struct open_place *key)
{
	size_t i = hash_of(key) & (n - 1);

	while (list[i].kind && !is_same_key(&list[i], key))
		i = (i + 1) & (n - 1);
	return &list[i];
}

static struct open_place *find_open(struct event_matcher *matcher, const struct open_place *key)
{
	struct open_place *place = open_place_of(matcher->open, matcher->room, key);

	return place->kind ? place : NULL;
}

static bool enlarge_open(struct event_matcher *matcher)
{
	const size_t room = 2 * matcher->room;
	struct open_place *list;

	if (matcher->room >= 2 * (size_t)MOST_OPEN)
		return false;
	list = calloc(room, sizeof(*list));
	if (!list)
		return false;
	for (size_t i = 0; i < matcher->room; i++)
		if (matcher->open[i].kind)
			*open_place_of(list, room, &matcher->open[i]) = matcher->open[i];
	free(matcher->open);
	matcher->open = list;
	matcher->room = room;
	return true;
}

static size_t data_bytes(enum open_kind kind)
{
	return kind == OPEN_BY_THREAD ? sizeof(struct thread_starts) : sizeof(struct kept_event);
}

/* Add KEY, whose data are zeros. Return NULL if the table is full. */
static struct open_place *add_open_place(struct event_matcher *matcher,
					 const struct open_place *key)
{
	const size_t bytes = data_bytes(key->kind);
	struct open_place *place;
	void *data;

	if (matcher->open_bytes + bytes > MOST_OPEN_BYTES ||
	    (2 * matcher->n_open >= matcher->room && !enlarge_open(matcher)))
		return NULL;
	data = calloc(1, bytes);
	if (!data)
		return NULL;
	place = open_place_of(matcher->open, matcher->room, key);
	*place = *key;
	place->data = data;
	matcher->n_open++;
	matcher->open_bytes += bytes;
	return place;
}

/* Remove PLACE, and move up the elements that its use has moved on. */
static void remove_open(struct event_matcher *matcher, struct open_place *place)
{
	const size_t mask = matcher->room - 1;
	size_t free_at = (size_t)(place - matcher->open), i = free_at;

	free(place->data);
	matcher->n_open--;
	matcher->open_bytes -= data_bytes(place->kind);
	for (;;) {
		size_t home;

		i = (i + 1) & mask;
		if (!matcher->open[i].kind)
			break;
		home = hash_of(&matcher->open[i]) & mask;
		/* Stay if the home is behind the free place, seen from the element. */
		if (((i - home) & mask) < ((i - free_at) & mask))
			continue;
		matcher->open[free_at] = matcher->open[i];
		free_at = i;
	}
	matcher->open[free_at] = (struct open_place){ 0 };
}

/* ---- records -------------------------------------------------------------------------------- */

/* Set NODE to the value of the argument at place AT of EVENT; -1: it has no place. */
static void fill_node(struct event_matcher *matcher, const struct kept_event *event, int at,
		      struct value_node *node)
{
	*node = (struct value_node){ .kind = NODE_UNSUPPORTED };
	if (at >= 0 && event->args[at] & 1) {
		node->kind = NODE_INT;
		node->value = (uint64_t)((int64_t)event->args[at] >> 1);
		return;
	}
	if (!matcher->has_told_args)
		ctx_log(matcher->ctx, OCP_LOG_WARN,
			"arguments that are not ints are not recorded: the engine `inside` does not "
			"read the memory that they refer to");
	matcher->has_told_args = true;
}

/* Set RECORD to the hit EVENT. */
static void fill_record(struct event_matcher *matcher, const struct kept_event *event,
			struct hit_record *record)
{
	const struct event_thread *thread = event_threads_find(matcher->threads, event->id);
	const struct event_point *point = &matcher->points[event->point];

	record->ts_ns = event->ns;
	record->pid = (uint32_t)thread->pid;
	record->tid = (uint32_t)thread->tid;
	record->site = point->site;
	record->n_args = record->n_nodes = point->n_args;
	record->n_text = 0;
	record->n_left_out = point->n_left_out;
	record->kind = RECORD_HIT;
	memcpy(record->comm, thread->comm, sizeof(record->comm));
	for (size_t i = 0; i < record->n_args; i++)
		fill_node(matcher, event, point->places[i], &record->nodes[i]);
}

/* Return the time between two events. One that was late can seem to be before the other. */
static uint64_t time_between(const struct kept_event *start, const struct kept_event *stop)
{
	return stop->ns > start->ns ? stop->ns - start->ns : 0;
}

static void pass_pair(struct event_matcher *matcher, uint32_t pair, const struct kept_event *start,
		      const struct kept_event *stop)
{
	struct slow_record *record = &matcher->record;

	fill_record(matcher, stop, &record->stop);
	record->stop.kind = RECORD_SLOW;
	record->ns = time_between(start, stop);
	record->pair = pair;
	record->has_start = 1;
	fill_record(matcher, start, &record->start);
	if (matcher->fn)
		matcher->fn(matcher->data, &record->stop, NULL);
}

static void count_pair(struct event_matcher *matcher, uint32_t pair, uint64_t ns)
{
	struct ocp_pair *sums = &matcher->pairs[pair].sums;

	if (!sums->count || ns < sums->min_ns)
		sums->min_ns = ns;
	if (ns > sums->max_ns)
		sums->max_ns = ns;
	sums->count++;
	sums->sum_ns += ns;
	matcher->pairs[pair].buckets[measure_bucket_of(ns)]++;
}

/* A start that the filter has rejected is kept for its stop, but it counts nowhere. */
static bool is_rejected(const struct event_matcher *matcher, const struct kept_event *start)
{
	return matcher->points[start->point].is_rejected;
}

/* A pair has ended. */
static void end_pair(struct event_matcher *matcher, uint32_t pair, const struct kept_event *start,
		     const struct kept_event *stop)
{
	if (is_rejected(matcher, start))
		return;
	count_pair(matcher, pair, time_between(start, stop));
	pass_pair(matcher, pair, start, stop);
}

/* ---- pairs by thread ------------------------------------------------------------------------ */

/* Return the open start of age AGE. The age of a start is the number of newer starts. */
static struct kept_event *start_of(struct thread_starts *starts, uint32_t age)
{
	return &starts->ring[(starts->next - 1 - age) & (MEASURE_DEPTH - 1)];
}

/*
 * Count the start EVENT, for which there is no room if PLACE is NULL. Then a rejected one counts,
 * too: its stop will be counted as an orphan.
 */
static void count_start(const struct event_matcher *matcher, struct ocp_pair *sums,
			const struct kept_event *event, const struct open_place *place)
{
	sums->starts += !place || !is_rejected(matcher, event);
	sums->map_full += !place;
}

static void start_by_thread(struct event_matcher *matcher, const struct open_place *key,
			    const struct kept_event *event)
{
	struct ocp_pair *sums = &matcher->pairs[key->pair].sums;
	struct open_place *place = find_open(matcher, key);
	struct thread_starts *starts;

	if (!place)
		place = add_open_place(matcher, key);
	count_start(matcher, sums, event, place);
	if (!place)
		return;
	starts = place->data;
	if (starts->n < matcher->depth && starts->n < MEASURE_DEPTH)
		starts->n++;
	else
		sums->orphan_starts += !is_rejected(matcher, start_of(starts, starts->n - 1));
	starts->next++;
	*start_of(starts, 0) = *event;
}

/* Return the age of the newest start with the frame of STOP, or 0 if no start has this frame. */
static uint32_t find_age(struct thread_starts *starts, const struct kept_event *stop)
{
	for (uint32_t age = 0; age < starts->n; age++)
		if (start_of(starts, age)->frame == stop->frame)
			return age;
	return 0;
}

/* Return how many of the N newest starts the filter has not rejected. */
static uint32_t count_matching(const struct event_matcher *matcher, struct thread_starts *starts,
			       uint32_t n)
{
	uint32_t n_matching = 0;

	for (uint32_t age = 0; age < n; age++)
		n_matching += !is_rejected(matcher, start_of(starts, age));
	return n_matching;
}

static void stop_by_thread(struct event_matcher *matcher, const struct open_place *key,
			   const struct kept_event *event)
{
	struct ocp_pair *sums = &matcher->pairs[key->pair].sums;
	struct open_place *place = find_open(matcher, key);
	struct thread_starts *starts = place ? place->data : NULL;
	uint32_t n_skipped;

	if (!starts || !starts->n) {
		sums->orphan_stops++;
		return;
	}
	n_skipped = find_age(starts, event);
	sums->orphan_starts += count_matching(matcher, starts, n_skipped);
	starts->n -= n_skipped;
	starts->next -= n_skipped;
	end_pair(matcher, key->pair, start_of(starts, 0), event);
	starts->n--;
	starts->next--;
}

/* ---- pairs by key, and calls ---------------------------------------------------------------- */

static void start_by_value(struct event_matcher *matcher, const struct open_place *key,
			   const struct kept_event *event)
{
	struct ocp_pair *sums = &matcher->pairs[key->pair].sums;
	struct open_place *place = find_open(matcher, key);

	if (place)
		sums->orphan_starts += !is_rejected(matcher, place->data);
	else
		place = add_open_place(matcher, key);
	count_start(matcher, sums, event, place);
	if (place)
		*(struct kept_event *)place->data = *event;
}

static void stop_by_value(struct event_matcher *matcher, const struct open_place *key,
			  const struct kept_event *event)
{
	struct open_place *place = find_open(matcher, key);
	struct kept_event start;

	if (!place) {
		matcher->pairs[key->pair].sums.orphan_stops++;
		return;
	}
	start = *(const struct kept_event *)place->data;
	remove_open(matcher, place);
	end_pair(matcher, key->pair, &start, event);
}

/* Play role number I of POINT. THREAD has hit it. */
static void play_role(struct event_matcher *matcher, const struct event_point *point, uint32_t i,
		      const struct event_thread *thread, const struct kept_event *event)
{
	const struct engine_role *role = &matcher->roles[point->first_role + i];
	struct open_place key = { .kind = OPEN_BY_THREAD,
				  .owner = (uint32_t)thread->tid,
				  .pair = role->pair };

	if (role->confirms)
		return;
	if (role->is_frame) {
		key.kind = OPEN_CALL;
		key.value = event->frame;
	} else if (role->is_keyed) {
		key.kind = OPEN_BY_KEY;
		key.value = event->args[point->keys[i]];
	}
	if (role->is_keyed || (role->is_frame && point->is_fibre))
		key.owner = (uint32_t)thread->pid;
	if (role->is_keyed && !(key.value & 1)) {
		matcher->pairs[role->pair].sums.starts += !role->is_stop && !point->is_rejected;
		matcher->pairs[role->pair].sums.not_keyed += !role->is_stop && !point->is_rejected;
		matcher->pairs[role->pair].sums.orphan_stops += role->is_stop;
	} else if (key.kind == OPEN_BY_THREAD && role->is_stop) {
		stop_by_thread(matcher, &key, event);
	} else if (key.kind == OPEN_BY_THREAD) {
		start_by_thread(matcher, &key, event);
	} else if (role->is_stop) {
		stop_by_value(matcher, &key, event);
	} else {
		start_by_value(matcher, &key, event);
	}
}

/* ---- events --------------------------------------------------------------------------------- */

/* Return the time of TICKS. Times do not go back a little, but an event can be late. */
static uint64_t event_time(struct event_matcher *matcher, uint64_t ticks)
{
	const uint64_t ns = event_clock_ns(&matcher->clock, ticks);

	if (ns >= matcher->last_ns || matcher->last_ns - ns > LATE_NS)
		matcher->last_ns = ns;
	return matcher->last_ns;
}

static void take_event(void *data, const struct inside_record *record)
{
	struct event_matcher *matcher = data;
	const struct event_point *point = &matcher->points[record->point];
	const struct event_thread *thread = event_threads_find(matcher->threads, record->tid);
	struct kept_event event = {
		.ns = event_time(matcher, record->ticks),
		.frame = record->frame,
		.id = record->tid,
		.point = record->point,
	};

	if (!thread || (!point->n_roles && !point->is_printed)) {
		matcher->n_unplaced++;
		return;
	}
	memcpy(event.args, record->args, sizeof(event.args));
	if (point->is_printed && matcher->fn) {
		fill_record(matcher, &event, &matcher->record.stop);
		matcher->fn(matcher->data, &matcher->record.stop, NULL);
	}
	for (uint32_t i = 0; i < point->n_roles; i++)
		play_role(matcher, point, i, thread, &event);
}

int event_matcher_print(struct event_matcher *matcher, bool all, engine_print_fn fn, void *data)
{
	int err;

	matcher->fn = fn;
	matcher->data = data;
	event_threads_begin(matcher->threads, clock_ns(CLOCK_MONOTONIC));
	event_clock_look(&matcher->clock);
	err = inside_take_records(matcher->inside, (uint32_t)matcher->n_points, all, take_event,
				  matcher);
	matcher->fn = NULL;
	if (!matcher->has_told_damage && inside_records_damaged(matcher->inside)) {
		ctx_log(matcher->ctx, OCP_LOG_WARN,
			"events are lost: the process has overwritten their memory");
		matcher->has_told_damage = true;
	}
	return err;
}

/* ---- results -------------------------------------------------------------------------------- */

/*
 * Return true if the thread or process that owns PLACE has ended. remove_open() frees the data of
 * a place and then sets its kind to 0, or moves another element there, which the analyzer misses.
 */
/* NOLINTBEGIN(clang-analyzer-unix.Malloc) */
static bool has_owner_ended(struct event_matcher *matcher, const struct open_place *place)
{
	const struct thread_starts *starts = place->data;
	const struct kept_event *event = place->data;
	const struct event_thread *thread;

	if (place->kind == OPEN_BY_THREAD) {
		if (!starts->n)
			return false;
		event = &starts->ring[(starts->next - 1) & (MEASURE_DEPTH - 1)];
	}
	thread = event_threads_find(matcher->threads, event->id);
	if (!thread)
		return false;
	if (place->owner == (uint32_t)thread->pid)
		return event_thread_has_ended(thread->pid, thread->pid);
	return thread->is_unknown || event_thread_has_ended(thread->pid, thread->tid);
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

/* Starts of threads and processes that have ended have no stop. */
static void drop_ended(struct event_matcher *matcher)
{
	for (size_t i = 0; i < matcher->room; i++) {
		struct open_place *place = &matcher->open[i];
		const struct thread_starts *starts = place->data;

		/* Another element may take the place of a removed one. */
		while (place->kind && has_owner_ended(matcher, place)) {
			matcher->pairs[place->pair].sums.orphan_starts +=
				place->kind == OPEN_BY_THREAD
					? count_matching(matcher, place->data, starts->n)
					: !is_rejected(matcher, place->data);
			remove_open(matcher, place);
			starts = place->data;
		}
	}
}

void event_matcher_read(struct event_matcher *matcher, struct engine_reading *reading)
{
	reading->losses.prints_dropped +=
		inside_records_lost(matcher->inside) + matcher->n_unplaced;
	if (reading->only_hits)
		return;
	drop_ended(matcher);
	for (size_t i = 0; i < matcher->n_pairs; i++) {
		const struct ocp_pair *from = &matcher->pairs[i].sums;
		struct ocp_pair *to = &reading->pairs[i];

		if (from->count && (!to->count || from->min_ns < to->min_ns))
			to->min_ns = from->min_ns;
		if (from->max_ns > to->max_ns)
			to->max_ns = from->max_ns;
		to->starts += from->starts;
		to->count += from->count;
		to->sum_ns += from->sum_ns;
		to->orphan_starts += from->orphan_starts;
		to->orphan_stops += from->orphan_stops;
		to->map_full += from->map_full;
		to->not_keyed += from->not_keyed;
		for (size_t j = 0; j < OCP_BUCKETS; j++)
			reading->pair_buckets[i][j] += matcher->pairs[i].buckets[j];
	}
}

/* Return where the call is that EVENT has begun. */
static struct slow_call call_of(const struct event_matcher *matcher, const struct kept_event *event)
{
	const struct event_point *point = &matcher->points[event->point];
	struct slow_call call = { .at = event->frame,
				  .return_address = event->args[EVENT_RETURN_ADDRESS] };
	uint64_t handler;

	if (!point->is_fibre)
		return call;
	call.stack = event->args[EVENT_STACK];
	call.parent = event->args[EVENT_PARENT];
	call.state = event->args[EVENT_STATE];
	/* Of a stack that has moved meanwhile, the number is not found at the old address. */
	if (inside_read_word(matcher->inside, call.stack + STACK_HANDLER, &handler))
		call.at = handler - (uint32_t)event->frame;
	else
		call.return_address = 0;
	return call;
}

/* Add EVENT, the open start at PLACE; AT is its number in the ring of its thread. */
static int add_open_event(struct event_matcher *matcher, struct engine_opens *opens,
			  const struct open_place *place, const struct kept_event *event,
			  uint64_t at)
{
	struct engine_open *open;
	struct slow_start *start;

	if (is_rejected(matcher, event))
		return 0;
	open = array_add(opens->list, opens->n);
	start = open ? calloc(1, sizeof(*start)) : NULL;
	if (!start) {
		opens->n -= open != NULL;
		return ctx_no_memory(matcher->ctx);
	}
	start->ns = event->ns;
	if (place->kind == OPEN_CALL)
		start->call = call_of(matcher, event);
	fill_record(matcher, event, &start->hit);
	*open = (struct engine_open){
		.pair = place->pair,
		.is_call = place->kind == OPEN_CALL,
		.owner = place->owner,
		.value = place->kind == OPEN_BY_THREAD ? at : place->value,
		.ns = event->ns,
		.record = start,
	};
	return 0;
}

int event_matcher_read_open(struct event_matcher *matcher, struct engine_opens *opens)
{
	int err = 0;

	drop_ended(matcher);
	for (size_t i = 0; !err && i < matcher->room; i++) {
		const struct open_place *place = &matcher->open[i];
		struct thread_starts *starts = place->data;

		if (place->kind != OPEN_NONE && place->kind != OPEN_BY_THREAD)
			err = add_open_event(matcher, opens, place, place->data, 0);
		for (uint32_t age = 0; !err && place->kind == OPEN_BY_THREAD && age < starts->n;
		     age++)
			err = add_open_event(matcher, opens, place, start_of(starts, age),
					     (starts->next - 1 - age) & (MEASURE_DEPTH - 1));
	}
	return err;
}
