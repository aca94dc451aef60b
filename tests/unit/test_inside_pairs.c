// SPDX-License-Identifier: MIT
/*
 * Pairs inside a process: the trampolines against a model, and slots of threads that come and go.
 */
#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/ticks.h"
#include "inside_code.h"
#include "measure.h"
#include "unit.h"

static void hit(struct code_block *block, uint32_t site)
{
	assert_true(code_hit_checked(block->trampolines[site], 0));
}

/* All that is counted has an end, or is open. */
static void assert_balance(struct code_block *block, uint32_t pair)
{
	const struct inside_pair totals = code_pair(block, pair);

	assert_int_equal(totals.starts, totals.count + totals.orphan_starts + totals.collisions +
						code_open(block, pair));
}

/* ---- the rules of pairing ------------------------------------------------------------------- */

/* What code_pair_spec() has, and a start that a filter rejects. */
enum { REJECTED = LEAP + 1 };

/*
 * An open start of the model: its stack pointer, the ticks between which it began, and whether a
 * filter has rejected it.
 */
struct opened {
	uint64_t below, from, to;
	bool is_rejected;
};

/* The rules, in the plainest way: see struct measure_open. */
struct model {
	struct opened open[PAIRS_DEPTH];
	uint32_t n, depth;
	struct inside_pair totals;
};

static void model_start(struct model *model, struct opened start)
{
	model->totals.starts += !start.is_rejected;
	if (model->n == model->depth) {
		model->totals.orphan_starts += !model->open[0].is_rejected;
		memmove(model->open, model->open + 1, (model->n - 1) * sizeof(start));
		model->n--;
	}
	model->open[model->n++] = start;
}

/* The start that ends; NULL if there is none, or it is rejected. */
static const struct opened *model_stop(struct model *model, uint64_t below)
{
	if (!model->n) {
		model->totals.orphan_stops++;
		return NULL;
	}
	for (uint32_t i = model->n; i-- > 0;) {
		if (model->open[i].below != below)
			continue;
		for (uint32_t newer = i + 1; newer < model->n; newer++)
			model->totals.orphan_starts += !model->open[newer].is_rejected;
		model->n = i + 1;
		break;
	}
	if (model->open[--model->n].is_rejected)
		return NULL;
	model->totals.count++;
	return &model->open[model->n];
}

/* A stop that ended START added one time: look for what it changed. */
static void assert_one_time(const struct inside_pair *before, const struct inside_pair *after,
			    uint64_t least, uint64_t most)
{
	const uint64_t ns = after->sum_ns - before->sum_ns;

	assert_in_range(ns, least, most);
	assert_int_equal(after->max_ns, ns > before->max_ns ? ns : before->max_ns);
	assert_int_equal(after->min_ns,
			 !before->count || ns < before->min_ns ? ns : before->min_ns);
	for (uint32_t i = 0; i < PAIRS_BUCKETS; i++)
		assert_int_equal(after->buckets[i],
				 before->buckets[i] + (i == measure_bucket_of(ns)));
}

static void wait_ticks(uint64_t n)
{
	const uint64_t begin = ticks_now();

	while (ticks_now() - begin < n)
		;
}

static void add_rejected_start(struct code_spec *spec)
{
	spec->n_sites = REJECTED + 1;
	spec->roles[REJECTED][0] = spec->roles[ENTER][0];
	spec->n_roles[REJECTED] = 1;
	spec->filters[REJECTED] = &code_rejects_all;
}

/* How far above rsp the frames are, if the sites are windows; NULL: they are not. */
static const uint64_t *frames;

static bool hit_below(struct code_block *block, uint32_t site, uint64_t below)
{
	return frames ? code_hit_window(block->trampolines[site], below + frames[site])
		      : code_hit_checked(block->trampolines[site], below);
}

