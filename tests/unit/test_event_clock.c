// SPDX-License-Identifier: MIT
/* Times in ticks: between two looks at both clocks, also when the kernel adjusts one of them. */
#include "memprof/ring_reader.h"
#include "unit.h"

/* What the clocks will show. */
static struct tick_moment looks[8];
static size_t n_looks;

static struct tick_moment look(void)
{
	return looks[n_looks++];
}

static struct event_clock start(const struct tick_moment *moments, size_t n)
{
	struct event_clock clock;

	for (size_t i = 0; i < n; i++)
		looks[i] = moments[i];
	n_looks = 0;
	event_clock_start(&clock, look);
	return clock;
}

#define START(...)                                                                                 \
	start((const struct tick_moment[]){ __VA_ARGS__ },                                         \
	      sizeof((const struct tick_moment[]){ __VA_ARGS__ }) / sizeof(struct tick_moment))

/*
 * Three ticks a nanosecond, then three and a half: each time lies on the line of its own two looks.
 */
TEST(times_lie_between_looks)
{
	struct event_clock clock = START({ 3000, 1000 }, { 6000, 2000 }, { 13000, 4000 });

	assert_int_equal(event_clock_ns(&clock, 4500), 1500);
	assert_int_equal(event_clock_ns(&clock, 6000), 2000);
	assert_int_equal(n_looks, 2);
	assert_int_equal(event_clock_ns(&clock, 6007), 2002);
	assert_int_equal(event_clock_ns(&clock, 12993), 3998);
	assert_int_equal(n_looks, 3);
}

/* A writer that was interrupted comes with a time before the last two looks. */
TEST(late_records_have_their_times)
{
	struct event_clock clock = START({ 3000, 1000 }, { 6000, 2000 }, { 9000, 3000 });

	event_clock_look(&clock);
	event_clock_look(&clock);
	assert_int_equal(event_clock_ns(&clock, 4500), 1500);
	assert_int_equal(event_clock_ns(&clock, 7500), 2500);
	assert_int_equal(n_looks, 3);
}

/* A program can write any number. */
TEST(nonsense_has_bounds)
{
	struct event_clock clock = START({ 3000, 1000 }, { 6000, 2000 }, { 6000, 2000 });

	assert_int_equal(event_clock_ns(&clock, UINT64_MAX), 2000);
	assert_int_equal(event_clock_ns(&clock, UINT64_MAX), 2000);
	assert_int_equal(event_clock_ns(&clock, 0), 1000);
}

/* Numbers whose product has more than 64 bits: an hour between two looks. */
TEST(long_pauses_do_not_overflow)
{
	const int64_t hour = INT64_C(3600000000000);
	struct event_clock clock = START({ 0, 5 }, { 3 * (uint64_t)hour, hour + 5 });

	assert_int_equal(event_clock_ns(&clock, 3 * (uint64_t)hour - 300), hour - 95);
}

/* The counter is set back, as when a virtual machine moves: times go on from there. */
TEST(a_counter_may_be_set_back)
{
	struct event_clock clock =
		START({ 90000, 1000 }, { 93000, 2000 }, { 300, 3000 }, { 900, 3200 });

	assert_int_equal(event_clock_ns(&clock, 91500), 1500);
	event_clock_look(&clock);
	assert_int_equal(event_clock_ns(&clock, 600), 3100);
	assert_int_equal(event_clock_ns(&clock, 200), 3000);
}
