/* SPDX-License-Identifier: MIT */
/* Opens perf events. */
#ifndef KERNEL_PERF_EVENT_H
#define KERNEL_PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Open an event of process PID (-1: of all processes) on CPU number CPU (-1: on all CPUs). Return
 * its descriptor or a negative errno.
 */
int perf_event(struct perf_event_attr *attr, pid_t pid, int cpu);

/*
 * Set *NS_PER_TICK to the length of a tick of the time stamp counter according to the kernel, in
 * 2^-32 ns. Return false if events are not permitted, or if the kernel does not trust the counter.
 */
bool perf_event_tick_rate(uint64_t *ns_per_tick);

#endif
