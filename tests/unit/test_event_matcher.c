// SPDX-License-Identifier: MIT
/*
 * What the tool makes of events that a process has written to its rings: pairs by thread and by
 * key, calls by frame, what has not ended, and losses. The rings are in this process, and the tests
 * write to them; the threads are threads of it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "change/inside/held.h"
#include "change/inside/records.h"
#include "change/inside/rings.h"
#include "kernel/ticks.h"
#include "measure/engine/event_matcher.h"
#include "measure_slower.h"
#include "unit.h"

enum {
	N_RINGS = 2,
	SLOTS = 8192,
	N_THREADS = 3,
	MOST_SEEN = 8192,
	/* between two events, unless a test says otherwise: more than 1 us, whatever the CPU */
	STEP = 20000,
};

/* The points of the tests. Those from N_SITES on are of hits that the filter has rejected. */
enum {
	START, /* pair 0, by thread */
	STOP,
	KEY_START, /* pair 1, by key: argument 1 */
	KEY_STOP,
	ENTER, /* pair 2, by frame */
	LEAVE,
	CONFIRM,
	FIBER_ENTER, /* pair 3, by frame, on stacks of OCaml 5 */
	FIBER_LEAVE,
	PRINT, /* printed, with three arguments, of which the second has no place */
	LEAP,  /* stops and starts pair 0 */
	NOTHING,
	N_SITES,
};

enum { BY_THREAD, BY_KEY, CALLS, FIBER_CALLS, N_PAIRS };

static const struct engine_role roles[] = {
	[START] = { .pair = BY_THREAD },
	[STOP] = { .pair = BY_THREAD, .is_stop = true },
	[KEY_START] = { .pair = BY_KEY, .is_keyed = true },
	[KEY_STOP] = { .pair = BY_KEY, .is_keyed = true, .is_stop = true },
	[ENTER] = { .pair = CALLS, .is_frame = true },
	[LEAVE] = { .pair = CALLS, .is_frame = true, .is_stop = true },
	[CONFIRM] = { .pair = CALLS, .is_frame = true, .confirms = true },
	[FIBER_ENTER] = { .pair = FIBER_CALLS, .is_frame = true },
	[FIBER_LEAVE] = { .pair = FIBER_CALLS, .is_frame = true, .is_stop = true },
	/* of LEAP */
	[N_SITES] = { .pair = BY_THREAD, .is_stop = true },
	[N_SITES + 1] = { .pair = BY_THREAD },
};

/* Threads of this process that wait, so that their ids are known. */
static struct waiting_thread {
	pthread_t thread;
	atomic_int tid;
	atomic_bool ends;
} threads[N_THREADS];

struct seen_pair {
	uint32_t pair;
	uint64_t ns, begin_ns;
	pid_t tid, start_tid;
	uint32_t site, start_site;
};

static struct tested {
	struct ocp_ctx *ctx;
	struct inside inside;
	struct event_point points[2 * N_SITES];
	struct event_matcher *matcher;
	uint64_t next_ticks;
	struct seen_pair pairs[MOST_SEEN];
	size_t n_pairs;
	struct hit_record hits[16];
	size_t n_hits;
	size_t n_warnings;
} t;

/* ---- the process ---------------------------------------------------------------------------- */

static void *wait_to_end(void *data)
{
	struct waiting_thread *thread = data;

	atomic_store(&thread->tid, gettid());
	while (!atomic_load(&thread->ends))
		usleep(1000);
	return NULL;
}

static void start_thread(struct waiting_thread *thread)
{
	atomic_store(&thread->tid, 0);
	atomic_store(&thread->ends, false);
	assert_int_equal(pthread_create(&thread->thread, NULL, wait_to_end, thread), 0);
	while (!atomic_load(&thread->tid))
		usleep(100);
}

static void end_thread(struct waiting_thread *thread)
{
	atomic_store(&thread->ends, true);
	pthread_join(thread->thread, NULL);
}

static pid_t tid_of(int thread)
{
	return thread < N_THREADS ? atomic_load(&threads[thread].tid) : 0x3ffffff0 + thread;
}

