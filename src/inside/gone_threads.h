/* SPDX-License-Identifier: MIT */
/*
 * Count the open starts that will never be stopped, because their thread has ended in the middle of
 * a span or (for pairs by key) their process has ended.
 */
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
 * orphans. If the pair is matched by thread, these are the starts of threads that have ended,
 * except those whose slot another thread has taken. If it is matched by key, these are the starts
 * of processes that have ended. BLOCK is the first byte of the block.
 */
uint64_t gone_threads_starts(const struct block_header *header, const void *block, uint32_t pair);

#endif