/* One random event: of 100, PERCENT are stops. */
static void step(struct code_block *block, struct model *model, int percent)
{
	const uint64_t below = (uint64_t)(rand() % 5) * 16;
	const struct inside_pair before = code_pair(block, 0);
	const bool is_stop = rand() % 100 < percent, is_rejected = rand() % 3 == 0;
	const uint64_t from = ticks_now();
	const struct opened *start;
	struct inside_pair after;
	uint64_t to;

	assert_true(hit_below(block, is_stop ? EXIT : is_rejected ? REJECTED : ENTER, below));
	to = ticks_now();
	after = code_pair(block, 0);
	if (!is_stop) {
		model_start(model, (struct opened){ .below = below,
						    .from = from,
						    .to = to,
						    .is_rejected = is_rejected });
	} else {
		start = model_stop(model, below);
		if (!start)
			assert_int_equal(after.sum_ns, before.sum_ns);
		else
			assert_one_time(&before, &after, from - start->to, to - start->from);
	}
	assert_int_equal(after.starts, model->totals.starts);
	assert_int_equal(after.count, model->totals.count);
	assert_int_equal(after.orphan_starts, model->totals.orphan_starts);
	assert_int_equal(after.orphan_stops, model->totals.orphan_stops);
	assert_int_equal(code_open(block, 0), model->n);
	wait_ticks(300);
}

/* Make the sites of SPEC windows of functions, with different frames. */
static void make_windows(struct code_spec *spec)
{
	for (uint32_t i = 0; frames && i < spec->n_sites; i++) {
		spec->is_window[i] = true;
		for (size_t r = 0; r < spec->n_roles[i]; r++) {
			spec->roles[i][r].is_framed = true;
			spec->roles[i][r].key =
				(struct inside_place){ INSIDE_FRAME, (int64_t)frames[i] };
		}
	}
}

static void check_model(void)
{
	srand(18);
	for (uint32_t depth = 1; depth <= PAIRS_DEPTH; depth++) {
		struct code_spec spec = code_pair_spec(16, depth);
		struct code_block *block;
		struct model model = { .depth = depth };

		add_rejected_start(&spec);
		make_windows(&spec);
		block = code_block_new(&spec);
		/* Phases that fill the list, and that empty it. */
		for (int i = 0; i < 400; i++)
			step(block, &model, i % 100 > 40 ? 50 : 12);
		assert_true(model.totals.count > 30 && model.totals.orphan_stops > 5);
		assert_int_equal(code_pair(block, 0).collisions, 0);
		assert_int_equal(code_pair(block, 1).starts, 0);
		while (model.n)
			step(block, &model, 100);
		assert_balance(block, 0);
		assert_int_equal(code_pair(block, 0).orphan_starts, model.totals.orphan_starts);
		code_block_free(block);
	}
}

TEST(pairs_follow_the_model)
{
	frames = NULL;
	check_model();
}

/* The windows of functions are behind pushes: their frames match, not their stack pointers. */
TEST(pairs_of_functions_follow_the_model)
{
	static const uint64_t of_sites[CODE_MAX_SITES] = { 8, 48, 0, 16, 32 };

	frames = of_sites;
	check_model();
	frames = NULL;
}

/* The place of the next start is counted in 16 bits. */
TEST(the_ring_turns_for_ever)
{
	struct code_spec spec = code_pair_spec(16, 3);
	struct code_block *block = code_block_new(&spec);

	for (int i = 0; i < 70000; i++)
		code_hit(block->trampolines[ENTER]);
	for (int i = 0; i < 4; i++)
		code_hit(block->trampolines[EXIT]);
	assert_int_equal(code_pair(block, 0).starts, 70000);
	assert_int_equal(code_pair(block, 0).count, 3);
	assert_int_equal(code_pair(block, 0).orphan_starts, 70000 - 3);
	assert_int_equal(code_pair(block, 0).orphan_stops, 1);
	code_block_free(block);
}

TEST(roles_are_played_in_order)
{
	struct code_spec spec = code_pair_spec(16, 8);
	struct code_block *block = code_block_new(&spec);

	for (int i = 0; i < 10; i++)
		hit(block, LEAP);
	hit(block, OTHER_ENTER);
	assert_int_equal(code_pair(block, 0).starts, 10);
	assert_int_equal(code_pair(block, 0).count, 9);
	assert_int_equal(code_pair(block, 0).orphan_stops, 1);
	assert_int_equal(code_pair(block, 1).starts, 1);
	assert_int_equal(code_hits(block, LEAP), 10);
	code_block_free(block);
}

/* ---- times ---------------------------------------------------------------------------------- */

