// SPDX-License-Identifier: MIT
/*
 * Windows of a running process: a thread that a signal has interrupted in the middle of a window is
 * waited for. The window is this file's own code, in a child.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "change/inside/inside.h"
#include "change/inside/own_cost.h"
#include "look/memory.h"
#include "unit.h"

/* The processor refuses `cli`: the signal comes there, behind the first instruction. */
asm("	.text\n"
    "	.balign	64\n"
    "windowed:\n"
    "	xor	%eax, %eax\n"
    "windowed_window:\n"
    "	nopl	(%rax)\n"
    "	cli\n"
    "	nopl	(%rax)\n"
    "windowed_end:\n"
    "	ret\n");

void windowed(void);
extern const uint8_t windowed_window[], windowed_end[];

enum { CLI = 0xfa, WINDOW_BYTES = 7, CALL = 'c', IN_HANDLER = 'h', GO_ON = 'g', DONE = 'd' };

struct child {
	pid_t pid;
	int to, from;
	struct ocp_ctx *ctx;
	struct memory *memory;
	uint8_t window[WINDOW_BYTES]; /* as in the file */
	struct inside_site site;
};

static int ends[2]; /* of the child: what it reads, what it writes */

static void send_byte(int fd, char byte)
{
	if (write(fd, &byte, 1) != 1)
		_exit(1);
}

static char receive(int fd)
{
	char byte = 0;

	return read(fd, &byte, 1) == 1 ? byte : 0;
}

static void skip_cli(int number, siginfo_t *info, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (*(const uint8_t *)*rip != CLI)
		_exit(2);
	send_byte(ends[1], IN_HANDLER);
	if (receive(ends[0]) != GO_ON)
		_exit(3);
	++*rip;
}

