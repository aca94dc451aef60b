// SPDX-License-Identifier: MIT
/* Journals: what survives a tool that dies, and what is not believed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "journal_place.h"
#include "change/switch/journal.h"
#include "look/proc_file.h"
#include "unit.h"

EACH_TEST(journal_place_make, journal_place_remove);

TEST(a_dead_tools_journal_is_found)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t process = start_sleeper(),
	      tool = journal_of_killed_tool(place->ctx, process, true, 2);

	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(stale.n, 1);
	assert_int_equal(stale.list[0].tool, tool);
	assert_int_equal(stale.list[0].kind, JOURNAL_PROMISE);
	assert_int_equal(stale.list[0].n, 2);
	assert_int_equal(stale.list[0].n_done, 2);
	assert_int_equal(stale.list[0].n_begun, 2);
	assert_string_equal(stale.list[0].entries[0].name, "alpha");
	assert_int_equal(stale.list[0].entries[0].verb, ACTION_ENABLE);
	assert_int_equal(stale.list[0].entries[0].count_before, 3);
	assert_int_equal(stale.list[0].entries[0].count_after, 4);
	assert_string_equal(stale.list[0].entries[1].name, "");
	assert_int_equal(stale.list[0].entries[1].verb, ACTION_DISABLE);
	assert_int_equal(stale.list[0].entries[1].count_before, 1);
	assert_int_equal(stale.list[0].entries[1].count_after, 0);
	assert_int_equal(journal_remove_stale(place->ctx, &stale.list[0]), 0);
	assert_int_equal(journal_remove_stale(place->ctx, &stale.list[0]), 0);
	journal_free_stale(&stale);
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(stale.n, 0);
	end_sleeper(process);
}

TEST(several_tools_and_many_entries)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t process = start_sleeper();

	journal_of_killed_tool(place->ctx, process, false, 100000);
	journal_of_killed_tool(place->ctx, process, true, 2);
	journal_of_killed_tool(place->ctx, getpid(), true, 2);
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(stale.n, 2);
	assert_int_equal(stale.list[0].n + stale.list[1].n, 100002);
	journal_free_stale(&stale);
	end_sleeper(process);
}

/* One tool, one process, two journals: neither replaces the other. */
TEST(two_journals_of_one_tool)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t tool = fork();

	assert_true(tool >= 0);
	if (tool == 0) {
		write_some_journal(place->ctx, getppid(), true, 2);
		write_some_journal(place->ctx, getppid(), true, 3);
		_exit(0);
	}
	assert_int_equal(waitpid(tool, NULL, 0), tool);
	assert_int_equal(journal_find_stale(place->ctx, getpid(), &stale), 0);
	assert_int_equal(stale.n, 2);
	journal_free_stale(&stale);
}

TEST(a_living_tools_journal_is_its_own)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	struct journal *journal;
	pid_t process = start_sleeper();

	assert_int_equal(journal_open(place->ctx, process, JOURNAL_UPDATE, &journal), 0);
	assert_int_equal(journal_append(journal, ACTION_ENABLE, "alpha", 0, 1), 0);
	assert_int_equal(journal_commit(journal, 0, 1), 0);
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(stale.n, 0);
	journal_remove(journal);
	assert_int_equal(rmdir(place->dir), 0); /* it is empty */
	end_sleeper(process);
}

TEST(journals_of_ended_processes_are_deleted)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t process = start_sleeper();

	journal_of_killed_tool(place->ctx, process, true, 2);
	end_sleeper(process);
	assert_int_equal(journal_find_stale(place->ctx, getpid(), &stale), 0);
	assert_int_equal(stale.n, 0);
	assert_int_equal(rmdir(place->dir), 0);
	assert_int_equal(
		journal_open(place->ctx, process, JOURNAL_UPDATE, &(struct journal *){ NULL }),
		-ESRCH);
}

static void expect_none(struct journal_place *place, const char *warning)
{
	struct stale_journals stale;

	place->warnings[0] = '\0';
	assert_int_equal(journal_find_stale(place->ctx, getpid(), &stale), 0);
	assert_int_equal(stale.n, 0);
	if (!strstr(place->warnings, warning))
		fail_msg("expected \"%s\", the warning is: %s", warning, place->warnings);
}