static void make_points(void)
{
	for (uint32_t i = 0; i < N_SITES; i++)
		t.points[i] = (struct event_point){
			.site = i,
			.first_role = i == LEAP ? N_SITES : i,
			.n_roles = i == LEAP ? 2 : i < PRINT,
			.is_printed = i == PRINT,
			.is_fibre = i == FIBER_ENTER || i == FIBER_LEAVE,
			.has_call = i == ENTER || i == FIBER_ENTER,
			.keys = { 1 },
		};
	t.points[PRINT].n_args = 3;
	t.points[PRINT].n_left_out = 2;
	t.points[PRINT].places[0] = 1;
	t.points[PRINT].places[1] = -1;
	t.points[PRINT].places[2] = 0;
	for (uint32_t i = 0; i < N_SITES; i++) {
		t.points[N_SITES + i] = t.points[i];
		t.points[N_SITES + i].is_rejected = true;
		t.points[N_SITES + i].is_printed = false;
	}
}

static void count_warning(void *data, enum ocp_log_level level, const char *text)
{
	(void)data;
	t.n_warnings += level == OCP_LOG_WARN && strlen(text) > 0;
}

/* Begin a recording, with room for DEPTH starts of a thread in a pair. */
static void begin(unsigned int depth)
{
	struct block_header *header = &t.inside.header;

	memset(&t, 0, sizeof(t));
	t.ctx = ocp_ctx_new();
	ocp_ctx_set_log(t.ctx, count_warning, NULL, OCP_LOG_WARN);
	t.inside.ctx = t.ctx;
	t.inside.pid = getpid();
	assert_int_equal(memory_open(t.ctx, getpid(), &t.inside.memory), 0);
	*header = (struct block_header){
		.n_sites = N_SITES,
		.n_shards = 1,
		.n_rings = N_RINGS,
		.ring_slots = SLOTS,
		.slot_bytes = rings_slot_bytes(4),
		.start_ticks = ticks_now(),
	};
	t.inside.block = calloc(1, header->rings_off + rings_bytes(header));
	assert_non_null(t.inside.block);
	make_points();
	for (int i = 0; i < N_THREADS; i++)
		start_thread(&threads[i]);
	assert_int_equal(event_matcher_new(t.ctx, roles, N_PAIRS, depth, t.points, 2 * N_SITES,
					   &t.inside, getpid(), &t.matcher),
			 0);
	t.next_ticks = ticks_now() + STEP;
}

static void finish(void)
{
	event_matcher_free(t.matcher);
	records_free(t.inside.records);
	memory_close(t.inside.memory);
	free(t.inside.block);
	ocp_ctx_free(t.ctx);
	for (int i = 0; i < N_THREADS; i++)
		if (!atomic_load(&threads[i].ends))
			end_thread(&threads[i]);
}

static struct event_ring *ring_at(uint32_t i)
{
	return (struct event_ring *)(t.inside.block + t.inside.header.rings_off +
				     sizeof(struct rings_shared) +
				     i * rings_stride(&t.inside.header));
}

/* Return the slot of the next event of ring RING. */
static struct event_slot *slot_at(uint32_t ring)
{
	return (struct event_slot *)((uint8_t *)(ring_at(ring) + 1) +
				     ring_at(ring)->head % SLOTS * t.inside.header.slot_bytes);
}

/* Thread number THREAD writes an event to ring RING, at TICKS. */
static void put_at(uint32_t ring, int thread, uint32_t point, uint64_t frame, uint64_t arg,
		   uint64_t ticks)
{
	struct event_ring *to = ring_at(ring);
	struct event_slot *slot = slot_at(ring);

	assert_true(to->head - to->tail < SLOTS);
	*slot = (struct event_slot){
		.ticks = ticks, .tid = (uint32_t)tid_of(thread), .point = point, .frame = frame + 1
	};
	slot->args[0] = 2 * arg + 201;
	slot->args[1] = 2 * arg + 1;
	slot->sequence = ++to->head;
}

/* ... STEP behind the event before. */
static void put(int thread, uint32_t point, uint64_t frame, uint64_t arg)
{
	put_at(0, thread, point, frame, arg, t.next_ticks);
	t.next_ticks += STEP;
}

/* ---- what comes out ------------------------------------------------------------------------- */

