// SPDX-License-Identifier: MIT
/* Writing into a process (this one): everything, in the order of phases, or nothing. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "proc_self.h"
#include "change/stop/patch.h"
#include "unit.h"

enum { N = 600, PAGE = 4096 }; /* enough for two threads */
enum { A_CALL = 512 };	       /* semaphores go into one call */

static const uint64_t nowhere = 8; /* nothing is mapped there */

struct memory_of_sites {
	uint8_t sites_on[N], sites_off[N];
	uint16_t semaphores[N];
};

static struct memory_of_sites *memory;

static int set_up(void **state)
{
	(void)state;
	memory = calloc(1, sizeof(*memory));
	return memory == NULL;
}

static int tear_down(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

EACH_TEST(set_up, tear_down);

static struct patch_write write_to(const void *at, uint8_t bytes, enum patch_phase phase)
{
	return (struct patch_write){
		.addr = (uint64_t)(uintptr_t)at, .bytes = bytes, .phase = phase, .new = 1
	};
}

/* N writes of each phase, mixed as a plan has them. */
static size_t all_writes(struct patch_write *writes)
{
	size_t n = 0;

	for (size_t i = 0; i < N; i++) {
		writes[n++] = write_to(&memory->sites_off[i], 1, PATCH_SITES_OFF);
		writes[n++] = write_to(&memory->semaphores[i], 2, PATCH_SEMAPHORES);
		writes[n++] = write_to(&memory->sites_on[i], 1, PATCH_SITES_ON);
	}
	return n;
}

/* How many of them have been written. */
static size_t count_written(void)
{
	size_t n = 0;

	for (size_t i = 0; i < N; i++)
		n += memory->sites_on[i] + memory->sites_off[i] + memory->semaphores[i];
	return n;
}

TEST(all_is_written)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[3 * N];
	const size_t n = all_writes(writes);

	assert_int_equal(patch_apply(ctx, getpid(), writes, n), 0);
	assert_int_equal(count_written(), n);
	ocp_ctx_free(ctx);
}

static void check_failure(struct ocp_ctx *ctx, struct patch_write *writes, size_t n, size_t i)
{
	const uint64_t addr = writes[i].addr;

	writes[i].addr = nowhere;
	assert_int_equal(patch_apply(ctx, getpid(), writes, n), -EIO);
	assert_string_equal(strstr(ocp_error(ctx), "0x8: "),
			    "0x8: Input/output error; nothing was changed");
	if (count_written())
		fail_msg("write %zu of %zu failed, %zu are there", i, n, count_written());
	writes[i].addr = addr;
}

/*
 * Each write in its turn is the one that fails, of as many as two threads take. Of more than go
 * into one call some of each phase do, with those around the end of the first thread's half and of
 * the first call, and the last ones.
 */
TEST(whatever_fails_nothing_is_written)
{
	enum { FEW = 300, STEP = 43, AROUND = 6 };
	const size_t ends[] = { 3 * N / 2, (size_t)3 * A_CALL, 3 * N - AROUND };
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[3 * N];
	const size_t n = all_writes(writes);

	for (size_t i = 0; i < FEW; i++)
		check_failure(ctx, writes, FEW, i);
	for (size_t i = 0; i < n; i += STEP)
		check_failure(ctx, writes, n, i);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		for (size_t j = ends[i] - AROUND; j < ends[i] + AROUND; j++)
			check_failure(ctx, writes, n, j);
	ocp_ctx_free(ctx);
}

/*
 * Where process_vm_writev may not write, as in memory that was made read-only, /proc/PID/mem may.
 */
TEST(semaphores_that_are_read_only)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[8];
	uint16_t *page = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	for (size_t first = 0; first < 2; first++) {
		/* The first is read-only; and then one amid the others. */
		for (size_t i = 0; i < 8; i++)
			writes[i] = write_to(i == first * 4 ? page + first : &memory->semaphores[i],
					     2, PATCH_SEMAPHORES);
		memset(memory, 0, sizeof(*memory));
		assert_int_equal(patch_apply(ctx, getpid(), writes, 8), 0);
		assert_int_equal(page[first], 1);
		assert_int_equal(count_written(), 7);
	}
	munmap(page, 2 * PAGE);
	ocp_ctx_free(ctx);
}

/* ---- two threads ---------------------------------------------------------------------------- */

/* How many bytes a thread other than the first has written. */
static atomic_size_t n_written_by_others;

WRAP(ssize_t, pwrite64, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
{
	if (gettid() != getpid())
		n_written_by_others += n;
	return __real_pwrite64(fd, from, n, at);
}

/* Of each phase of opcodes, not the first one alone. */
TEST(the_second_thread_writes_its_half)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[3 * N];
	const size_t n = all_writes(writes);

	n_written_by_others = 0;
	assert_int_equal(patch_apply(ctx, getpid(), writes, n), 0);
	assert_int_equal(n_written_by_others, N / 2 + N / 2);
	ocp_ctx_free(ctx);
}

TEST(the_second_thread_ends_with_its_patcher)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patch_write writes[3 * N];
	const size_t n = all_writes(writes);
	const int before = count_threads();
	struct patcher *patcher;

	assert_int_equal(patcher_open(ctx, getpid(), &patcher), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(patcher_apply(patcher, writes, n), 0);
	await_threads(before + 1);
	patcher_close(patcher);
	await_threads(before);
	ocp_ctx_free(ctx);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

/*
 * At the end only the second thread has something to write: the first one waits for it, and signals
 * come meanwhile, which is not the end of it.
 */
TEST(signals_while_the_second_thread_writes)
{
	enum { MANY = 20000 };
	const struct sigaction action = { .sa_handler = count_alarm };
	const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	struct patch_write *writes = calloc(2 * MANY, sizeof(*writes));
	uint8_t *sites = calloc(MANY, 1);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct patcher *patcher;

	assert_true(writes && sites);
	for (size_t i = 0; i < MANY; i++)
		writes[i] = write_to(&memory->sites_on[0], 1, PATCH_SITES_ON);
	for (size_t i = 0; i < MANY; i++)
		writes[MANY + i] = write_to(&sites[i], 1, PATCH_SITES_OFF);
	assert_int_equal(patcher_open(ctx, getpid(), &patcher), 0);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (alarms = 0; alarms < 100;) {
		memset(sites, 0, MANY);
		assert_int_equal(patcher_apply(patcher, writes, (size_t)2 * MANY), 0);
		if (memchr(sites, 0, MANY))
			fail_msg("it did not wait for the second thread");
	}
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	patcher_close(patcher);
	ocp_ctx_free(ctx);
	free(writes);
	free(sites);
}
