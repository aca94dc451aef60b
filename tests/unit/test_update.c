// SPDX-License-Identifier: MIT
/*
 * Updates whose process or whose system calls change under their hands. The process has a seccomp
 * filter, and so it is written to byte by byte, in slices; in some tests it has none, and stores
 * all by itself.
 */
#include "unit.h"
#include "updated_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "change/inside/inside.h"
#include "proc_self.h"

static int start(void **state)
{
	(void)state;
	return start_child(FILTERED);
}

EACH_TEST(start, end_update);

static int start_free(void **state)
{
	(void)state;
	return start_child(FREE);
}

/* ---- the process changes -------------------------------------------------------------------- */

enum { HALF = 7 };

static int break_first(void)
{
	poke(t.first, INT3, 1);
	return 0;
}

static int break_last(void)
{
	poke(t.last, INT3, 1);
	return 0;
}

static int break_half_switched(void)
{
	poke(opcode_of(HALF), INT3, 1);
	return 0;
}

/* Somebody has put something into a site: it stays, and nothing is switched. */
TEST(code_that_changes_is_left_alone)
{
	static const struct {
		enum moment moment;
		int (*act)(void);
	} cases[] = {
		{ PLANNED, break_first }, /* a probe that is switched first */
		{ PLANNED, break_last },  /* one of a later slice */
		{ STOP, break_half_switched },
	};

	for (size_t i = 0; i < 3; i++) {
		uint64_t broken;

		/* As when a tool was killed in the middle: others may switch the code alone. */
		if (i == 2)
			poke(opcode_of(HALF), ON, 1);
		at(cases[i].moment, EACH, cases[i].act);
		assert_int_equal(update(0), -EILSEQ);
		broken = i == 0 ? t.first : i == 1 ? t.last : opcode_of(HALF);
		assert_int_equal(peek(broken, 1), INT3);
		check_all(false, probe_at(broken));
		assert_int_equal(count_journals(), 0);
		poke(broken, OFF, 1);
	}
}

static int raise_counter(void)
{
	const uint64_t counter = counter_of(probe_at(t.first));

	poke(t.first, ON, 1);
	poke(counter, (uint16_t)(peek(counter, 2) + 5), 2);
	return 0;
}

/* Somebody else enables a probe: both are counted, and the journal says what was before the stop.
 */
TEST(counters_that_change_are_counted_on)
{
	static const enum moment moments[] = { PLANNED, STOP };

	for (int i = 0; i < 2; i++) {
		at(moments[i], 1, raise_counter);
		assert_int_equal(update(0), 0);
		assert_int_equal(peek(counter_of(probe_at(t.first)), 2), 6);
		check_all(true, probe_at(t.first));
		/* Two slices, and a stop in vain where it came after the record. */
		assert_int_equal(t.calls[STOP], moments[i] == STOP ? 3 : 2);
		assert_int_equal(t.calls[COMMIT], moments[i] == STOP ? 2 : 1);
		assert_int_equal(count_journals(), 0);
		poke(counter_of(probe_at(t.first)), 1, 2);
		switch_off();
	}
}

/* ---- counting inside begins and ends -------------------------------------------------------- */

/* The highest byte of the first probe's displacement. */
static uint64_t lead(void)
{
	return opcode_of(0) + 4;
}

static int lead_out(void)
{
	poke(lead(), 0x7f, 1);
	return 0;
}

static int lead_back(void)
{
	poke(lead(), t.lead, 1);
	return 0;
}

/*
 * Another tool restores the sites and removes its memory between the reading of the code and the
 * stop.
 */
TEST(counting_ends_before_the_stop)
{
	t.lead = (uint8_t)peek(lead(), 1);
	for (int on = 1; on >= 0; on--) {
		ask_for(on);
		at(PLANNED, 1, lead_out);
		t.act[STOP] = lead_back;
		t.at[STOP] = 1;
		assert_int_equal(update(0), 0);
		check_all(on, N);
		assert_int_equal(count_journals(), 0);
	}
	/* It leads there for good: nothing is switched. */
	at(PLANNED, 1, lead_out);
	ask_for(true);
	assert_int_equal(update(0), -EILSEQ);
	lead_back();
	check_all(false, N);
}

