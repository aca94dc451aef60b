// SPDX-License-Identifier: MIT
#include "measured_child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the sites ------------------------------------------------------------------------------ */

enum { SITE_LENGTH = 6, FRAME_BYTES = 32, PAUSE_MS = 2 };

#define SITE "	.byte 0x90, 0x3d\n	.long 0\n"

__asm__(".pushsection .text\n"
	"test_hot:\n" SITE "	ret\n"
	"test_start:\n	mov %rsp, %rcx\n	sub %rdi, %rsp\n"
	"test_start_site:\n" SITE "	mov %rcx, %rsp\n	ret\n"
	"test_stop:\n	mov %rsp, %rcx\n	sub %rdi, %rsp\n"
	"test_stop_site:\n" SITE "	mov %rcx, %rsp\n	ret\n"
	"test_many:\n"
	"	.rept 12000\n" SITE "	.endr\n"
	"	ret\n"
	".popsection\n");

void test_hot(void);
void test_many(void);
/* Their sites are passed with a stack pointer that is BYTES lower. */
void test_start(size_t bytes);
void test_stop(size_t bytes);
extern const char test_start_site[], test_stop_site[];

volatile uint16_t hot_semaphore __attribute__((section(".probes"))) = 0;
volatile uint16_t many_semaphore __attribute__((section(".probes"))) = 0;

/* Where ADDR of this executable is in its file. */
uint64_t file_off(const volatile void *addr)
{
	unsigned long start, end, off;
	uint64_t found = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &off) == 3 &&
		    (uintptr_t)addr >= start && (uintptr_t)addr < end)
			found = (uintptr_t)addr - start + off;
	fclose(f);
	assert_int_not_equal(found, 0);
	return found;
}

struct engine_site hot_site(void)
{
	return (struct engine_site){ .nop_off = file_off((void *)test_hot),
				     .ref_ctr_off = file_off(&hot_semaphore) };
}

struct engine_site start_site(void)
{
	return (struct engine_site){ .nop_off = file_off(test_start_site) };
}

struct engine_site stop_site(void)
{
	return (struct engine_site){ .nop_off = file_off(test_stop_site) };
}

const volatile void *many_site(size_t i)
{
	return (const char *)test_many + i * SITE_LENGTH;
}

void many_sites(struct engine_site *sites)
{
	uint64_t off = file_off((void *)test_many), semaphore = file_off(&many_semaphore);

	for (size_t i = 0; i < N_MANY; i++)
		sites[i] = (struct engine_site){ .nop_off = off + i * SITE_LENGTH,
						 .ref_ctr_off = semaphore };
}

/* ---- the child that runs them --------------------------------------------------------------- */

bool await_other_threads_end(void)
{
	struct stat task;

	for (int i = 0; i < 20000; i++) {
		/* The folder itself has two links. */
		if (stat("/proc/self/task", &task) == 0 && task.st_nlink == 3)
			return true;
		sleep_ms(1);
	}
	return false;
}

/* An order for several threads; none ends before all have done it. */
struct shared_order {
	const struct order *order;
	pthread_barrier_t all_done;
};

static void *run_hot(void *arg)
{
	struct shared_order *shared = arg;

	for (unsigned int n = shared->order->times; n; n--)
		test_hot();
	pthread_barrier_wait(&shared->all_done);
	return NULL;
}

static void run_once(const char *script)
{
	size_t below = 0;

	for (const char *c = script; *c; c++) {
		if (*c == '(')
			test_start(below * FRAME_BYTES);
		else if (*c == ')')
			test_stop(below * FRAME_BYTES);
		else if (*c == '!')
			sleep_ms(PAUSE_MS);
		else
			below = (size_t)(*c - '0');
	}
}

static void *run_script(void *arg)
{
	struct shared_order *shared = arg;

	for (unsigned int n = shared->order->times; n; n--)
		run_once(shared->order->script);
	pthread_barrier_wait(&shared->all_done);
	return NULL;
}

static void run_threads(const struct order *order, void *(*run)(void *))
{
	struct shared_order shared = { .order = order };
	pthread_t threads[16];

	if (pthread_barrier_init(&shared.all_done, NULL, order->threads))
		_exit(1);
	for (unsigned int i = 0; i < order->threads; i++)
		if (pthread_create(&threads[i], NULL, run, &shared))
			_exit(1);
	for (unsigned int i = 0; i < order->threads; i++)
		pthread_join(threads[i], NULL);
	if (!await_other_threads_end())
		_exit(1);
	pthread_barrier_destroy(&shared.all_done);
}