/* Numbers are those of the steps; in the file stand the entries that change something. */
TEST(entries_without_effect_are_left_out)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	pid_t tool = fork();

	assert_true(tool >= 0);
	if (tool == 0) {
		struct journal *journal;

		assert_int_equal(journal_open(place->ctx, getppid(), JOURNAL_UPDATE, &journal), 0);
		for (int i = 0; i < 6; i++)
			assert_int_equal(journal_append(journal, ACTION_DISABLE,
							i % 2 ? "odd" : "even", i % 2, 0),
					 0);
		assert_int_equal(journal_commit(journal, 0, 2), 0);
		assert_true(journal_has_counts(journal, 4, 0, 0));
		journal_set_counts(journal, 4, 7, 6);
		assert_int_equal(journal_commit(journal, 4, 6), 0);
		assert_int_equal(journal_progress(journal, 2, 5), 0);
		_exit(0);
	}
	assert_int_equal(waitpid(tool, NULL, 0), tool);
	assert_int_equal(journal_find_stale(place->ctx, getpid(), &stale), 0);
	assert_int_equal(stale.n, 1);
	assert_int_equal(stale.list[0].kind, JOURNAL_UPDATE);
	assert_int_equal(stale.list[0].n, 4);
	assert_string_equal(stale.list[0].entries[2].name, "even");
	assert_int_equal(stale.list[0].entries[2].count_before, 7);
	assert_int_equal(stale.list[0].n_done, 1);
	assert_int_equal(stale.list[0].n_begun, 3);
	assert_int_equal(journal_reopen_stale(place->ctx, &stale.list[0]), 0);
	journal_free_stale(&stale);
	assert_int_equal(journal_find_stale(place->ctx, getpid(), &stale), 0);
	assert_int_equal(stale.list[0].n_done, 0);
	assert_int_equal(stale.list[0].n_begun, 4);
	journal_free_stale(&stale);
}

/* The same process, but not the program that was switched: its counters are new. */
TEST(an_exec_ends_a_journal)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	int go[2], gone[2];
	char byte;
	pid_t process;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe2(gone, O_CLOEXEC), 0);
	process = fork();
	assert_true(process >= 0);
	if (process == 0) {
		if (read(go[0], &byte, 1) == 1)
			execl("/bin/sleep", "sleep", "1000", (char *)NULL);
		_exit(127);
	}
	close(gone[1]);
	journal_of_killed_tool(place->ctx, process, true, 2);
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(stale.n, 1);
	journal_free_stale(&stale);
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(read(gone[0], &byte, 1), 0);
	assert_int_equal(journal_find_stale(place->ctx, process, &stale), 0);
	assert_int_equal(stale.n, 0);
	assert_int_equal(rmdir(place->dir), 0);
	end_sleeper(process);
	close(go[0]);
	close(go[1]);
	close(gone[0]);
}

TEST(what_was_cut_off_in_writing_goes_when_it_is_old)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	struct journal_place *place = *state;
	char path[300], mine[100];

	assert_int_equal(mkdir(place->dir, 0700), 0);
	snprintf(mine, sizeof(mine), ".1.2.%d.3", getpid());
	put_journal(place, ".1.2.4194303.3", "");
	put_journal(place, mine, "");
	expect_none(place, "");
	snprintf(path, sizeof(path), "%s/.1.2.4194303.3", place->dir);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	expect_none(place, "");
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/%s", place->dir, mine);
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	expect_none(place, "");
	assert_int_equal(access(path, F_OK), 0);
}

/* The first entries are done, the last are not, whatever the counters are. */
TEST(the_counters_tell_of_what_was_begun)
{
	struct journal_entry entries[] = {
		{ .count_before = 0, .count_after = 1 },
		{ .count_before = 2, .count_after = 1 },
		{ .count_before = 4, .count_after = 0 },
		{ .count_before = 0, .count_after = 1 },
	};
	const struct stale_journal journal = {
		.entries = entries, .n = 4, .n_done = 1, .n_begun = 3
	};

	for (int count = 0; count < 10; count++) {
		assert_true(journal_was_done(&journal, 0, count));
		assert_int_equal(journal_was_done(&journal, 1, count), count <= 1);
		assert_int_equal(journal_was_done(&journal, 2, count), count <= 1);
		assert_false(journal_was_done(&journal, 3, count));
	}
}

/* A zombie waits for its parent only; it has ended. */
TEST(a_zombie_tool_is_dead)
{
	struct journal_place *place = *state;
	struct stale_journals stale;
	siginfo_t info;
	pid_t tool = fork();

	assert_true(tool >= 0);
	if (tool == 0) {
		write_some_journal(place->ctx, getppid(), true, 2);
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)tool, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(journal_find_stale(place->ctx, getpid(), &stale), 0);
	assert_int_equal(stale.n, 1);
	journal_free_stale(&stale);
	assert_int_equal(waitpid(tool, NULL, 0), tool);
}