/* Sites are shown as they were restored, not as damaged. */
TEST(counting_ends_while_sites_are_read)
{
	struct ocp_sites *sites;

	t.lead = (uint8_t)peek(lead(), 1);
	lead_out();
	at(TRAMPOLINES, 1, lead_back);
	assert_int_equal(ocp_sites_read(t.proc, 0, &sites), 0);
	assert_true(t.calls[TRAMPOLINES] > 0);
	for (size_t i = 0; i < ocp_sites_count(sites); i++)
		assert_int_equal(ocp_sites_get(sites, i)->state, OCP_SITE_OFF);
	ocp_sites_free(sites);
	/* It leads there for good. */
	lead_out();
	from_now_on();
	assert_int_equal(ocp_sites_read(t.proc, 0, &sites), 0);
	assert_int_equal(ocp_sites_get(sites, 0)->state, OCP_SITE_DAMAGED);
	ocp_sites_free(sites);
	lead_back();
}

static int begin_counting(void)
{
	static struct inside_site sites[N];

	for (size_t i = 0; i < N; i++)
		sites[i] = (struct inside_site){ .addr = opcode_of(i) - 1,
						 .semaphore = counter_of(i) };
	return inside_attach(t.ctx, t.pid, &(struct inside_spec){ .sites = sites, .n_sites = N },
			     &t.inside);
}

/*
 * Another tool begins to count between the reading of the code and the stop: it goes on counting.
 */
TEST_WITH(free_counting_begins_before_the_stop, start_free, end_update)
{
	struct inside_state counting;

	for (int on = 1; on >= 0; on--) {
		ask_for(on);
		at(STOP, 1, begin_counting);
		assert_int_equal(update(0), 0);
		assert_int_equal(inside_state(t.inside, &counting), 0);
		assert_int_equal(counting.n_patched, N);
		assert_int_equal(inside_detach(t.inside), 0);
		inside_close(t.inside);
		check_all(on, N);
	}
}

/* Before each stop: the tenth time the update goes on all the same. */
TEST(counters_that_never_rest)
{
	at(STOP, EACH, raise_counter);
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[STOP], 10 + 1);
	assert_int_equal(peek(counter_of(probe_at(t.first)), 2), 10 * 5 + 1 + 5);
	check_all(true, probe_at(t.first));
}

TEST(undisturbed_updates_write_one_journal)
{
	const int n_threads = count_threads();
	const int n_fds = count_entries("/proc/self/fd");

	from_now_on();
	assert_int_equal(update(0), 0);
	check_all(true, N);
	assert_false(t.wrong_phase);
	assert_int_equal(t.calls[APPLY], 2);
	assert_int_equal(t.calls[COMMIT], 1);
	assert_int_equal(t.calls[PROGRESS], 1);
	assert_int_equal(t.done[0], FIRST_SLICE);
	assert_int_equal(t.begun, N);
	assert_int_equal(count_journals(), 0);
	/* The process runs between the stops; nothing of ours is left. */
	assert_int_equal(t.calls[SLEEP], 1);
	await_threads(n_threads);
	assert_int_equal(count_entries("/proc/self/fd"), n_fds);
}

TEST(flags_say_when_it_stops)
{
	from_now_on();
	assert_int_equal(update(OCP_DRY_RUN), 0);
	assert_int_equal(t.calls[PLANNED], 1);
	assert_int_equal(t.calls[STOP] + t.calls[APPLY], 0);
	check_all(false, N);
	assert_int_equal(update(OCP_ATOMICALLY), 0);
	assert_int_equal(t.calls[STOP], 1);
	check_all(true, N);
	switch_off();
	ask_for(false);
	from_now_on();
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[STOP] + t.calls[COMMIT], 0);
	ask_for(true);
	assert_int_equal(ocp_process_hold(t.proc), 0);
	assert_int_equal(update(0), 0);
	ocp_process_release(t.proc);
	assert_int_equal(t.calls[STOP], 0);
	check_all(true, N);
}

