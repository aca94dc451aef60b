/* SPDX-License-Identifier: MIT */
/*
 * The times of events that a program tells in ticks of the time stamp counter. The reader looks at both clocks
 * whenever it has read all events, and whenever an event is newer than its last look. So each time lies between
 * two looks that are close together, and follows CLOCK_MONOTONIC also while the kernel adjusts that.
 */
#ifndef MEMPROF_EVENT_CLOCK_H
#define MEMPROF_EVENT_CLOCK_H

#include <stdint.h>
#include "inside/ticks.h"

struct event_clock {
	struct tick_moment (*look)(void);
	struct tick_moment first, before, last; /* looks; BEFORE is the one before the last */
};

/* LOOK reads both clocks: ticks_moment. */
void event_clock_start(struct event_clock *clock, struct tick_moment (*look)(void));

/* Look at both clocks. */
void event_clock_look(struct event_clock *clock);

/*
 * The time of an event that the program wrote at TICKS: CLOCK_MONOTONIC, nanoseconds. It is not before the start
 * and not after this moment, whatever TICKS are.
 */
uint64_t event_clock_ns(struct event_clock *clock, uint64_t ticks);

#endif