TEST(folders_that_others_can_reach_are_not_used)
{
	struct journal_place *place = *state;
	char elsewhere[120];

	journal_of_killed_tool(place->ctx, getpid(), true, 2);
	chmod(place->dir, 0750);
	expect_none(place, "is not used");
	chmod(place->dir, 0700);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", place->runtime);
	assert_int_equal(rename(place->dir, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, place->dir), 0);
	expect_none(place, "");
	assert_int_equal(unlink(place->dir), 0);
	assert_int_equal(rename(elsewhere, place->dir), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(place->dir, 65534, 65534), 0);
		expect_none(place, "is not used");
	}
}

TEST(files_that_are_no_journals)
{
	enum { MOST_BYTES = 32 << 20 };
	struct journal_place *place = *state;
	char path[300];

	assert_int_equal(mkdir(place->dir, 0700), 0);
	put_journal(place, "1", "");
	expect_none(place, "is damaged: not a journal of this version");
	put_journal(place, "1", "ocaml-probes journal 4\n");
	expect_none(place, "not a journal of this version");
	put_journal(place, ".temporary", "junk");
	put_journal(place, "readme", "junk");
	snprintf(path, sizeof(path), "%s/1", place->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_none(place, "left out: not a regular file of");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	expect_none(place, "");
	assert_int_equal(unlink(path), 0);
	put_journal(place, "1", "x");
	assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
	expect_none(place, "not a regular file of uid");
	assert_int_equal(truncate(path, MOST_BYTES + 1), 0);
	expect_none(place, "not a regular file of uid");
	assert_int_equal(truncate(path, MOST_BYTES), 0);
	expect_none(place, "not a journal of this version");
}

/*
 * A journal about this very process: its FIRST line, its STATE (the kind and the progress), its
 * LINES.
 */
static void make_text_of(const char *first, char *text, size_t bytes, const char *state,
			 const char *lines)
{
	char boot[64];
	uint64_t start;
	struct stat st;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%63s", boot), 1);
	fclose(f);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(proc_start_time(getpid(), &start), 0);
	snprintf(text, bytes,
		 "%s\nboot %s\npid-namespace %lu\nprocess %d %lu\nprogram 0\ntool 4194303 1\n%s%s",
		 first, boot, (unsigned long)st.st_ino, getpid(), start, state, lines);
}

static void make_text(char *text, size_t bytes, const char *state, const char *lines)
{
	make_text_of("ocaml-probes journal 3", text, bytes, state, lines);
}

static const char no_progress[] = "promise\nprogress 0000000000 0000000000\n";

static int parse(struct ocp_ctx *ctx, const char *text, struct journal_text *about, size_t *n)
{
	struct stale_journal journal = { 0 };
	char *copy = strdup(text);
	int err;

	assert_non_null(copy);
	err = journal_parse(ctx, "journal", copy, about, &journal);
	*n = journal.n;
	for (size_t i = 0; i < journal.n; i++)
		free(journal.entries[i].name);
	free(journal.entries);
	free(copy);
	return err;
}

TEST(counters_may_be_unknown)
{
	struct journal_place *place = *state;
	struct stale_journal journal = { 0 };
	struct journal_text about;
	char text[1000];

	make_text(text, sizeof(text), "promise\nprogress 0000000003 0000000003\n",
		  "enable a -1 -1\ndisable b -1 -1\nenable c 65534 65535\nend\n");
	assert_int_equal(journal_parse(place->ctx, "journal", text, &about, &journal), 0);
	assert_int_equal(journal.n, 3);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(journal.entries[i].count_before, JOURNAL_UNKNOWN);
		assert_int_equal(journal.entries[i].count_after, JOURNAL_UNKNOWN);
	}
	assert_int_equal(journal.entries[2].count_before, 65534);
	assert_int_equal(journal.entries[2].count_after, 65535);
	journal_free_entries(journal.entries, journal.n);
}

/* The program's random bytes, all of them, and no others. */
TEST(programs_are_known_by_their_random_bytes)
{
	const uint8_t *random = (const uint8_t *)getauxval(AT_RANDOM); /* NOLINT(*-no-int-to-ptr) */
	struct journal_place *place = *state;
	uint64_t fnv1a = 14695981039346656037U;

	for (int i = 0; i < 16; i++)
		fnv1a = (fnv1a ^ random[i]) * 1099511628211U;
	assert_true(journal_program_id(place->ctx, getpid()) == fnv1a);
}

TEST(pids_of_elsewhere_mean_nothing)
{
	struct journal_place *place = *state;
	struct journal_text about;
	char text[1000];
	size_t n;

	make_text(text, sizeof(text), no_progress, "end\n");
	*(strstr(text, "pid-namespace ") + 14) = '1' + '9' - *(strstr(text, "pid-namespace ") + 14);
	assert_int_equal(parse(place->ctx, text, &about, &n), 0);
	assert_true(about.other_namespace);
	make_text(text, sizeof(text), no_progress, "end\n");
	*(strstr(text, "boot ") + 5) = 'x';
	assert_int_equal(parse(place->ctx, text, &about, &n), 0);
	assert_false(about.other_namespace);
	assert_false(about.process_lives);
}

