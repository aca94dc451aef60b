// SPDX-License-Identifier: MIT
#include "kernel/event_clock.h"

void event_clock_start(struct event_clock *clock, struct tick_moment (*look)(void))
{
	clock->look = look;
	clock->first = clock->before = clock->last = look();
}

void event_clock_look(struct event_clock *clock)
{
	clock->before = clock->last;
	clock->last = clock->look();
	/*
	 * If the counter was set back, as happens when a virtual machine moves to another host,
	 * start again.
	 */
	if (clock->last.ticks < clock->before.ticks)
		clock->first = clock->before = clock->last;
}

/*
 * Convert TICKS to nanoseconds by interpolation between A and B. If TICKS is before A or after B,
 * return the time of A or of B.
 */
static uint64_t between(const struct tick_moment *a, const struct tick_moment *b, uint64_t ticks)
{
	const uint64_t ns = (uint64_t)(b->ns - a->ns);

	if (ticks <= a->ticks)
		return (uint64_t)a->ns;
	if (ticks >= b->ticks)
		return (uint64_t)b->ns;
	return (uint64_t)a->ns +
	       (uint64_t)((unsigned __int128)(ticks - a->ticks) * ns / (b->ticks - a->ticks));
}

uint64_t event_clock_ns(struct event_clock *clock, uint64_t ticks)
{
	if (ticks > clock->last.ticks)
		event_clock_look(clock);
	/*
	 * The event may be older than `before`, if its writer was interrupted between reading the
	 * counter and finishing the record.
	 */
	if (ticks < clock->before.ticks)
		return between(&clock->first, &clock->before, ticks);
	return between(&clock->before, &clock->last, ticks);
}
