// SPDX-License-Identifier: MIT
#include "unit.h"
#include "called_program.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * check_registers(counter): each register has a value of its own. The counter's address is in rbx.
 * Returns when one differs. ymm15 holds what is compared.
 */
#define YMM_EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14)
#define YMM_SET(n)  "vmovdqu called_pattern+" #n "*8(%rip), %ymm" #n "\n"
#define YMM_CHECK(n)                                                                               \
	"vpxor called_pattern+" #n "*8(%rip), %ymm" #n ", %ymm15\n vptest %ymm15, %ymm15\n jnz 2f\n"
#define GPR_EACH(f)                                                                                \
	f(rax, 0x11111111) f(rcx, -0x22222222) f(rdx, 0x33333333) f(rsi, -0x44444444)              \
		f(rdi, 0x55555555) f(rbp, -0x66666666) f(r8, 0x77777777) f(r9, -0x18181818)        \
			f(r10, 0x29292929) f(r11, -0x3a3a3a3a) f(r12, 0x4b4b4b4b)                  \
				f(r13, -0x5c5c5c5c) f(r14, 0x6d6d6d6d) f(r15, -0x7e7e7e7e)
#define GPR_SET(r, v)	"mov $" #v ", %" #r "\n"
#define GPR_CHECK(r, v) "cmp $" #v ", %" #r "\n jne 2f\n"
#define GPR_SPOIL(r, v) "mov $0x5a5a, %" #r "\n"
#define YMM_SPOIL(n)	"vpcmpeqd %ymm" #n ", %ymm" #n ", %ymm" #n "\n"

void check_registers(atomic_ulong *counter);
uint64_t called_pattern[24];

asm(".text\n.globl check_registers\ncheck_registers:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "mov %rdi, %rbx\n"
    "movq $0x1234567, -8(%rsp)\n movq $0x7654321, -128(%rsp)\n" GPR_EACH(GPR_SET)
	    YMM_EACH(YMM_SET) "1: lock incq (%rbx)\n" GPR_EACH(GPR_CHECK) YMM_EACH(
		    YMM_CHECK) "cmpq $0x1234567, -8(%rsp)\n jne 2f\n cmpq $0x7654321, -128(%rsp)\n je 1b\n"
			       "2: vzeroupper\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
			       ".globl called_routine\ncalled_routine:\n push %rsi\n" GPR_EACH(
				       GPR_SPOIL)
				       YMM_EACH(
					       YMM_SPOIL) "vpcmpeqd %ymm15, %ymm15, %ymm15\n"
							  "mov $39, %eax\n syscall\n"
							  "mov %rax, %rbx\n mov $39, %eax\n ret\n");

struct life {
	struct called_books *books;
	int fd;
	enum called_kind kind;
};

static atomic_ulong *signals_of_program;

static void count_signal(int signal)
{
	(void)signal;
	(*signals_of_program)++;
}

static void note(struct called_books *books, enum called_kind kind, long result)
{
	const int err = result < 0 ? errno : 0;

	if (err == EINTR)
		books->eintrs++;
	else if (err && err != EAGAIN)
		books->wrong_result = err;
	books->rounds++;
	books->by_kind[kind]++;
}

static void live(struct life *life)
{
	struct called_books *books = life->books;
	const struct timespec short_while = { .tv_nsec = 3000000 };
	sigset_t none;
	int word = 0;
	char byte;

	sigemptyset(&none);
	for (;;)
		switch (life->kind) {
		case CALLED_REGISTERS:
			check_registers(&books->by_kind[CALLED_REGISTERS]);
			books->wrong_registers = 1;
			pause();
			break;
		case CALLED_NANOSLEEP:
			note(books, life->kind, nanosleep(&short_while, NULL));
			break;
		case CALLED_READ:
			note(books, life->kind, read(life->fd, &byte, 1));
			break;
		case CALLED_FUTEX:
			/* Woken by nobody: each round is one that began again and again. */
			note(books, life->kind,
			     syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
			break;
		default:
			sigsuspend(&none);
			note(books, life->kind, 0);
			break;
		}
}

static void *live_thread(void *arg)
{
	live(arg);
	return NULL;
}

static void *end_at_once(void *arg)
{
	return arg;
}

static void start_threads(struct life *life)
{
	static const enum called_kind kinds[] = { CALLED_REGISTERS, CALLED_NANOSLEEP, CALLED_READ,
						  CALLED_REGISTERS };
	pthread_t thread;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct life *its = malloc(sizeof(*its));

		*its = *life;
		its->kind = kinds[i];
		pthread_create(&thread, NULL, live_thread, its);
	}
	for (;;) {
		if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
			pthread_join(thread, NULL);
		usleep(300);
	}
}

struct called called_start(enum called_kind kind)
{
	struct called called = { .kind = kind };
	int fds[2];

	called.books = mmap(NULL, sizeof(*called.books), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(called.books != MAP_FAILED);
	assert_int_equal(pipe(fds), 0);
	for (size_t i = 0; i < sizeof(called_pattern) / sizeof(*called_pattern); i++)
		called_pattern[i] = UINT64_C(0x0123456789abcdef) * (i + 1);
	called.pid = fork();
	assert_true(called.pid >= 0);
	if (called.pid == 0) {
		struct life life = { called.books, fds[0], kind };
		sigset_t blocked;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signals_of_program = &called.books->signals;
		sigaction(SIGRTMIN,
			  &(struct sigaction){ .sa_handler = count_signal, .sa_flags = SA_RESTART },
			  NULL);
		sigemptyset(&blocked);
		sigaddset(&blocked, SIGRTMIN);
		if (kind == CALLED_PAUSED)
			sigprocmask(SIG_BLOCK, &blocked, NULL);
		called.books->is_ready = true;
		if (kind == CALLED_THREADS)
			start_threads(&life);
		live(&life);
	}
	close(fds[0]);
	called.wake_fd = fds[1];
	while (!called.books->is_ready)
		usleep(100);
	return called;
}

static unsigned long rounds_of(const struct called *called)
{
	return called->kind == CALLED_THREADS ? called->books->rounds
					      : called->books->by_kind[called->kind];
}

static void wake(const struct called *called)
{
	if (called->kind == CALLED_READ || called->kind == CALLED_THREADS)
		assert_int_equal(write(called->wake_fd, "x", 1), 1);
	if (called->kind == CALLED_PAUSED)
		kill(called->pid, SIGRTMIN);
}

bool called_goes_on(struct called *called, unsigned long n)
{
	const unsigned long registers = called->books->by_kind[CALLED_REGISTERS];
	const unsigned long from = rounds_of(called);
	const int64_t start = clock_ns(CLOCK_MONOTONIC);
	unsigned long woken = from - 1;

	/* The futex never ends: the caller looks at the state of the process. */
	if (called->kind == CALLED_FUTEX)
		return true;
	while (rounds_of(called) < from + n ||
	       (called->kind == CALLED_THREADS &&
		called->books->by_kind[CALLED_REGISTERS] == registers)) {
		if (clock_ns(CLOCK_MONOTONIC) - start > INT64_C(30000000000) ||
		    waitpid(called->pid, NULL, WNOHANG) != 0)
			return false;
		if (woken != rounds_of(called)) {
			woken = rounds_of(called);
			wake(called);
		}
		usleep(50);
	}
	return true;
}

void called_end(struct called *called)
{
	kill(called->pid, SIGKILL);
	waitpid(called->pid, NULL, 0);
	close(called->wake_fd);
	munmap(called->books, sizeof(*called->books));
}