static void keep(void *data, const struct hit_record *record, const struct stored_stack *stack)
{
	const struct slow_record *slow = (const struct slow_record *)record;

	(void)data;
	assert_null(stack);
	if (record->kind == RECORD_HIT) {
		assert_true(t.n_hits < sizeof(t.hits) / sizeof(t.hits[0]));
		t.hits[t.n_hits++] = *record;
		return;
	}
	assert_int_equal(record->kind, RECORD_SLOW);
	assert_int_equal(slow->has_start, 1);
	assert_int_equal(record->pid, getpid());
	assert_true(t.n_pairs < MOST_SEEN);
	t.pairs[t.n_pairs++] = (struct seen_pair){
		.pair = slow->pair,
		.ns = slow->ns,
		.begin_ns = slow->start.ts_ns,
		.tid = (pid_t)record->tid,
		.start_tid = (pid_t)slow->start.tid,
		.site = record->site,
		.start_site = slow->start.site,
	};
}

/* Read all events. They are not newer than the present. */
static void read_events(void)
{
	while (ticks_now() < t.next_ticks)
		usleep(100);
	assert_int_equal(event_matcher_print(t.matcher, true, keep, NULL), 0);
}

static struct ocp_pair sums_of(uint32_t pair)
{
	static uint64_t buckets[N_PAIRS][OCP_BUCKETS];
	struct ocp_pair pairs[N_PAIRS] = { 0 };
	struct engine_reading reading = { .pairs = pairs, .pair_buckets = buckets };
	uint64_t n = 0;

	memset(buckets, 0, sizeof(buckets));
	event_matcher_read(t.matcher, &reading);
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		n += buckets[pair][i];
	assert_int_equal(n, pairs[pair].count);
	return pairs[pair];
}

/* Check the sums of PAIR: starts, pairs, starts and stops without the other. */
static void check_sums(uint32_t pair, uint64_t starts, uint64_t count, uint64_t orphan_starts,
		       uint64_t orphan_stops)
{
	const struct ocp_pair sums = sums_of(pair);
	uint64_t sum_ns = 0, min_ns = UINT64_MAX, max_ns = 0, n = 0;

	if (sums.starts != starts || sums.count != count || sums.orphan_starts != orphan_starts ||
	    sums.orphan_stops != orphan_stops)
		fail_msg("pair %u: %lu starts, %lu pairs, %lu and %lu orphans", pair, sums.starts,
			 sums.count, sums.orphan_starts, sums.orphan_stops);
	for (size_t i = 0; i < t.n_pairs; i++) {
		const struct seen_pair *seen = &t.pairs[i];

		if (seen->pair != pair)
			continue;
		n++;
		sum_ns += seen->ns;
		min_ns = seen->ns < min_ns ? seen->ns : min_ns;
		max_ns = seen->ns > max_ns ? seen->ns : max_ns;
	}
	assert_int_equal(n, count);
	assert_int_equal(sums.sum_ns, sum_ns);
	assert_int_equal(sums.min_ns, n ? min_ns : 0);
	assert_int_equal(sums.max_ns, max_ns);
}

/* Check that pair number I is one of PAIR that took STEPS steps. */
static void check_pair(size_t i, uint32_t pair, uint64_t steps)
{
	static double ns_per_step;
	struct tick_moment from, to;

	if (ns_per_step == 0) {
		from = ticks_moment();
		usleep(50000);
		to = ticks_moment();
		ns_per_step = STEP * (double)(to.ns - from.ns) / (double)(to.ticks - from.ticks);
	}
	assert_true(i < t.n_pairs);
	assert_int_equal(t.pairs[i].pair, pair);
	if ((double)t.pairs[i].ns < ns_per_step * ((double)steps - 0.5) ||
	    (double)t.pairs[i].ns > ns_per_step * ((double)steps + 0.5))
		fail_msg("pair %zu took %lu ns, and not %lu steps of %g ns", i, t.pairs[i].ns,
			 steps, ns_per_step);
}

/* ---- pairs by thread ------------------------------------------------------------------------ */

