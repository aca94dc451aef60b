// SPDX-License-Identifier: MIT
/*
 * A process with one probe, `hit`, controlled by commands on stdin. With -DPAIR it has a second
 * probe, `hit_end`, which follows each pass of the first.
 *
 * run N [THREADS]: pass the site N times, or so often in each of two to eight threads; print the
 * nanoseconds of CPU time per pass.
 *
 * bare N [THREADS]: the same with a `lock inc` of one counter in place of the site.
 *
 * await on|off: pass the site every 50 us until it begins with an int3 (a uprobe) or calls (the
 * engine `inside`), or until it does neither, and then once more. Print the time after that in
 * microseconds since the epoch, or "timeout" after 30 seconds. (Without the pause, the measured
 * tool might have to wait for a CPU.)
 *
 * watch: pass the site every 50 us until the next line of any text. Print the time after the first
 * pass that began with an int3, as above, or 0.
 *
 * gap: pass the site every 50 us until the next line of any text, before all other tasks of this
 * CPU. Print the longest time from one pass to the next in microseconds.
 *
 * grace: wait for one RCU grace period of the kernel; print its milliseconds.
 */
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "probe.h"

/* With -DARGS, `hit` has two arguments, and both are ints. */
#ifdef ARGS
#define HIT_ARGS "8@%rbx 8@%r12"
#else
#define HIT_ARGS ""
#endif

enum { INT3 = 0xcc, CALL = 0xe8, AWAIT_SECONDS = 30, PAUSE_NS = 50000, MAX_THREADS = 8 };

__asm__(".pushsection .text\n"
	".globl hit_site\n"
	".hidden hit_site\n" PROBE_SITE(
		"hit_site") "	ret\n"
			    ".popsection\n" PROBE_NOTE_ARGS("hit_site", "hit", "hit_semaphore",
							    HIT_ARGS)
				    PROBE_NOTE_BASE PROBE_SEMAPHORE("hit_semaphore"));

#ifdef PAIR
__asm__(".pushsection .text\n"
	".globl end_site\n"
	".hidden end_site\n" PROBE_SITE("end_site") "	ret\n"
						    ".popsection\n" PROBE_NOTE("end_site",
									       "hit_end",
									       "end_semaphore")
							    PROBE_SEMAPHORE("end_semaphore"));
__attribute__((visibility("hidden"))) void end_site(void);
#else
static inline void end_site(void)
{
}
#endif

__asm__(".pushsection .text\n"
	".globl bare_site\n"
	".hidden bare_site\n"
	"bare_site:	lock incq bare_count(%rip)\n"
	"	ret\n"
	".popsection\n"
	".pushsection .bss\n"
	"	.balign 64\n"
	"bare_count:	.skip 64\n"
	".popsection\n");

__attribute__((visibility("hidden"))) void hit_site(void);
__attribute__((visibility("hidden"))) void bare_site(void);

static void pass(void)
{
	hit_site();
	end_site();
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct job {
	uint64_t n, cpu_ns;
	bool is_bare;
	pthread_barrier_t *begin;
};

static void *run_job(void *arg)
{
	struct job *job = arg;
	uint64_t start;

	pthread_barrier_wait(job->begin);
	start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	if (job->is_bare)
		for (uint64_t i = 0; i < job->n; i++)
			bare_site();
	else
		for (uint64_t i = 0; i < job->n; i++)
			pass();
	job->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	return NULL;
}

/* The first one runs in this thread. Returns false if there cannot be so many threads. */
static bool run(uint64_t n, unsigned int n_threads, bool is_bare)
{
	pthread_t threads[MAX_THREADS];
	struct job jobs[MAX_THREADS];
	pthread_barrier_t begin;
	uint64_t sum_ns = 0;

	if (!n || !n_threads || n_threads > MAX_THREADS ||
	    pthread_barrier_init(&begin, NULL, n_threads) != 0)
		return false;
	for (unsigned int i = n_threads; i-- > 0;) {
		jobs[i] = (struct job){ .n = n, .is_bare = is_bare, .begin = &begin };
		if (i && pthread_create(&threads[i], NULL, run_job, &jobs[i]) != 0)
			return false;
	}
	run_job(&jobs[0]);
	for (unsigned int i = 0; i < n_threads; i++) {
		if (i)
			pthread_join(threads[i], NULL);
		sum_ns += jobs[i].cpu_ns;
	}
	pthread_barrier_destroy(&begin);
	printf("%.3f\n", (double)sum_ns / (double)n / n_threads);
	return true;
}

static void await(int on)
{
	const volatile unsigned char *site = (const volatile unsigned char *)hit_site;
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t end = now_ns(CLOCK_MONOTONIC) + AWAIT_SECONDS * 1000000000ULL;

	while ((site[0] == INT3 || site[1] == CALL) != on) {
		pass();
		nanosleep(&pause, NULL);
		if (now_ns(CLOCK_MONOTONIC) > end) {
			puts("timeout");
			return;
		}
	}
	pass();
	printf("%llu\n", (unsigned long long)(now_ns(CLOCK_REALTIME) / 1000));
}

static void watch(void)
{
	const volatile unsigned char *site = (const volatile unsigned char *)hit_site;
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct pollfd next = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t first_ns = 0;
	char line[64];

	while (poll(&next, 1, 0) == 0) {
		int trapped = *site == INT3;

		pass();
		if (trapped && !first_ns)
			first_ns = now_ns(CLOCK_REALTIME);
		nanosleep(&pause, NULL);
	}
	if (fgets(line, sizeof(line), stdin))
		printf("%llu\n", (unsigned long long)(first_ns / 1000));
}

static void gap(void)
{
	const struct sched_param first = { .sched_priority = 50 }, usual = { 0 };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct pollfd next = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t last_ns, longest_ns = 0;
	char line[64];

	if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) {
		puts("not permitted");
		return;
	}
	last_ns = now_ns(CLOCK_MONOTONIC);
	while (poll(&next, 1, 0) == 0) {
		uint64_t ns;

		pass();
		ns = now_ns(CLOCK_MONOTONIC);
		longest_ns = ns - last_ns > longest_ns ? ns - last_ns : longest_ns;
		last_ns = ns;
		nanosleep(&pause, NULL);
	}
	sched_setscheduler(0, SCHED_OTHER, &usual);
	if (fgets(line, sizeof(line), stdin))
		printf("%.1f\n", (double)longest_ns / 1e3);
}

static void grace(void)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC);

	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	printf("%.3f\n", (double)(now_ns(CLOCK_MONOTONIC) - start) / 1e6);
}

int main(void)
{
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0); /* watch() polls it */
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long long n;
		unsigned int threads = 1;

		if (sscanf(line, "run %llu %u", &n, &threads) >= 1) {
			if (!run(n, threads, false))
				return 2;
		} else if (sscanf(line, "bare %llu %u", &n, &threads) >= 1) {
			if (!run(n, threads, true))
				return 2;
		} else if (strncmp(line, "await ", 6) == 0) {
			await(strcmp(line + 6, "on\n") == 0);
		} else if (strcmp(line, "watch\n") == 0) {
			watch();
		} else if (strcmp(line, "gap\n") == 0) {
			gap();
		} else if (strcmp(line, "grace\n") == 0) {
			grace();
		} else {
			return 2;
		}
	}
	return 0;
}