static void obey(struct order *order)
{
	pid_t pid;

	switch (order->what) {
	case RUN_HOT:
		run_threads(order, run_hot);
		break;
	case RUN_SCRIPT:
		run_threads(order, run_script);
		break;
	case RUN_MANY:
		for (unsigned int n = order->times; n; n--)
			test_many();
		break;
	case FORK_AND_RUN_HOT:
		pid = fork();
		if (pid == 0) {
			run_threads(order, run_hot);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		break;
	case FORK_ELSEWHERE:
		if (unshare(CLONE_NEWPID))
			_exit(1);
		pid = fork();
		if (pid == 0) {
			for (unsigned int n = order->times; n; n--)
				test_hot();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		break;
	case RUN_UNTIL_KILLED:
		for (;;)
			test_hot();
	}
}

void child_start(struct child *child)
{
	struct order order;
	int orders[2], done[2];

	assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		/* A test that fails leaves nothing behind that runs for ever. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[1]);
		close(done[0]);
		while (read(orders[0], &order, sizeof(order)) == sizeof(order)) {
			obey(&order);
			if (write(done[1], "", 1) != 1)
				break;
		}
		_exit(0);
	}
	close(orders[0]);
	close(done[1]);
	child->orders = orders[1];
	child->done = done[0];
}

void child_order(struct child *child, struct order order)
{
	assert_int_equal(write(child->orders, &order, sizeof(order)), sizeof(order));
}

void child_run(struct child *child, struct order order)
{
	char c;

	child_order(child, order);
	assert_int_equal(read(child->done, &c, 1), 1);
}

void child_end(struct child *child)
{
	close(child->orders);
	close(child->done);
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

uint16_t child_peek(const struct child *child, const volatile void *addr, size_t n)
{
	uint16_t value = 0;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", child->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &value, n, (off_t)(uintptr_t)addr), n);
	close(fd);
	return value;
}

void child_await(const struct child *child, const volatile void *addr, size_t n, uint16_t value)
{
	for (int i = 0; i < 2000 && child_peek(child, addr, n) != value; i++)
		sleep_ms(10);
	assert_int_equal(child_peek(child, addr, n), value);
}

void await_hot_site(const struct child *child, int nop, int semaphore)
{
	child_await(child, (void *)test_hot, 1, (uint16_t)nop);
	child_await(child, &hot_semaphore, 2, (uint16_t)semaphore);
}

/* ---- helpers -------------------------------------------------------------------------------- */

char last_warning[1024];

static void keep_warning(void *data, enum ocp_log_level level, const char *line)
{
	(void)data;
	if (level == OCP_LOG_WARN)
		snprintf(last_warning, sizeof(last_warning), "%s", line);
}

static struct ocp_ctx *new_ctx(void)
{
	struct ocp_ctx *ctx = ocp_ctx_new();

	assert_non_null(ctx);
	last_warning[0] = '\0';
	ocp_ctx_set_log(ctx, keep_warning, NULL, OCP_LOG_WARN);
	return ctx;
}

struct ocp_ctx *ctx_or_skip(void)
{
	const struct engine_spec spec = { .max_sites = 1 };
	struct ocp_ctx *ctx = new_ctx();
	struct engine *engine;
	int err = engine_bpf.open(ctx, &spec, &engine);

	if (err == -EPERM || err == -EOPNOTSUPP) {
		print_message("skipped: %s\n", ocp_error(ctx));
		ocp_ctx_free(ctx);
		skip();
	}
	assert_int_equal(err, 0);
	engine_bpf.close(engine);
	return ctx;
}

struct engine_file engine_file_of(const pid_t *pid, const struct engine_site *sites, size_t n)
{
	return (struct engine_file){ .path = "/proc/self/exe",
				     .name = "this test",
				     .pids = pid,
				     .n_pids = 1,
				     .sites = sites,
				     .n_sites = n };
}

struct engine_spec spec_of(const struct engine_file *file)
{
	return (struct engine_spec){ .max_sites = file->n_sites,
				     .max_processes = 16,
				     .pid = file->pids[0] };
}

void await_attach(struct ocp_ctx *ctx, struct engine *engine, const struct engine_file *file)
{
	int err = engine_bpf.attach(engine, file, 1);

	for (int i = 0; err == -EINVAL && i < 1000; i++) {
		sleep_ms(10);
		err = engine_bpf.attach(engine, file, 1);
	}
	if (err)
		print_message("%s\n", ocp_error(ctx));
	assert_int_equal(err, 0);
}

struct engine *attached(struct ocp_ctx *ctx, const struct engine_file *file,
			const struct engine_bpf_options *options)
{
	const struct engine_spec spec = spec_of(file);
	struct engine *engine;
	int err = engine_bpf_open(ctx, &spec, options, &engine);

	if (err)
		print_message("%s\n", ocp_error(ctx));
	assert_int_equal(err, 0);
	await_attach(ctx, engine, file);
	return engine;
}

void read_hits(struct engine *engine, uint64_t *hits)
{
	struct engine_reading reading = { .hits = hits };

	assert_int_equal(engine_bpf.read(engine, &reading), 0);
}

uint64_t read_hot(struct engine *engine)
{
	uint64_t hits;

	read_hits(engine, &hits);
	return hits;
}

void sleep_ms(unsigned int ms)
{
	usleep(ms * 1000);
}