TEST(other_versions_are_refused)
{
	static const char *const first[] = {
		"ocaml-probes journal 0", "ocaml-probes journal 1",  "ocaml-probes journal 2",
		"ocaml-probes journal 4", "ocaml-probes journal 33", "ocaml-probes journal 3 ",
		"ocaml-probes journal",	  "ocaml-probes journal ",   "",
	};
	struct journal_place *place = *state;
	struct journal_text about;
	char text[1200];
	size_t n;

	make_text(text, sizeof(text), no_progress, "end\n");
	assert_int_equal(parse(place->ctx, text, &about, &n), 0);
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		make_text_of(first[i], text, sizeof(text), no_progress, "end\n");
		if (parse(place->ctx, text, &about, &n) != -EBADMSG)
			fail_msg("was taken: '%s'", first[i]);
	}
}

TEST(lines_are_checked)
{
	static const char actions[] = "enable a 1 2\ndisable b 1 0\nend\n";
	static const char sound[] = "update\nprogress 0000000001 0000000002\n";
	static const char *const bad_states[] = {
		"update\nprogress 0000000002 0000000001\n",
		"update\nprogress 0000000000 0000000003\n",
		"update\nprogress 1 2\n",
		"update\n",
		"applied\n",
		"upgrade\nprogress 0000000001 0000000002\n",
		"update\nprogress 000000000x 0000000002\n",
	};
	static const char *const bad_actions[] = {
		"enable a 1\nend\n",
		"enable a 1 65536\nend\n",
		"enable a 1 2 3\nend\n",
		"enable a 1 -2\nend\n",
		"enable a 1 2\n",
		"enable a 1  2\nend\n",
		"enable a 1 2\nend\nx\n",
		"enable a b 1\nend\n",
		"enable a;b 1 2\nend\n",
		"enable ../x 1 2\nend\n",
		"enable a 65536 1\nend\n",
		"enable a +1 2\nend\n",
		"enable\nend\n",
		"enabled a 1 2\nend\n",
		" enable a 1 2\nend\n",
		"\nend\n",
		"enable a 1 2 \nend\n",
		"enable a 1 2\r\nend\n",
		"enable a 1 2",
	};
	struct journal_place *place = *state;
	struct journal_text about;
	char text[1200];
	size_t n;

	make_text(text, sizeof(text), sound, actions);
	assert_int_equal(parse(place->ctx, text, &about, &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(about.process, getpid());
	assert_true(about.process_lives);
	assert_false(about.tool_lives);
	assert_false(about.other_namespace);
	for (size_t i = 0; i < strlen(text); i++) {
		char prefix[1200];

		snprintf(prefix, sizeof(prefix), "%.*s", (int)i, text);
		assert_int_equal(parse(place->ctx, prefix, &about, &n), -EBADMSG);
	}
	for (size_t i = 0; i < sizeof(bad_states) / sizeof(bad_states[0]); i++) {
		make_text(text, sizeof(text), bad_states[i], actions);
		if (parse(place->ctx, text, &about, &n) != -EBADMSG)
			fail_msg("was taken: %s", bad_states[i]);
	}
	for (size_t i = 0; i < sizeof(bad_actions) / sizeof(bad_actions[0]); i++) {
		make_text(text, sizeof(text), "update\nprogress 0000000000 0000000001\n",
			  bad_actions[i]);
		if (parse(place->ctx, text, &about, &n) != -EBADMSG)
			fail_msg("was taken: %s", bad_actions[i]);
	}
}

/* Every prefix is refused, and noise is survived. */
TEST(noise)
{
	struct journal_place *place = *state;
	struct journal_text about;
	char text[1000], spoilt[1000];
	unsigned int seed = 3;
	size_t n, bytes;

	make_text(text, sizeof(text), "update\nprogress 0000000001 0000000002\n",
		  "enable alpha 1 2\ndisable  0 -1\nend\n");
	bytes = strlen(text);
	for (size_t i = 0; i < bytes; i++) {
		snprintf(spoilt, sizeof(spoilt), "%.*s", (int)i, text);
		assert_int_equal(parse(place->ctx, spoilt, &about, &n), -EBADMSG);
	}
	for (int i = 0; i < 20000; i++) {
		memcpy(spoilt, text, bytes + 1);
		for (int j = 0; j < 3; j++)
			spoilt[(size_t)rand_r(&seed) % bytes] = (char)rand_r(&seed);
		parse(place->ctx, spoilt, &about, &n);
	}
}
