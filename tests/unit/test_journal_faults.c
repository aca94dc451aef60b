// SPDX-License-Identifier: MIT
/* Journals when system calls or memory fail, and what counters tell. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal_place.h"
#include "change/switch/journal.h"

/* ---- system calls and memory that fail ------------------------------------------------------ */

enum { ENDLESS = 1 << 30, PIECE = 7 };

/* Calls that are interrupted from now on; reads that are cut short; which strdup() fails. */
static int n_interrupted, n_strdups;
static bool is_cut_short, asked_too_much;

static off_t file_bytes(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

static bool is_file(int fd)
{
	return file_bytes(fd) > 0;
}

WRAP(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
{
	if (n_interrupted > 0 && is_file(fd)) {
		n_interrupted--;
		errno = EINTR;
		return -1;
	}
	if (!is_cut_short || !is_file(fd))
		return __real_read(fd, to, n);
	if ((off_t)n + lseek(fd, 0, SEEK_CUR) > file_bytes(fd))
		asked_too_much = true;
	return __real_read(fd, to, n > PIECE ? PIECE : n);
}

WRAP(ssize_t, pwrite64, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
{
	if (n_interrupted > 0) {
		n_interrupted--;
		errno = EINTR;
		return -1;
	}
	return __real_pwrite64(fd, from, n, at);
}

WRAP(char *, strdup, (const char *text), (text))
{
	return n_strdups > 0 && --n_strdups == 0 ? NULL : __real_strdup(text);
}

EACH_TEST(journal_place_make, journal_place_remove);

TEST(journals_are_read_in_pieces)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t process = start_sleeper();

	journal_of_killed_tool(place->ctx, process, true, 100);
	is_cut_short = true;
	n_interrupted = 500;
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	is_cut_short = false;
	assert_int_equal(n_interrupted, 0);
	assert_false(asked_too_much);
	assert_int_equal(stale.n, 1);
	assert_int_equal(stale.list[0].n, 100);
	assert_string_equal(stale.list[0].entries[99].name, "more");
	journal_free_stale(&stale);
	end_sleeper(process);
}

/* A test that hangs is killed. */
TEST(interruptions_without_end)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	struct journal *journal;
	pid_t process = start_sleeper();

	alarm(60);
	journal_of_killed_tool(place->ctx, process, true, 2);
	n_interrupted = ENDLESS;
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	n_interrupted = 0;
	assert_int_equal(stale.n, 0);
	assert_non_null(strstr(place->warnings, "left out"));
	assert_int_equal(journal_open(place->ctx, process, JOURNAL_UPDATE, &journal), 0);
	assert_int_equal(journal_append(journal, ACTION_ENABLE, "alpha", 0, 1), 0);
	assert_int_equal(journal_commit(journal, 0, 1), 0);
	n_interrupted = 500;
	assert_int_equal(journal_progress(journal, 1, 1), 0);
	n_interrupted = ENDLESS;
	assert_int_equal(journal_progress(journal, 0, 1), -EINTR);
	n_interrupted = 0;
	journal_remove(journal);
	alarm(0);
	end_sleeper(process);
}

TEST(without_memory_no_journal_is_taken_for_none)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t process = start_sleeper();
	int call = 0;

	journal_of_killed_tool(place->ctx, process, true, 2);
	do {
		n_strdups = ++call;
		if (journal_find_stale(place->ctx, process, &stale) == 0)
			break;
		assert_int_equal(n_strdups, 0);
		assert_int_equal(stale.n, 0);
	} while (call < 20);
	assert_true(n_strdups > 0 && call > 2);
	n_strdups = 0;
	assert_int_equal(stale.n, 1);
	journal_free_stale(&stale);
	end_sleeper(process);
}

/* A full disk: what is cut off is no journal, and is not left over. */
TEST(files_that_cannot_be_written_whole)
{
	const struct rlimit little = { 1000, RLIM_INFINITY };
	struct journal_place *place = *state;
	struct journal *journal;
	struct rlimit before;

	assert_int_equal(journal_open(place->ctx, getpid(), JOURNAL_UPDATE, &journal), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(journal_append(journal, ACTION_ENABLE, "alpha", 0, 1), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_int_equal(journal_commit(journal, 0, 0), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(rmdir(place->dir), 0); /* it is empty */
	journal_close(journal);
}

/* Only a limited number of files of a directory is looked at. */
TEST(no_more_than_so_many_files_are_looked_at)
{
	enum { MAX_FILES = 4096 };
	struct journal_place *place = *state;
	struct stale_journals stale;
	char name[20];
	pid_t process = start_sleeper();

	journal_of_killed_tool(place->ctx, process, true, 2);
	for (int i = 0; i < MAX_FILES + 10; i++) {
		snprintf(name, sizeof(name), "1%d", i);
		put_journal(place, name, "");
	}
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(place->n_warnings + (int)stale.n, MAX_FILES);
	journal_free_stale(&stale);
	end_sleeper(process);
}

/* ---- counters ------------------------------------------------------------------------------- */

TEST(a_journal_has_the_counts_that_it_was_given)
{
	struct journal_place *place = *state;
	struct journal *journal;

	assert_int_equal(journal_open(place->ctx, getpid(), JOURNAL_UPDATE, &journal), 0);
	assert_int_equal(journal_append(journal, ACTION_ENABLE, "alpha", 3, 4), 0);
	assert_true(journal_has_counts(journal, 0, 3, 4));
	assert_false(journal_has_counts(journal, 0, 3, 5));
	assert_false(journal_has_counts(journal, 0, 2, 4));
	journal_set_counts(journal, 0, 2, 5);
	assert_true(journal_has_counts(journal, 0, 2, 5));
	journal_close(journal);
}

/* Of an entry that was begun the counter tells: it is closer to what it was to become. */
TEST(counters_tell_what_was_done)
{
	static const struct {
		int before, after, count;
		bool was_done;
	} cases[] = {
		{ 0, 1, 0, false },
		{ 0, 1, 1, true },
		{ 1, 0, 1, false },
		{ 1, 0, 0, true },
		{ 5, 0, 5, false },
		{ 5, 0, 3, false },
		{ 5, 0, 2, true },
		{ 5, 0, 0, true },
		{ 4, 0, 2, false },
		{ 0, 4, 2, false },
		{ JOURNAL_UNKNOWN, 1, 0, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct journal_entry entry = { .count_before = cases[i].before,
					       .count_after = cases[i].after };
		struct stale_journal journal = { .entries = &entry, .n = 1, .n_begun = 1 };

		assert_int_equal(journal_was_done(&journal, 0, cases[i].count), cases[i].was_done);
		journal.n_done = 1;
		assert_true(journal_was_done(&journal, 0, cases[i].count));
		journal.n_done = journal.n_begun = 0;
		assert_false(journal_was_done(&journal, 0, cases[i].count));
	}
}