/* A single probe is switched or not: only a promise to undo it is written down. */
TEST(one_probe_needs_no_journal)
{
	struct ocp_undo *undo;

	ocp_actions_free(t.actions);
	t.actions = ocp_actions_new(t.ctx);
	assert_int_equal(ocp_actions_enable(t.actions, "probe_7"), 0);
	from_now_on();
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[COMMIT], 0);
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	assert_int_equal(t.calls[COMMIT], 1);
	assert_int_equal(count_journals(), 1);
	assert_int_equal(peek(counter_of(7), 2), 2);
	assert_int_equal(ocp_undo_run(undo), 0);
	ocp_undo_free(undo);
	assert_int_equal(count_journals(), 0);
	assert_int_equal(peek(counter_of(7), 2), 1);
	check_all(false, 7);
}

TEST(a_process_switches_itself_without_stopping)
{
	struct ocp_process *self;

	assert_int_equal(ocp_process_open(t.ctx, getpid(), &self), 0);
	assert_int_equal(ocp_process_update(self, t.actions, OCP_ATOMICALLY), -EINVAL);
	assert_non_null(strstr(ocp_error(t.ctx), "a process cannot stop itself"));
	from_now_on();
	assert_int_equal(ocp_process_update(self, t.actions, 0), 0);
	assert_int_equal(t.calls[STOP] + t.calls[COMMIT], 0);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(((const volatile uint8_t *)update_sites)[i * SPACING + 1], ON);
	ask_for(false);
	assert_int_equal(ocp_process_update(self, t.actions, 0), 0);
	ocp_process_free(self);
}

/* ---- undoing -------------------------------------------------------------------------------- */

static int check_order(void)
{
	/* The last slice is undone first. */
	assert_int_equal(peek(t.first, 1), ON);
	assert_int_equal(peek(t.last, 1), t.calls[APPLY] == 1 ? ON : OFF);
	return 0;
}

TEST(slices_are_undone_last_first)
{
	struct ocp_undo *undo;

	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	check_all(true, N);
	assert_int_equal(count_journals(), 1);
	at(APPLY, EACH, check_order);
	assert_int_equal(ocp_undo_run(undo), 0);
	assert_int_equal(t.calls[APPLY], 2);
	assert_false(t.wrong_phase);
	/* Nobody else has changed anything: what was written is taken back as it is. */
	assert_int_equal(t.calls[REFRESH_CODE] + t.calls[REFRESH_COUNTERS], 0);
	/* On record before it is done: nothing of the slice, nor of those after it, is sure any
	 * more. */
	assert_int_equal(t.calls[PROGRESS], 2);
	assert_int_equal(t.done[0], FIRST_SLICE);
	assert_int_equal(t.done[1], 0);
	assert_int_equal(t.begun, FIRST_SLICE);
	check_all(false, N);
	assert_int_equal(count_journals(), 0);
	ocp_undo_free(undo);
}

TEST(undoing_leaves_alone_what_others_did)
{
	struct ocp_undo *undo;
	uint64_t first_counter, last_counter;

	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	first_counter = counter_of(probe_at(t.first));
	last_counter = counter_of(N - 1);
	poke(first_counter, 0, 2);
	poke(t.first, OFF, 1);
	poke(last_counter, 2, 2);
	assert_int_equal(ocp_undo_run(undo), 0);
	ocp_undo_free(undo);
	assert_int_equal(peek(last_counter, 2), 1);
	assert_int_equal(peek(opcode_of(N - 1), 1), ON);
	check_all(false, N - 1);
	assert_int_equal(count_journals(), 0);
}

