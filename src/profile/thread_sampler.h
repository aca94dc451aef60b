/* SPDX-License-Identifier: MIT */
/*
 * Samples the CPU without BPF: at a fixed rate, a thread of ours looks which threads of the
 * processes run, stops each of them for some microseconds by ptrace(2), and walks its stack. Needs
 * only the right to trace the processes.
 *
 * A sample stands for the CPU time that its thread has used since its last sample, as the scheduler
 * counts it (/proc/PID/task/TID/schedstat). So the sum is right even if a thread runs too briefly
 * to be met at each look. Samples have no frames in the kernel.
 *
 * For PROFILE_WAITS, no thread is stopped: the kernel shows where a waiting thread has left its
 * stack (/proc/PID/task/TID/syscall), and the number of its time slices shows afterwards whether it
 * has waited all the time that the walk took. A thread's time since the last look, without the time
 * for which it has run or waited for a CPU, counts for the wait in which the thread is found. So
 * the sum is right, and each wait is wrong by at most the time between two looks at its beginning
 * and at its end. A sample is a wait that was met, however often.
 */
#ifndef PROFILE_THREAD_SAMPLER_H
#define PROFILE_THREAD_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "profile/profiler.h"

struct thread_sampler;

/* Uses the kind, hz (looks per second) and by_thread of SPEC. */
int thread_sampler_open(struct ocp_ctx *ctx, const struct profiler_spec *spec,
			struct thread_sampler **out);
/* End sampling, and free SAMPLER, which may be NULL. */
void thread_sampler_close(struct thread_sampler *sampler);

/* Add process PID, also later. Its samples have its pid as profile_sample.tgid. */
int thread_sampler_add_process(struct thread_sampler *sampler, pid_t pid);
/*
 * Return true if process PID is being sampled. Sampling ends when the process ends or executes
 * another program.
 */
bool thread_sampler_has_process(struct thread_sampler *sampler, pid_t pid);
void thread_sampler_forget_process(struct thread_sampler *sampler, pid_t pid);
/*
 * Start sampling, also again after thread_sampler_stop(). Set *START_NS to the time from which on
 * waits are counted (CLOCK_MONOTONIC).
 */
int thread_sampler_start(struct thread_sampler *sampler, uint64_t *start_ns);
/* Read the mappings of processes that have loaded code. */
int thread_sampler_refresh(struct thread_sampler *sampler);
/*
 * Set *STOP_NS to the time up to which waits are counted. Do nothing if SAMPLER does not sample.
 */
void thread_sampler_stop(struct thread_sampler *sampler, uint64_t *stop_ns);

/* Return how long threads were stopped so far, in nanoseconds, as the sampler has seen it. */
uint64_t thread_sampler_stopped_ns(struct thread_sampler *sampler);

/*
 * Set the samples and losses of READING. The stacks belong to SAMPLER, and are valid until it is
 * closed.
 */
int thread_sampler_read(struct thread_sampler *sampler, struct profile_reading *reading);

const struct stack_walker *thread_sampler_walker(const struct thread_sampler *sampler);

#endif