/*
 * Multiplications that wait for each other: pair_work_alone(0, 0, N) does them N times,
 * pair_work(START, STOP, N) between two sites.
 */
#define WORK "	.rept 24\n	imul %rax, %rax\n	.endr\n"
__asm__(".pushsection .text\n"
	".type pair_work, @function\n"
	"pair_work:\n"
	"	push	%rbx\n"
	"	mov	%rdx, %rbx\n"
	"1:	call	*%rdi\n" WORK "	call	*%rsi\n"
	"	dec	%rbx\n"
	"	jnz	1b\n"
	"	pop	%rbx\n"
	"	ret\n"
	".type pair_work_alone, @function\n"
	"pair_work_alone:\n"
	"1:\n" WORK "	dec	%rdx\n"
	"	jnz	1b\n"
	"	ret\n"
	".popsection\n");
void pair_work(uint64_t start, uint64_t stop, uint64_t n);
void pair_work_alone(uint64_t start, uint64_t stop, uint64_t n);

typedef void pair_function(uint64_t start, uint64_t stop, uint64_t n);

enum { BATCHES = 50, N_A_BATCH = 1000 };

/* The ticks of a call of RUN that does something once, in the fastest of several batches. */
static double least_ticks(pair_function *run)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < BATCHES; i++) {
		const uint64_t begin = ticks_now();
		uint64_t ticks;

		run(0, 0, N_A_BATCH);
		ticks = ticks_now() - begin;
		least = ticks < least ? ticks : least;
	}
	return (double)least / N_A_BATCH;
}

/*
 * The processor works ahead: what stands between the sites must not be done before or behind the
 * pair.
 */
TEST(a_pair_contains_the_work_between_its_sites)
{
	enum { N = BATCHES * N_A_BATCH };
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);
	const double least = least_ticks(pair_work_alone);
	struct inside_pair totals;

	pair_work(block->trampolines[ENTER], block->trampolines[EXIT], N);
	totals = code_pair(block, 0);
	assert_int_equal(totals.count, N);
	/*
	 * Also the shortest one. The processor may have been a little faster than in the fastest
	 * batch.
	 */
	assert_true((double)totals.min_ns >= 0.9 * least);
	code_block_free(block);
}

/* pair_after_work(START, STOP, N): N times, a longer chain of multiplications before both sites. */
#define MUCH_WORK "	.rept 96\n	imul %rax, %rax\n	.endr\n"
__asm__(".macro pair_behind name, work:vararg\n"
	".type \\name, @function\n"
	"\\name:\n"
	"	push	%rbx\n"
	"	mov	%rdx, %rbx\n"
	"1:	\\work\n"
	"	call	*%rdi\n"
	"	call	*%rsi\n"
	"	dec	%rbx\n"
	"	jnz	1b\n"
	"	pop	%rbx\n"
	"	ret\n"
	".endm\n"
	".pushsection .text\n"
	".macro much_work\n" MUCH_WORK ".endm\n"
	"	pair_behind pair_after_work much_work\n"
	"	pair_behind pair_alone\n"
	".type much_work_alone, @function\n"
	"much_work_alone:\n"
	"1:	much_work\n"
	"	dec	%rdx\n"
	"	jnz	1b\n"
	"	ret\n"
	".popsection\n");
void pair_after_work(uint64_t start, uint64_t stop, uint64_t n);
/* ... and nothing before them */
void pair_alone(uint64_t start, uint64_t stop, uint64_t n);
void much_work_alone(uint64_t start, uint64_t stop, uint64_t n);

/* The mean time of the pairs of RUN, in ticks, without the longest tenth. */
static double usual_ticks(pair_function *run)
{
	enum { N = BATCHES * N_A_BATCH, N_USUAL = N - N / 10 };
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);
	struct inside_pair totals;
	uint64_t n = 0, twice_the_sum = 0;

	run(block->trampolines[ENTER], block->trampolines[EXIT], N);
	totals = code_pair(block, 0);
	assert_int_equal(totals.count, N);
	for (uint32_t i = 0; n < N_USUAL; i++) {
		const uint64_t more =
			totals.buckets[i] < N_USUAL - n ? totals.buckets[i] : N_USUAL - n;

		twice_the_sum += more * (measure_bucket_start(i) + measure_bucket_start(i + 1) - 1);
		n += more;
	}
	code_block_free(block);
	return (double)twice_the_sum / 2 / (double)n;
}

