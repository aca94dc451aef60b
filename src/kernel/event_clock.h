/* SPDX-License-Identifier: MIT */
/* Times that programs have written as ticks of the time stamp counter. */
#ifndef KERNEL_EVENT_CLOCK_H
#define KERNEL_EVENT_CLOCK_H

#include <stdint.h>
#include "kernel/ticks.h"

/*
 * Converts the times of events from ticks of the time stamp counter to CLOCK_MONOTONIC. The reader
 * reads both clocks (a sample) whenever it has read all events, and whenever an event is newer than
 * the newest sample. So nearly every event is between two samples that are close together, and
 * interpolation between these samples gives the right time, even while the kernel adjusts
 * CLOCK_MONOTONIC.
 */
struct event_clock {
	struct tick_moment (*look)(void);
	struct tick_moment first, before, last; /* samples of both clocks; BEFORE precedes LAST */
};

/* Start CLOCK with a first sample. LOOK samples both clocks, as ticks_moment() does. */
void event_clock_start(struct event_clock *clock, struct tick_moment (*look)(void));

/* Take another sample of both clocks. */
void event_clock_look(struct event_clock *clock);

/*
 * Return the time of an event that the program wrote at TICKS: CLOCK_MONOTONIC, nanoseconds. The
 * result is never before the start of CLOCK or after the present, whatever TICKS is.
 */
uint64_t event_clock_ns(struct event_clock *clock, uint64_t ticks);

#endif
