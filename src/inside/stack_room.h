/* SPDX-License-Identifier: MIT */
/* Where on the stack of a stopped thread nobody has anything. */
#ifndef INSIDE_STACK_ROOM_H
#define INSIDE_STACK_ROOM_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#include "tracee/maps.h"

/*
 * At least so many bytes are free below the address of stack_room_find(). Those that are not mapped yet are
 * mapped by a write to /proc/PID/mem, as by one of the thread itself.
 */
enum { STACK_ROOM_BYTES = 32 * 1024 };

/*
 * The end of the free part of the C stack of a thread with REGS, of process PID with MAPS: below the
 * red zone. 0: the stack is not known, or too small. The process is stopped.
 */
uint64_t stack_room_find(pid_t pid, const struct maps *maps, const struct user_regs_struct *regs);

#endif
