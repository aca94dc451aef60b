/* SPDX-License-Identifier: MIT */
/* Find the unused part of the stack of a stopped thread. */
#ifndef INSIDE_STACK_ROOM_H
#define INSIDE_STACK_ROOM_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#include "tracee/maps.h"

/*
 * At least this many bytes are free below the address that stack_room_find() returns. Pages there
 * that are not mapped yet are mapped by a write to /proc/PID/mem, as by a write of the thread
 * itself.
 */
enum { STACK_ROOM_BYTES = 32 * 1024 };

/*
 * Return the upper end of the free part of the C stack of a thread with REGS, of process PID with
 * MAPS: below the red zone. Return 0 if the stack is not known, or too small. The process must be
 * stopped.
 */
uint64_t stack_room_find(pid_t pid, const struct maps *maps, const struct user_regs_struct *regs);

#endif