TEST(pairs_of_a_thread_nest)
{
	begin(16);
	put(0, START, 100, 0);
	put(0, START, 90, 0);
	put(1, START, 100, 0);
	put(0, STOP, 90, 0);
	put(0, STOP, 100, 0);
	put(1, STOP, 100, 0);
	put(2, STOP, 100, 0);
	read_events();
	check_sums(BY_THREAD, 3, 3, 0, 1);
	check_pair(0, BY_THREAD, 2);
	check_pair(1, BY_THREAD, 4);
	check_pair(2, BY_THREAD, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(t.pairs[i].tid, tid_of(i == 2));
		assert_int_equal(t.pairs[i].start_tid, tid_of(i == 2));
		assert_int_equal(t.pairs[i].site, STOP);
		assert_int_equal(t.pairs[i].start_site, START);
	}
	finish();
}

/* An exception skips the stops of inner frames. A stop of no known frame ends the newest start. */
TEST(exceptions_leave_starts_without_stops)
{
	begin(16);
	put(0, START, 100, 0);
	put(0, START, 90, 0);
	put(0, START, 80, 0);
	put(0, STOP, 100, 0);
	put(0, START, 100, 0);
	put(0, START, 90, 0);
	put(0, STOP, 70, 0);
	put(0, STOP, 100, 0);
	read_events();
	check_sums(BY_THREAD, 5, 3, 2, 0);
	check_pair(0, BY_THREAD, 3);
	check_pair(1, BY_THREAD, 1);
	check_pair(2, BY_THREAD, 3);
	finish();
}

/* The newest starts are kept, as many as the depth is. */
TEST(the_depth_limits_open_starts)
{
	begin(2);
	put(0, START, 100, 0);
	put(0, START, 90, 0);
	put(0, START, 80, 0);
	put(0, STOP, 80, 0);
	put(0, STOP, 90, 0);
	put(0, STOP, 100, 0);
	read_events();
	check_sums(BY_THREAD, 3, 2, 1, 1);
	check_pair(0, BY_THREAD, 1);
	check_pair(1, BY_THREAD, 3);
	finish();
}

/* A hit that ends a pair and begins the next one. */
TEST(one_hit_has_several_roles)
{
	begin(16);
	put(0, LEAP, 100, 0);
	for (int i = 0; i < 5; i++)
		put(0, LEAP, 100, 0);
	read_events();
	check_sums(BY_THREAD, 6, 5, 0, 1);
	for (size_t i = 0; i < 5; i++)
		check_pair(i, BY_THREAD, 1);
	finish();
}

/* ---- pairs by key --------------------------------------------------------------------------- */

TEST(keys_connect_threads)
{
	begin(16);
	put(0, KEY_START, 0, 7);
	put(1, KEY_START, 0, 8);
	put(1, KEY_STOP, 0, 7);
	put(0, KEY_STOP, 0, 8);
	/* A start with the same key replaces the one before. */
	put(0, KEY_START, 0, 9);
	put(0, KEY_START, 0, 9);
	put(2, KEY_STOP, 0, 9);
	put(2, KEY_STOP, 0, 9);
	read_events();
	check_sums(BY_KEY, 4, 3, 1, 1);
	check_pair(0, BY_KEY, 2);
	check_pair(1, BY_KEY, 2);
	check_pair(2, BY_KEY, 1);
	assert_int_equal(t.pairs[0].start_tid, tid_of(0));
	assert_int_equal(t.pairs[0].tid, tid_of(1));
	finish();
}

/* A pointer is no key: the collector moves what it refers to. */
TEST(keys_are_ints)
{
	begin(16);
	put(0, KEY_START, 0, 7);
	((struct event_slot *)(ring_at(0) + 1))->args[1] = 0x1000;
	put(0, KEY_STOP, 0, 7);
	read_events();
	check_sums(BY_KEY, 1, 0, 0, 1);
	assert_int_equal(sums_of(BY_KEY).not_keyed, 1);
	finish();
}

/* Thousands of keys come and go in random order: each start finds its stop. */
TEST(many_keys_are_open_at_a_time)
{
	enum { N = 4000 };
	static uint32_t order[N];

	begin(16);
	srand(7);
	for (uint32_t i = 0; i < N; i++)
		order[i] = i;
	for (uint32_t i = N - 1; i; i--) {
		const uint32_t j = (uint32_t)rand() % (i + 1), kept = order[i];

		order[i] = order[j];
		order[j] = kept;
	}
	for (uint32_t i = 0; i < N; i++)
		put(0, KEY_START, 0, UINT64_C(0x100000000) * i + i % 64);
	for (uint32_t i = 0; i < N; i++)
		put(1, KEY_STOP, 0, UINT64_C(0x100000000) * order[i] + order[i] % 64);
	read_events();
	check_sums(BY_KEY, N, N, 0, 0);
	for (uint32_t i = 0; i < N; i++)
		check_pair(i, BY_KEY, N + i - order[i]);
	finish();
}

