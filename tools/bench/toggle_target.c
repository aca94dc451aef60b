// SPDX-License-Identifier: MIT
/*
 * A process with many probes (sites.S) that measures how long it is stopped.
 *
 * watch: start a thread that reads the clock without pause. report: end the thread, and print
 *
 *	STOPS LONGEST_US SUM_US PREEMPTED_US
 *
 * A gap between two readings is a stop if it has a voluntary context switch, which only ptrace or a
 * signal causes in this thread. All other gaps of more than GAP_NS are due to the scheduler and add
 * up to PREEMPTED_US. A stop includes the wait for a CPU, as in every stopped program.
 *
 * pass: pass each site once; print the number of handlers that ran.
 *
 * With the argument `filtered` it has a seccomp filter, which allows all: tools cannot make it
 * switch its probes by its own stores.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { GAP_NS = 5000 };

void pass_sites(void);
extern uint64_t handler_runs;
uint64_t handler_runs;

static volatile bool watching;

static struct seen {
	unsigned long stops;
	uint64_t longest_ns, sum_ns, preempted_ns;
} seen;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static long voluntary_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static void *watch(void *arg)
{
	long switches = voluntary_switches();
	uint64_t last = now_ns();

	while (watching) {
		uint64_t now = now_ns(), gap = now - last;
		long switches_now;

		last = now;
		if (gap <= GAP_NS)
			continue;
		switches_now = voluntary_switches();
		if (switches_now != switches) {
			seen.stops += (unsigned long)(switches_now - switches);
			seen.sum_ns += gap;
			if (gap > seen.longest_ns)
				seen.longest_ns = gap;
		} else {
			seen.preempted_ns += gap;
		}
		switches = switches_now;
		last = now_ns();
	}
	return arg;
}

static bool install_filter(void)
{
	struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	const struct sock_fprog program = { 1, &allow };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

int main(int argc, char **argv)
{
	pthread_t watcher = 0;
	char line[64];

	if (argc == 2 && strcmp(argv[1], "filtered") == 0 && !install_filter())
		return 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "watch\n") == 0 && !watching) {
			seen = (struct seen){ 0 };
			watching = true;
			if (pthread_create(&watcher, NULL, watch, NULL) != 0)
				return 1;
			puts("watching");
		} else if (strcmp(line, "report\n") == 0 && watching) {
			watching = false;
			pthread_join(watcher, NULL);
			printf("%lu %.1f %.1f %.1f\n", seen.stops, (double)seen.longest_ns / 1e3,
			       (double)seen.sum_ns / 1e3, (double)seen.preempted_ns / 1e3);
		} else if (strcmp(line, "pass\n") == 0) {
			uint64_t before = handler_runs;

			pass_sites();
			printf("%lu\n", (unsigned long)(handler_runs - before));
		} else {
			return 2;
		}
	}
	return 0;
}