/*
 * Return the ticks by which pairs of RUN take longer than those of pair_alone(), as a share of the
 * ticks of WORK alone.
 */
static double share_of_work(pair_function *run, pair_function *work)
{
	const double alone = usual_ticks(pair_alone);

	return (usual_ticks(run) - alone) / least_ticks(work);
}

/* What else the processor does can disturb a try. Without the fences, every try fails. */
enum { TRIES = 10 };

/* The longer the work is, the longer is the pair. */
TEST(a_pair_contains_all_the_work_between_its_sites)
{
	double share = 0;

	for (int i = 0; i < TRIES && share < 0.6; i++)
		share = share_of_work(pair_work, pair_work_alone);
	if (share < 0.6)
		fail_msg("only %.2f of the work", share);
}

/* What the processor has still to do when a pair begins is not part of the pair. */
TEST(a_pair_does_not_contain_the_work_before_it)
{
	double share = 1;

	for (int i = 0; i < TRIES && share > 0.3; i++)
		share = share_of_work(pair_after_work, much_work_alone);
	if (share > 0.3)
		fail_msg("%.2f of the work", share);
}

/*
 * Let the newest start have begun TICKS ago, and stop it. Returns what the test itself took, in
 * ticks.
 */
static uint64_t stop_after(struct code_block *block, uint64_t ticks)
{
	struct pairs_slot *slot;
	uint64_t now;

	hit(block, ENTER);
	slot = code_own_slot(block, 0, (uint32_t)gettid());
	assert_non_null(slot);
	now = ticks_now();
	slot->ring[(slot->next - 1) % PAIRS_DEPTH].ticks = now - ticks;
	hit(block, EXIT);
	return ticks_now() - now;
}

/* A time of NS, and at most 1/256 more. Below 256, it is exact. */
static void time_ns(struct code_block *block, uint64_t ns)
{
	const uint64_t second = UINT64_C(1) << 32;
	struct block_header *header = (struct block_header *)block->block;
	struct inside_pair before, after;
	uint64_t took;

	header->ns_per_tick = ns; /* thus 2^32 ticks are NS */
	do {
		before = code_pair(block, 0);
		took = stop_after(block, second);
		after = code_pair(block, 0);
		assert_one_time(&before, &after, ns,
				(uint64_t)(((unsigned __int128)second + took) * ns >> 32));
	} while (took >= second / 256); /* the test was interrupted */
	assert_int_equal(after.buckets[measure_bucket_of(ns)],
			 before.buckets[measure_bucket_of(ns)] + 1);
}

TEST(each_bucket_gets_its_times)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);

	for (uint32_t bucket = 0; bucket < PAIRS_BUCKETS; bucket++)
		time_ns(block, measure_bucket_start(bucket));
	/* The last values of a bucket belong to it, too. */
	for (uint32_t bucket = 0; bucket < PAIRS_BUCKETS; bucket++) {
		const uint64_t last = measure_bucket_start(bucket + 1) - 1;

		time_ns(block, last < 256 ? last : last - last / 128);
	}
	for (uint32_t bucket = 0; bucket < PAIRS_BUCKETS; bucket++)
		assert_true(code_pair(block, 0).buckets[bucket] >= 2);
	code_block_free(block);
}

TEST(times_below_0_are_0)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);

	stop_after(block, (uint64_t)-INT64_C(1000000000000)); /* a start that is to come */
	assert_int_equal(code_pair(block, 0).count, 1);
	assert_int_equal(code_pair(block, 0).sum_ns, 0);
	assert_int_equal(code_pair(block, 0).min_ns, 0);
	assert_int_equal(code_pair(block, 0).buckets[0], 1);
	code_block_free(block);
}

