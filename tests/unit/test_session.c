// SPDX-License-Identifier: MIT
/* The loop of commands: in which order events are handled, and what ends a session. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/session.h"
#include "unit.h"

enum { MS = 1000 * 1000 };

/* The events so far, a letter for each. */
struct record {
	char letters[64];
	size_t n;
	int pipe[2];
	int64_t pause_end_ns; /* 0: not yet */
};

static enum ending note(struct record *record, char letter)
{
	record->letters[record->n++] = letter;
	return record->n < sizeof(record->letters) - 1 ? NOT_ENDED : ENDED_BY_ERROR;
}

static enum ending on_grid(void *data)
{
	return note(data, 'g');
}

static enum ending on_pause(void *data)
{
	struct record *record = data;
	const int64_t end_ns = record->pause_end_ns;

	/* The second one ends the session. */
	if (end_ns) {
		assert_true(session_now_ns() >= end_ns + 50 * MS);
		return ENDED_BY_ERROR;
	}
	usleep(30 * 1000);
	record->pause_end_ns = session_now_ns();
	return note(record, 'p');
}

static enum ending on_pipe(void *data, short revents)
{
	struct record *record = data;
	char byte;

	assert_true(revents & POLLIN);
	assert_int_equal(read(record->pipe[0], &byte, 1), 1);
	return note(record, byte);
}

static enum ending raise_signal(void *data)
{
	raise(SIGTERM);
	return note(data, 's');
}

TEST(a_grid_and_a_pause)
{
	struct session session;
	struct record record = { 0 };
	const int64_t now_ns = session_now_ns();
	struct session_timer timers[] = {
		session_every(now_ns - 95 * MS, 100 * MS, on_grid),
		session_every(now_ns, 0, on_grid),
		session_pause(50 * MS, on_pause),
	};

	assert_int_equal(session_open(&session, NULL, 0), EXIT_DONE);
	assert_int_equal(session_run(&session, &(struct session_events){ .timers = timers,
									 .n_timers = 3,
									 .data = &record }),
			 ENDED_BY_ERROR);
	/* The grid: at 5 ms, 105 ms ... The pause: at 50 ms, and 50 ms after its end. */
	assert_int_equal(record.letters[0], 'g');
	assert_non_null(strchr(record.letters, 'p'));
	assert_int_equal((timers[0].next_ns - now_ns) % (100 * MS), 5 * MS);
	assert_true(timers[1].next_ns == INT64_MAX);
	session_close(&session);
}

TEST(descriptors_come_before_timers)
{
	struct session session;
	struct record record = { 0 };
	struct session_timer timers[] = { session_every(0, 1, on_grid), session_every(0, 1, NULL) };
	struct session_fd fd = { .events = POLLIN, .fire = on_pipe };

	assert_int_equal(session_open(&session, NULL, 0), EXIT_DONE);
	assert_int_equal(pipe(record.pipe), 0);
	assert_int_equal(write(record.pipe[1], "d", 1), 1);
	fd.fd = record.pipe[0];
	timers[0].period_ns = 0;
	assert_int_equal(session_run(&session, &(struct session_events){ .fds = &fd,
									 .n_fds = 1,
									 .timers = timers,
									 .n_timers = 2,
									 .data = &record }),
			 ENDED_BY_TIME);
	assert_string_equal(record.letters, "dg");
	close(record.pipe[0]);
	close(record.pipe[1]);
	session_close(&session);
}

/* Timers that are always due do not keep a signal from being read. */
TEST(a_signal_ends_it)
{
	struct session session;
	struct record record = { 0 };
	struct session_timer timers[] = { session_pause(0, on_grid) };
	struct session_timer once = { .fire = raise_signal };

	assert_int_equal(session_open(&session, NULL, 0), EXIT_DONE);
	assert_int_equal(session_run(&session,
				     &(struct session_events){
					     .timers = &once,
					     .n_timers = 1,
					     .data = &record,
				     }),
			 ENDED_BY_SIGNAL);
	assert_int_equal(session.signal, SIGTERM);
	raise(SIGINT);
	timers[0].next_ns = 0;
	assert_int_equal(session_run(&session, &(struct session_events){ .timers = timers,
									 .n_timers = 1,
									 .data = &record }),
			 ENDED_BY_SIGNAL);
	assert_string_equal(record.letters, "s");
	assert_int_equal(session_take_signal(&session), 0);
	raise(SIGHUP);
	assert_int_equal(session_take_signal(&session), SIGHUP);
	session_close(&session);
}

TEST(it_ends_with_the_last_process)
{
	struct session session;
	pid_t children[2];

	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (!children[i]) {
			usleep(i ? 30 * 1000 : 1000);
			_exit(0);
		}
	}
	assert_int_equal(session_open(&session, children, 2), EXIT_DONE);
	assert_int_equal(session_wait(&session, INT64_MAX), ENDED_WITH_PROCESS);
	assert_int_equal(session.n_alive, 0);
	session_close(&session);
	while (wait(NULL) > 0)
		;
}

TEST(a_child_gets_the_signals)
{
	struct session session;
	struct workload child;
	pid_t pid = fork();

	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(session_open(&session, NULL, 0), EXIT_DONE);
	assert_int_equal(session_adopt_workload(&session, &child, pid), EXIT_DONE);
	kill(getpid(), SIGUSR1);
	session_await_workload(&session);
	assert_true(child.has_ended && WIFSIGNALED(child.status));
	assert_int_equal(WTERMSIG(child.status), SIGUSR1);
	session_close(&session);
	workload_close(&child);
}