/* ---- calls ---------------------------------------------------------------------------------- */

TEST(calls_are_matched_by_frame)
{
	begin(16);
	put(0, ENTER, 1000, 0);
	put(1, ENTER, 1000, 0);
	put(0, ENTER, 900, 0);
	put(0, CONFIRM, 900, 0);
	/* An exception ends the call in frame 900, and another call is in its place. */
	put(0, ENTER, 900, 0);
	put(0, LEAVE, 900, 0);
	put(0, LEAVE, 1000, 0);
	put(1, LEAVE, 900, 0);
	put(1, LEAVE, 1000, 0);
	read_events();
	check_sums(CALLS, 4, 3, 1, 1);
	check_pair(0, CALLS, 1);
	check_pair(1, CALLS, 6);
	check_pair(2, CALLS, 7);
	assert_int_equal(t.pairs[2].start_tid, tid_of(1));
	finish();
}

/* A fibre of OCaml 5 continues in another thread. */
TEST(fibres_move_between_threads)
{
	begin(16);
	put(0, FIBER_ENTER, 1000, 0);
	put(0, FIBER_ENTER, UINT64_C(1) << 32 | 1000, 0);
	put(1, FIBER_LEAVE, 1000, 0);
	put(1, FIBER_LEAVE, UINT64_C(1) << 32 | 1000, 0);
	read_events();
	check_sums(FIBER_CALLS, 2, 2, 0, 0);
	check_pair(0, FIBER_CALLS, 2);
	check_pair(1, FIBER_CALLS, 2);
	assert_int_equal(t.pairs[0].tid, tid_of(1));
	assert_int_equal(t.pairs[0].start_tid, tid_of(0));
	finish();
}

/* ---- printed hits --------------------------------------------------------------------------- */

TEST(hits_have_their_ints)
{
	begin(16);
	put(2, PRINT, 0, 5);
	put(2, N_SITES + PRINT, 0, 6);
	put(2, PRINT, 0, UINT64_MAX / 2);
	((struct event_slot *)(ring_at(0) + 1))->args[0] = 0x2000;
	read_events();
	assert_int_equal(t.n_hits, 2);
	assert_int_equal(t.hits[0].tid, tid_of(2));
	assert_int_equal(t.hits[0].site, PRINT);
	assert_int_equal(t.hits[0].n_args, 3);
	assert_int_equal(t.hits[0].n_left_out, 2);
	assert_int_equal(t.hits[0].nodes[0].kind, NODE_INT);
	assert_int_equal(t.hits[0].nodes[0].value, 5);
	assert_int_equal(t.hits[0].nodes[1].kind, NODE_UNSUPPORTED);
	/* a pointer */
	assert_int_equal(t.hits[0].nodes[2].kind, NODE_UNSUPPORTED);
	assert_int_equal((int64_t)t.hits[1].nodes[0].value, -1);
	assert_true(t.hits[1].ts_ns > t.hits[0].ts_ns);
	/* for all arguments that are not recorded */
	assert_int_equal(t.n_warnings, 1);
	finish();
}

/* ---- a filter ------------------------------------------------------------------------------- */