/* The kernel's clock is the oracle. */
TEST(ticks_are_nanoseconds)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block;
	uint64_t factor = 0;

	assert_int_equal(ticks_ns_per_tick(ctx, &factor), 0);
	spec.ns_per_tick = factor;
	block = code_block_new(&spec);
	for (int i = 0; i < 5; i++) {
		const uint64_t sum = code_pair(block, 0).sum_ns;
		const int64_t before = clock_ns(CLOCK_MONOTONIC);
		int64_t started, stopping, after;
		uint64_t ns;

		hit(block, ENTER);
		started = clock_ns(CLOCK_MONOTONIC);
		usleep(20000);
		stopping = clock_ns(CLOCK_MONOTONIC);
		hit(block, EXIT);
		after = clock_ns(CLOCK_MONOTONIC);
		ns = code_pair(block, 0).sum_ns - sum;
		/*
		 * NTP may speed up the kernel's clock by 1/2000; a microsecond is for its reading.
		 */
		assert_in_range(ns, (uint64_t)(stopping - started) * 1998 / 2000 - 1000,
				(uint64_t)(after - before) * 2002 / 2000 + 1000);
	}
	code_block_free(block);
	ocp_ctx_free(ctx);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void hit_as(struct code_block *block, int32_t tid, uint32_t site)
{
	code_fake_tid = tid;
	hit(block, site);
}

TEST(slots_are_found_and_reused)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block;

	spec.fakes_tids = true;
	block = code_block_new(&spec);
	/* All 16 slots have the home 7. They are full, and then free again. */
	for (int32_t round = 0; round < 100; round++) {
		for (int32_t i = 0; i < 16; i++)
			hit_as(block, 7 + 16 * (i + 16 * round), ENTER);
		assert_int_equal(code_open(block, 0), 16);
		for (int32_t i = 15; i >= 0; i--)
			hit_as(block, 7 + 16 * (i + 16 * round), EXIT);
		assert_int_equal(code_open(block, 0), 0);
	}
	assert_int_equal(code_pair(block, 0).count, 1600);
	assert_int_equal(code_pair(block, 0).orphan_starts + code_pair(block, 0).orphan_stops, 0);
	/* A thread without room: its start is a collision, and its stop an orphan. */
	for (int32_t i = 0; i < 16; i++)
		hit_as(block, LIVE, OTHER_ENTER); /* a pair of its own */
	code_fake_tid = LIVE;
	for (uint32_t i = 0; i < 16; i++)
		*code_slot(block, 0, i) = (struct pairs_slot){ .tid = LIVE, .n = 1, .next = 1 };
	hit_as(block, 100, ENTER);
	hit_as(block, 100, EXIT);
	assert_int_equal(code_pair(block, 0).collisions, 1);
	assert_int_equal(code_pair(block, 0).starts, 1);
	assert_int_equal(code_pair(block, 0).orphan_stops, 1);
	/* A thread that has no id is never timed. */
	hit_as(block, 0, ENTER);
	hit_as(block, 0, EXIT);
	assert_int_equal(code_pair(block, 0).collisions, 2);
	assert_int_equal(code_pair(block, 0).orphan_stops, 2);
	code_block_free(block);
}

/* Threads that ended in a span: their starts are orphans when their slot is needed. */
static void slots_of_the_dead(bool may_call)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block;
	struct inside_pair totals;

	spec.fakes_tids = true;
	spec.may_call_kernel = may_call;
	block = code_block_new(&spec);
	for (int32_t i = 0; i < 16; i++) {
		hit_as(block, i == 3 ? LIVE : GONE + i, ENTER);
		hit_as(block, i == 3 ? LIVE : GONE + i, ENTER);
	}
	hit_as(block, GONE + 100, ENTER);
	hit_as(block, GONE + 100, EXIT);
	hit_as(block, LIVE, EXIT);
	totals = code_pair(block, 0);
	assert_int_equal(totals.starts, 33);
	assert_int_equal(totals.collisions, !may_call);
	assert_int_equal(totals.orphan_stops, !may_call);
	assert_int_equal(totals.orphan_starts, may_call ? 2 : 0);
	assert_int_equal(totals.count, may_call ? 2 : 1);
	assert_balance(block, 0);
	code_block_free(block);
}

TEST(the_kernel_says_who_has_ended)
{
	slots_of_the_dead(true);
	slots_of_the_dead(false);
}

static struct code_block *stepped_block;
static int n_steps, freed_at;