static void run_child(void)
{
	const struct sigaction action = { .sa_sigaction = skip_cli, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	while (receive(ends[0]) == CALL) {
		windowed();
		send_byte(ends[1], DONE);
	}
	_exit(0);
}

enum { STACK_BYTES = 64 << 10, PAGE_BYTES = 4096, GUARD_INSTALL = 102 };

static void *run_on_stack(void *unused)
{
	(void)unused;
	run_child();
	return NULL;
}

/*
 * Run the child on a stack whose mapping goes on behind a guard page that /proc/PID/maps does not
 * show, as the C library makes stacks since 2.42, with Linux 6.13 or newer (MADV_GUARD_INSTALL).
 */
static void run_below_guard(void)
{
	uint8_t *stack = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	if (stack == MAP_FAILED ||
	    (madvise(stack + STACK_BYTES, PAGE_BYTES, GUARD_INSTALL) != 0 && errno != EINVAL) ||
	    pthread_attr_init(&attributes) != 0 ||
	    pthread_attr_setstack(&attributes, stack, STACK_BYTES) != 0 ||
	    pthread_create(&thread, &attributes, run_on_stack, NULL) != 0)
		_exit(4);
	pthread_join(thread, NULL);
	_exit(5);
}

static void start_child(struct child *child, void (*run)(void))
{
	int to[2], from[2];

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	*child = (struct child){ .to = to[1], .from = from[0], .ctx = ocp_ctx_new() };
	assert_int_equal(windowed_end - windowed_window, WINDOW_BYTES);
	memcpy(child->window, windowed_window, WINDOW_BYTES);
	child->site = (struct inside_site){ .addr = (uintptr_t)windowed_window,
					    .window = child->window,
					    .n_window = WINDOW_BYTES };
	child->pid = fork();
	assert_true(child->pid >= 0);
	ends[0] = to[0];
	ends[1] = from[1];
	if (!child->pid) {
		close(to[1]);
		run();
	}
	close(to[0]);
	close(from[1]);
	assert_int_equal(memory_open(child->ctx, child->pid, &child->memory), 0);
}

static void end_child(struct child *child)
{
	int status;

	close(child->to);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_int_equal(status, 0);
	close(child->from);
	memory_close(child->memory);
	ocp_ctx_free(child->ctx);
}

static void call_until_handler(const struct child *child)
{
	send_byte(child->to, CALL);
	assert_int_equal(receive(child->from), IN_HANDLER);
}

static void let_go_on(const struct child *child)
{
	send_byte(child->to, GO_ON);
	assert_int_equal(receive(child->from), DONE);
}

static bool is_original(const struct child *child)
{
	uint8_t now[WINDOW_BYTES];

	assert_true(memory_try_read(child->memory, child->site.addr, now, sizeof(now)));
	return memcmp(now, child->window, sizeof(now)) == 0;
}

/* A call is counted, whose signal comes in the copy of the window; then the window is restored. */
static void check_counting(const struct child *child)
{
	const struct inside_spec spec = { .sites = &child->site, .n_sites = 1 };
	struct inside *inside = NULL;
	uint64_t hits = 0;

	if (inside_attach(child->ctx, child->pid, &spec, &inside) != 0)
		fail_msg("attach: %s", ocp_error(child->ctx));
	assert_false(is_original(child));
	call_until_handler(child);
	let_go_on(child);
	assert_int_equal(inside_read(inside, &hits, NULL), 0);
	assert_int_equal(hits, 1);
	assert_int_equal(inside_detach(inside), 0);
	inside_close(inside);
	assert_true(is_original(child));
}

TEST(a_thread_that_returns_into_a_window_is_waited_for)
{
	struct inside *inside = NULL;
	struct child child;

	start_child(&child, run_child);
	const struct inside_spec spec = { .sites = &child.site, .n_sites = 1 };

	call_until_handler(&child);
	assert_int_equal(inside_attach(child.ctx, child.pid, &spec, &inside), -EAGAIN);
	assert_true(is_original(&child));
	let_go_on(&child);
	check_counting(&child);
	call_until_handler(&child);
	let_go_on(&child);
	end_child(&child);
}

TEST(a_stack_may_end_with_a_guard_page)
{
	struct child child;

	start_child(&child, run_below_guard);
	/* The thread runs on its stack. */
	call_until_handler(&child);
	let_go_on(&child);
	check_counting(&child);
	end_child(&child);
}

TEST(a_window_that_differs_from_its_file_is_left_alone)
{
	struct inside *inside = NULL;
	struct child child;

	start_child(&child, run_child);
	const struct inside_spec spec = { .sites = &child.site, .n_sites = 1 };

	child.window[WINDOW_BYTES - 1] ^= 1;
	assert_int_equal(inside_attach(child.ctx, child.pid, &spec, &inside), -EBUSY);
	child.window[WINDOW_BYTES - 1] ^= 1;
	assert_true(is_original(&child));
	end_child(&child);
}

/* ---- C code ---------------------------------------------------------------------------------- */

/*
 * Code as in the runtime, with a window at a call and another one right before it. r11 and all
 * registers for arguments keep their values, and the callee finds its return address. Returns 0 if
 * so, else the number of the first check that fails.
 */
asm("	.text\n"
    "	.balign	64\n"
    "reporting:\n"
    "	push	%rbx\n"
    "	mov	$1, %eax\n"
    "	mov	$2, %ebx\n"
    "	mov	$3, %ecx\n"
    "	mov	$4, %edx\n"
    "	mov	$5, %esi\n"
    "	mov	$6, %r8d\n"
    "	mov	$7, %r9d\n"
    "	mov	$8, %r10d\n"
    "	mov	$9, %r11d\n"
    "reporting_constant:\n"
    "	mov	$10, %edi\n"
    "reporting_call:\n"
    "	call	reported\n"
    "reporting_back:\n"
    "	pop	%rbx\n"
    "	ret\n"

    ".macro check what, value, number\n"
    "	cmp	$\\value, \\what\n"
    "	mov	$\\number, %r12d\n"
    "	jne	.Lreported_wrong\n"
    ".endm\n"

    "reported:\n"
    "	push	%r12\n"
    "	check	%rax, 1, 1\n"
    "	check	%rbx, 2, 2\n"
    "	check	%rcx, 3, 3\n"
    "	check	%rdx, 4, 4\n"
    "	check	%rsi, 5, 5\n"
    "	check	%r8, 6, 6\n"
    "	check	%r9, 7, 7\n"
    "	check	%r10, 8, 8\n"
    "	check	%r11, 9, 9\n"
    "	check	%rdi, 10, 10\n"
    "	lea	reporting_back(%rip), %rax\n"
    "	mov	$11, %r12d\n"
    "	cmp	%rax, 8(%rsp)\n"
    "	jne	.Lreported_wrong\n"
    "	xor	%r12d, %r12d\n"
    ".Lreported_wrong:\n"
    "	mov	%r12d, %eax\n"
    "	pop	%r12\n"
    "	ret\n");

int reporting(void);
extern const uint8_t reporting_constant[], reporting_call[], reporting_back[];

static void run_reporting(void)
{
	while (receive(ends[0]) == CALL)
		send_byte(ends[1], (char)('0' + reporting()));
	_exit(0);
}

/* A pair by thread begins at one window of C code, and ends at another. */
TEST(windows_of_c_code_keep_r11_and_time_by_thread)
{
	enum { BYTES = 5, CALLS = 20 };
	const struct inside_role start = { .pair = 0 }, stop = { .pair = 0, .is_stop = true };
	uint8_t bytes[2][BYTES];
	struct inside_site sites[] = {
		{ .addr = (uintptr_t)reporting_constant, .roles = &start },
		{ .addr = (uintptr_t)reporting_call, .roles = &stop },
	};
	const struct inside_spec spec = {
		.sites = sites, .n_sites = 2, .n_pairs = 1, .depth = 1, .max_threads = 16
	};
	struct inside_pair pair;
	struct inside *inside = NULL;
	uint64_t hits[2];
	struct child child;

	assert_int_equal(reporting_call - reporting_constant, BYTES);
	assert_int_equal(reporting_back - reporting_call, BYTES);
	start_child(&child, run_reporting);
	for (int i = 0; i < 2; i++) {
		memcpy(bytes[i], (const uint8_t *)sites[i].addr, BYTES);
		sites[i].window = bytes[i];
		sites[i].n_window = BYTES;
		sites[i].n_roles = 1;
		sites[i].keeps_r11 = true;
	}
	if (inside_attach(child.ctx, child.pid, &spec, &inside) != 0)
		fail_msg("attach: %s", ocp_error(child.ctx));
	for (int i = 0; i < CALLS; i++) {
		send_byte(child.to, CALL);
		assert_int_equal(receive(child.from), '0');
	}
	assert_int_equal(inside_read(inside, hits, &pair), 0);
	assert_int_equal(hits[0], CALLS);
	assert_int_equal(hits[1], CALLS);
	assert_int_equal(pair.starts, CALLS);
	assert_int_equal(pair.count, CALLS);
	assert_int_equal(pair.orphan_starts + pair.orphan_stops + pair.collisions, 0);
	assert_true(pair.min_ns <= pair.max_ns && pair.max_ns <= pair.sum_ns);
	assert_int_equal(inside_detach(inside), 0);
	inside_close(inside);
	end_child(&child);
}

/* The functions that are timed run in this process: the test is that they end, with a number. */
TEST(the_cost_of_a_window_is_measured)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct own_cost cost = { .hit_ns = -1 }, filtered;

	assert_non_null(ctx);
	if (own_cost_measure(ctx, OWN_COST_COUNTING_WINDOWS, 0, 0, &cost) != 0)
		fail_msg("%s", ocp_error(ctx));
	assert_true(cost.hit_ns >= 0 && cost.hit_ns < 1000);
	assert_true(cost.empty_pair_ns == 0);
	/* Comparisons have a cost, too: here as many as a filter can have. */
	if (own_cost_measure(ctx, OWN_COST_COUNTING_WINDOWS, 0, 16, &filtered) != 0)
		fail_msg("%s", ocp_error(ctx));
	assert_true(filtered.hit_ns > cost.hit_ns);
	ocp_ctx_free(ctx);
}