/* ---- something fails ------------------------------------------------------------------------ */

/* Each call in its turn. */
TEST(whatever_fails_nothing_is_switched)
{
	static const enum moment moments[] = { REFRESH_CODE, REFRESH_COUNTERS, STOP, APPLY };

	for (int i = 0; i < 4; i++)
		for (int call = 1;; call++) {
			at(moments[i], call, failure);
			if (update(0) == 0) {
				assert_true(call > 2 && t.calls[moments[i]] == call - 1);
				check_all(true, N);
				switch_off();
				break;
			}
			assert_string_equal(ocp_error(t.ctx), "made to fail");
			check_all(false, N);
			assert_int_equal(count_journals(), 0);
			if (call > 20)
				fail_msg("moment %d fails for ever", moments[i]);
		}
}

TEST(without_memory_all_or_nothing_is_switched)
{
	for (int call = 1;; call++) {
		int err, calls;

		at(CALLOC, call, failure);
		err = update(0);
		calls = t.calls[CALLOC];
		check_all(err == 0, N);
		assert_int_equal(count_journals(), 0);
		if (!err)
			switch_off();
		if (calls < call)
			break;
	}
}

TEST(updates_go_on_without_a_journal)
{
	static const enum moment moments[] = { COMMIT, PROGRESS };
	struct ocp_undo *undo;

	for (int i = 0; i < 2; i++) {
		t.log[0] = '\0';
		at(moments[i], EACH, failure);
		assert_int_equal(update(0), 0);
		assert_int_equal(t.calls[moments[i]], 1);
		assert_non_null(strstr(t.log, "no undo journal: doctor cannot undo this"));
		assert_int_equal(count_journals(), 0);
		check_all(true, N);
		switch_off();
		/* Without a journal there is no promise. */
		at(moments[i], EACH, failure);
		assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), -EIO);
		assert_null(undo);
		check_all(false, N);
		assert_int_equal(count_journals(), 0);
	}
}

static int fail_from_the_second_on(void)
{
	return t.calls[APPLY] > 1 ? failure() : 0;
}

static void make_all_off(void)
{
	from_now_on();
	ask_for(false);
	assert_int_equal(update(OCP_FORCE), 0);
	ask_for(true);
	check_all(false, N);
}

/* What could not be undone stays on record, none of it sure to be done, and is told. */
TEST(what_cannot_be_undone_stays_on_record)
{
	struct ocp_undo *undo;

	at(APPLY, EACH, fail_from_the_second_on);
	assert_int_equal(update(0), -EIO);
	assert_string_equal(ocp_error(t.ctx),
			    "made to fail; 1024 probes switched before could not be restored");
	assert_int_equal(t.done[t.calls[PROGRESS] - 1], 0);
	assert_int_equal(t.begun, FIRST_SLICE);
	assert_int_equal(count_journals(), 1);
	make_all_off();
	assert_int_equal(count_journals(), 1);
	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	at(APPLY, EACH, failure);
	assert_int_equal(ocp_undo_run(undo), -EIO);
	assert_non_null(strstr(ocp_error(t.ctx), "1500 probes could not be switched back"));
	assert_int_equal(t.done[t.calls[PROGRESS] - 1], 0);
	assert_int_equal(t.begun, N);
	ocp_undo_free(undo);
	assert_int_equal(count_journals(), 2);
}

TEST_AGAIN(free_code_that_changes_is_left_alone, code_that_changes_is_left_alone, start_free,
	   end_update);
TEST_AGAIN(free_flags_say_when_it_stops, flags_say_when_it_stops, start_free, end_update);
TEST_AGAIN(free_undoing_leaves_alone_what_others_did, undoing_leaves_alone_what_others_did,
	   start_free, end_update);
TEST_AGAIN(free_without_memory_all_or_nothing_is_switched,
	   without_memory_all_or_nothing_is_switched, start_free, end_update);