/* After the instruction freed_at of a trampoline: slot 5 becomes free, and its thread ends. */
static void free_slot_in_between(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!code_is_at(stepped_block, context) || n_steps++ != freed_at)
		return;
	code_slot(stepped_block, 0, 5)->tid = GONE;
	code_slot(stepped_block, 0, 5)->n = 0;
}

/* A start finds no free slot, and looks for threads that have ended; then a slot becomes free. */
TEST(slots_that_become_free_have_no_orphans)
{
	struct sigaction action = { .sa_sigaction = free_slot_in_between, .sa_flags = SA_SIGINFO };
	struct code_spec spec = code_pair_spec(16, 4);
	struct inside_pair totals;
	struct sigaction old;
	int n_taken = 0;

	spec.fakes_tids = true;
	spec.may_call_kernel = true;
	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	for (freed_at = 0; n_steps >= freed_at; freed_at += 7) {
		stepped_block = code_block_new(&spec);
		for (uint32_t i = 0; i < 16; i++) {
			struct pairs_slot *slot = code_slot(stepped_block, 0, i);

			hit_as(stepped_block, GONE + (int32_t)i, ENTER); /* takes a slot */
			*slot = (struct pairs_slot){ .tid = LIVE, .n = 1, .next = 6 };
			for (int j = 0; j < 6; j++)
				slot->ring[j] = (struct pairs_start){ .ticks = 1000, .sp = 1 };
		}
		code_fake_tid = 100;
		n_steps = 0;
		code_hit_stepped(stepped_block->trampolines[ENTER]);
		totals = code_pair(stepped_block, 0);
		assert_int_equal(totals.starts, 1);
		assert_int_equal(totals.orphan_starts, 0);
		n_taken += totals.collisions == 0;
		code_block_free(stepped_block);
	}
	assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
	assert_true(n_taken > 20 && n_taken < freed_at / 7);
}

static uint64_t collisions_of(struct code_block *block, uint32_t pair)
{
	const char *area = block->block + pairs_area_off(&block->header, pair);

	return ((const struct pairs_shared *)area)->collisions;
}

/* Hundreds of threads in 64 slots, in any order, with a model of each. */
TEST(many_threads_keep_their_books)
{
	enum { N = 300 };
	static uint32_t open[N];
	struct code_spec spec = code_pair_spec(64, 4);
	uint64_t starts = 0, count = 0, collisions = 0;
	struct code_block *block;
	struct inside_pair totals;

	srand(5);
	memset(open, 0, sizeof(open));
	spec.fakes_tids = true;
	spec.may_call_kernel = false;
	block = code_block_new(&spec);
	for (int i = 0; i < 20000; i++) {
		const int who = rand() % N;
		const bool is_start = !open[who] || (open[who] < 4 && rand() % 2);
		const uint64_t before = collisions_of(block, 0);

		hit_as(block, 1000 + who * 7, is_start ? ENTER : EXIT);
		starts += is_start;
		if (!is_start) {
			open[who]--;
			count++;
		} else if (collisions_of(block, 0) == before) {
			open[who]++;
		} else {
			collisions++;
		}
		/* Not too many at once. */
		for (int j = 0; code_open(block, 0) > 56 && j < N; j++)
			for (; open[j]; open[j]--, count++)
				hit_as(block, 1000 + j * 7, EXIT);
	}
	totals = code_pair(block, 0);
	assert_int_equal(totals.starts, starts);
	assert_int_equal(totals.count, count);
	assert_int_equal(totals.collisions, collisions);
	assert_true(collisions < starts / 10);
	assert_int_equal(totals.orphan_starts + totals.orphan_stops, 0);
	assert_balance(block, 0);
	code_block_free(block);
}

struct short_life {
	struct code_block *block;
	bool ends_in_span;
	pid_t tid;
};

static void *live_shortly(void *arg)
{
	struct short_life *life = arg;

	life->tid = gettid();
	for (int i = 0; i < 20; i++) {
		code_hit(life->block->trampolines[ENTER]);
		code_hit(life->block->trampolines[ENTER]);
		code_hit(life->block->trampolines[EXIT]);
		code_hit(life->block->trampolines[EXIT]);
	}
	if (life->ends_in_span)
		code_hit(life->block->trampolines[ENTER]);
	return NULL;
}

