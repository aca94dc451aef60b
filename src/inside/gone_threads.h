/* SPDX-License-Identifier: MIT */
/* Threads that ended in the middle of a span, and processes that ended with starts by key. */
#ifndef INSIDE_GONE_THREADS_H
#define INSIDE_GONE_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "inside/block.h"

/*
 * Return true if PID is in our pid namespace. Only then can kill(2) find out whether one of its
 * threads has ended.
 */
bool gone_threads_are_known(pid_t pid);

/*
 * Return the number of starts of pair number PAIR that totals_pair() counts as open, but that are
 * orphans. Of a pair matched by thread: the starts of a thread that has ended, unless another
 * thread has taken its slot. Of a pair matched by key: the starts of a process that has ended.
 * BLOCK is the first byte of the block.
 */
uint64_t gone_threads_starts(const struct block_header *header, const void *block, uint32_t pair);

#endif