/* What the filter rejects counts nowhere, and its stop neither. */
TEST(rejected_starts_count_nowhere)
{
	begin(2);
	put(0, N_SITES + START, 100, 0);
	put(0, STOP, 100, 0);
	put(0, N_SITES + KEY_START, 0, 7);
	put(1, KEY_STOP, 0, 7);
	put(0, N_SITES + KEY_START, 0, 7);
	put(0, KEY_START, 0, 7); /* replaces the rejected one */
	put(0, N_SITES + KEY_START, 0, 7);
	put(0, N_SITES + ENTER, 1000, 0);
	put(0, LEAVE, 1000, 0);
	/* The oldest ones have no room: only the one that matches is an orphan. */
	put(1, N_SITES + START, 100, 0);
	put(1, START, 90, 0);
	put(1, N_SITES + START, 80, 0);
	put(1, N_SITES + START, 70, 0);
	put(1, STOP, 70, 0);
	/* An exception skips a rejected one, and one that matches. */
	put(2, START, 100, 0);
	put(2, N_SITES + START, 90, 0);
	put(2, STOP, 100, 0);
	put(2, N_SITES + START, 100, 0);
	put(2, START, 90, 0);
	put(2, STOP, 100, 0);
	read_events();
	check_sums(BY_THREAD, 3, 1, 2, 0);
	check_sums(BY_KEY, 1, 0, 1, 0);
	check_sums(CALLS, 0, 0, 0, 0);
	check_pair(0, BY_THREAD, 2);
	finish();
}

/* ---- what has not ended --------------------------------------------------------------------- */

static const struct engine_open *find_open_one(const struct engine_opens *opens, uint32_t pair)
{
	const struct engine_open *found = NULL;

	for (size_t i = 0; i < opens->n; i++)
		if (opens->list[i].pair == pair) {
			assert_null(found);
			found = &opens->list[i];
		}
	assert_non_null(found);
	return found;
}

TEST(open_slices_are_known)
{
	/* a stack of OCaml 5, with the address of its handler */
	uint64_t stack[8] = { 0, 0, 0x500000 };
	struct event_slot *fiber;
	struct engine_opens opens = { 0 };
	const struct engine_open *open;

	begin(16);
	put(0, START, 100, 0);
	put(0, START, 90, 0);
	put(0, STOP, 90, 0);
	put(1, KEY_START, 0, 7);
	put(0, ENTER, 1000, 0);
	put(0, N_SITES + START, 80, 0);
	put(1, N_SITES + KEY_START, 0, 8);
	fiber = slot_at(0);
	put(1, FIBER_ENTER, UINT64_C(3) << 32 | 0x240, 0);
	fiber->args[EVENT_STACK] = (uint64_t)(uintptr_t)stack;
	fiber->args[EVENT_PARENT] = 11;
	fiber->args[EVENT_STATE] = 12;
	read_events();
	assert_int_equal(event_matcher_read_open(t.matcher, &opens), 0);
	assert_int_equal(opens.n, 4);
	open = find_open_one(&opens, BY_THREAD);
	assert_int_equal(open->owner, tid_of(0));
	assert_int_equal(open->record->hit.site, START);
	assert_false(open->is_call);
	assert_true(open->ns > (uint64_t)0 && open->ns == open->record->ns);
	open = find_open_one(&opens, BY_KEY);
	assert_int_equal(open->owner, getpid());
	assert_int_equal(open->value, 2 * 7 + 1);
	assert_int_equal(open->record->hit.tid, tid_of(1));
	open = find_open_one(&opens, CALLS);
	assert_true(open->is_call);
	assert_int_equal(open->owner, tid_of(0));
	assert_int_equal(open->value, 1000);
	assert_int_equal(open->record->call.at, 1000);
	assert_int_equal(open->record->call.return_address, 201);
	open = find_open_one(&opens, FIBER_CALLS);
	assert_true(open->is_call);
	assert_int_equal(open->owner, getpid());
	assert_int_equal(open->record->call.at, 0x500000 - 0x240);
	assert_int_equal(open->record->call.return_address, 201);
	assert_int_equal(open->record->call.parent, 11);
	assert_int_equal(open->record->call.state, 12);
	engine_opens_free(&opens);
	check_sums(BY_THREAD, 2, 1, 0, 0);
	finish();
}

/* What an ended thread has begun is not open, but an orphan. A key belongs to the process. */
TEST(threads_that_have_ended_leave_orphans)
{
	struct engine_opens opens = { 0 };

	begin(16);
	put(0, START, 100, 0);
	put(0, START, 90, 0);
	put(0, N_SITES + START, 80, 0);
	put(0, KEY_START, 0, 7);
	put(0, ENTER, 1000, 0);
	put(1, START, 100, 0);
	put(N_THREADS, ENTER, 1000, 0); /* has ended before its events are read */
	read_events();
	end_thread(&threads[0]);
	assert_int_equal(event_matcher_read_open(t.matcher, &opens), 0);
	assert_int_equal(opens.n, 2);
	find_open_one(&opens, BY_KEY);
	assert_int_equal(find_open_one(&opens, BY_THREAD)->owner, tid_of(1));
	engine_opens_free(&opens);
	check_sums(BY_THREAD, 3, 0, 2, 0);
	check_sums(CALLS, 2, 0, 2, 0);
	check_sums(BY_KEY, 1, 0, 0, 0);
	finish();
}