/* Genuine threads, two thousand of them in 16 slots. A third end in a span. */
TEST(short_lived_threads_find_room)
{
	enum { ROUNDS = 500, AT_ONCE = 4 };
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);
	uint64_t starts = 0, count = 0;
	struct inside_pair totals;

	for (int round = 0; round < ROUNDS; round++) {
		struct short_life lives[AT_ONCE];
		pthread_t threads[AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++) {
			lives[i] = (struct short_life){ block, (round + i) % 3 == 0, 0 };
			assert_int_equal(pthread_create(&threads[i], NULL, live_shortly, &lives[i]),
					 0);
			starts += 40 + lives[i].ends_in_span;
			count += 40;
		}
		for (int i = 0; i < AT_ONCE; i++) {
			pthread_join(threads[i], NULL);
			/* The kernel knows it for a moment after the join. */
			while (syscall(SYS_tkill, lives[i].tid, 0) == 0)
				usleep(50);
		}
	}
	totals = code_pair(block, 0);
	assert_int_equal(totals.starts, starts);
	assert_int_equal(totals.count, count);
	assert_int_equal(totals.collisions, 0);
	assert_int_equal(totals.orphan_stops, 0);
	assert_true(totals.orphan_starts > 600);
	assert_balance(block, 0);
	code_block_free(block);
}

static void *run_pairs(void *arg)
{
	struct code_block *block = arg;

	for (int i = 0; i < 20000; i++) {
		code_hit(block->trampolines[ENTER]);
		if (i % 4 == 0)
			code_hit(block->trampolines[ENTER]);
		code_hit(block->trampolines[EXIT]);
		if (i % 4 == 0)
			code_hit(block->trampolines[EXIT]);
	}
	return NULL;
}

/* 8 threads have room. 40 threads in 16 slots take them from each other between spans. */
static void threads_in_slots(uint32_t n_threads, uint32_t n)
{
	struct code_spec spec = code_pair_spec(n_threads, 4);
	struct code_block *block = code_block_new(&spec);
	struct inside_pair totals;
	pthread_t threads[64];

	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_pairs, block), 0);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	totals = code_pair(block, 0);
	assert_int_equal(totals.starts, (uint64_t)n * 25000);
	assert_int_equal(totals.count + totals.collisions, (uint64_t)n * 25000);
	assert_int_equal(totals.orphan_starts, 0);
	assert_int_equal(totals.orphan_stops, totals.collisions);
	assert_int_equal(code_open(block, 0), 0);
	if (n <= n_threads)
		assert_int_equal(totals.collisions, 0);
	code_block_free(block);
}

TEST(threads_time_exactly)
{
	threads_in_slots(16, 8);
	threads_in_slots(16, 40);
}

/* A child of a fork in a span is another thread: its stop is an orphan, and the parent's is not. */
TEST(children_stop_nothing_of_their_parent)
{
	struct code_spec spec = code_pair_spec(16, 4);
	struct code_block *block = code_block_new(&spec);
	pid_t pid;
	int status;

	hit(block, ENTER);
	pid = fork();
	assert_true(pid >= 0);
	hit(block, EXIT);
	for (int i = 0; i < 10; i++) {
		hit(block, ENTER);
		hit(block, EXIT);
	}
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	assert_int_equal(code_pair(block, 0).starts, 21);
	assert_int_equal(code_pair(block, 0).count, 21);
	assert_int_equal(code_pair(block, 0).orphan_stops, 1);
	assert_balance(block, 0);
	code_block_free(block);
}

TEST(slots_are_for_all_threads)
{
	assert_int_equal(pairs_n_slots(0), 16);
	assert_int_equal(pairs_n_slots(8), 16);
	assert_int_equal(pairs_n_slots(9), 32);
	assert_int_equal(pairs_n_slots(512), 1024);
	assert_int_equal(pairs_n_slots(SIZE_MAX), PAIRS_MAX_THREADS);
	assert_int_equal(sizeof(((struct inside_pair *)0)->buckets), 8 * MEASURE_BUCKETS);
	assert_int_equal(PAIRS_BUCKETS, MEASURE_BUCKETS);
	assert_int_equal(PAIRS_DEPTH, MEASURE_DEPTH);
}
