/* SPDX-License-Identifier: MIT */
/*
 * Converts the times of events from ticks of the time stamp counter to CLOCK_MONOTONIC. The reader
 * samples both clocks whenever it has read all events, and whenever an event is newer than the last
 * sample. So nearly every event is between two samples that are close together. Interpolation
 * between these two gives the right time, even while the kernel adjusts CLOCK_MONOTONIC.
 */
#ifndef MEMPROF_EVENT_CLOCK_H
#define MEMPROF_EVENT_CLOCK_H

#include <stdint.h>
#include "inside/ticks.h"

struct event_clock {
	struct tick_moment (*look)(void);
	struct tick_moment first, before, last; /* samples of both clocks; BEFORE precedes LAST */
};

/* LOOK samples both clocks, as ticks_moment() does. */
void event_clock_start(struct event_clock *clock, struct tick_moment (*look)(void));

/* Sample both clocks. */
void event_clock_look(struct event_clock *clock);

/*
 * Return the time of an event that the program wrote at TICKS: CLOCK_MONOTONIC, nanoseconds. The
 * result is never before the start of CLOCK or after the present, whatever TICKS is.
 */
uint64_t event_clock_ns(struct event_clock *clock, uint64_t ticks);

#endif