/* ---- order, and losses ---------------------------------------------------------------------- */

/* A thread that moves from CPU to CPU writes to several rings. */
TEST(events_of_all_rings_are_in_order)
{
	begin(16);
	for (int i = 0; i < 500; i++) {
		put_at((uint32_t)i & 1, 0, START, 100, 0, t.next_ticks);
		put_at(~(uint32_t)i & 1, 0, STOP, 100, 0, t.next_ticks + STEP);
		put_at((uint32_t)i >> 1 & 1, 0, KEY_START, 0, (uint64_t)i, t.next_ticks + 2 * STEP);
		put_at((uint32_t)i >> 2 & 1, 1, KEY_STOP, 0, (uint64_t)i, t.next_ticks + 3 * STEP);
		t.next_ticks += 4 * STEP;
	}
	read_events();
	check_sums(BY_THREAD, 500, 500, 0, 0);
	check_sums(BY_KEY, 500, 500, 0, 0);
	for (size_t i = 0; i < t.n_pairs; i++) {
		check_pair(i, i % 2 ? BY_KEY : BY_THREAD, 1);
		assert_true(!i || t.pairs[i].begin_ns > t.pairs[i - 1].begin_ns);
	}
	finish();
}

/*
 * The counters of two CPUs differ a little: no time is before that of the event before. An event
 * that is later than that has its own time, and no pair takes less than no time.
 */
TEST(late_events_have_their_times)
{
	uint64_t before;

	begin(16);
	put(0, PRINT, 0, 1);
	read_events();
	put_at(1, 1, PRINT, 0, 2, t.next_ticks - STEP - 300);
	read_events();
	before = t.hits[0].ts_ns;
	assert_int_equal(t.hits[1].ts_ns, before);
	t.next_ticks += 100 * STEP;
	put(0, KEY_START, 0, 7);
	put(0, KEY_START, 0, 7);
	read_events();
	/* the stop of the first start, whose thread was interrupted before it had written it all */
	put_at(1, 1, KEY_STOP, 0, 7, t.next_ticks - 2 * STEP + 10);
	put_at(1, 1, PRINT, 0, 3, t.next_ticks - 50 * STEP);
	read_events();
	assert_true(t.hits[2].ts_ns > before);
	assert_int_equal(t.n_pairs, 1);
	check_sums(BY_KEY, 2, 1, 1, 0);
	assert_int_equal(t.pairs[0].ns, 0);
	assert_int_equal(t.hits[2].ts_ns < t.pairs[0].begin_ns, 1);
	finish();
}

static uint64_t lost(void)
{
	struct engine_reading reading = { .only_hits = true };

	event_matcher_read(t.matcher, &reading);
	return reading.losses.prints_dropped;
}

TEST(losses_are_counted)
{
	begin(16);
	put(0, START, 100, 0);
	put(0, STOP, 100, 0);
	read_events();
	assert_int_equal(lost(), 0);
	ring_at(1)->lost = 5;
	((struct rings_shared *)(t.inside.block + t.inside.header.rings_off))->without_stack = 7;
	read_events();
	assert_int_equal(lost(), 12);
	/* no such point, twice, and a point whose events mean nothing */
	assert_int_equal(t.n_warnings, 0);
	put(0, 2 * N_SITES, 0, 0);
	read_events();
	put(0, 2 * N_SITES, 0, 0);
	put(0, NOTHING, 0, 0);
	read_events();
	assert_int_equal(t.n_warnings, 1);
	assert_int_equal(lost(), 15);
	/* a position that no thread has completed */
	ring_at(0)->head++;
	read_events();
	assert_int_equal(lost(), 16);
	check_sums(BY_THREAD, 1, 1, 0, 0);
	finish();
}
