// SPDX-License-Identifier: MIT
/*
 * The program unit-tests: it runs what the files tests/unit/test_GROUP.c register (unit.h).
 *
 *	unit-tests [-j N] [-t SECONDS] [NAME...]   run the tests: all, or those of the NAMEs
 *	unit-tests --list [NAME...]                write GROUP/CASE, one a line
 *	unit-tests --program=NAME [ARGUMENT...]    be the program that a test needs
 *
 * A NAME is a pattern of groups (note, test_note, engine_*) or of GROUP/CASE.
 *
 * Each group runs in a process of its own, up to N at a time, and in a process group of its own,
 * which is killed at its end. What it writes comes out when it has ended: the output is TAP, with
 * one plan for all. A case fails if its process ends early, or ends badly after the last case.
 * The exit status is 0 if no case failed, 1 if one did, 2 if the command line is wrong.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GROUPS = 400, MAX_CASES = 200, USAGE = 2, FAILED_START = 3 };

struct group {
	const char *file;
	char name[64];
	bool is_alone, is_begun;
	const struct unit_entry *cases[MAX_CASES]; /* in the order of their lines */
	size_t n;
	pid_t pid; /* 0: it does not run */
	int output;
	double began;
};

static struct unit_entry *entries;
static struct group groups[MAX_GROUPS];
static size_t n_groups;
static size_t n_reported, n_failed;

/* In constructors, before main(). */
void unit_add(struct unit_entry *entry)
{
	entry->next = entries;
	entries = entry;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void die(const char *what, const char *why)
{
	fprintf(stderr, "unit-tests: %s: %s\n", what, why);
	exit(USAGE);
}

/* ---- which tests ---------------------------------------------------------------------------- */

static const struct unit_entry *entry_of(const char *file, enum unit_kind kind)
{
	const struct unit_entry *entry = entries;

	while (entry && (entry->kind != kind || strcmp(entry->file, file) != 0))
		entry = entry->next;
	return entry;
}

/* tests/unit/test_note.c is the group note. */
static void name_group(struct group *group, const char *file)
{
	const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;

	if (strncmp(base, "test_", 5) == 0)
		base += 5;
	snprintf(group->name, sizeof(group->name), "%.*s", (int)strcspn(base, "."), base);
	group->file = file;
	group->is_alone = entry_of(file, UNIT_ALONE) != NULL;
}

static struct group *group_of(const char *file)
{
	for (size_t i = 0; i < n_groups; i++)
		if (strcmp(groups[i].file, file) == 0)
			return &groups[i];
	if (n_groups == MAX_GROUPS)
		die(file, "too many groups");
	name_group(&groups[n_groups], file);
	return &groups[n_groups++];
}

static bool is_one_of(char *const *names, const char *group, const char *name)
{
	char with_prefix[256];
	const char *whole = with_prefix + strlen("test_");

	snprintf(with_prefix, sizeof(with_prefix), "test_%s/%s", group, name);
	for (; *names; names++) {
		const int flags = strchr(*names, '/') ? 0 : FNM_LEADING_DIR;

		if (fnmatch(*names, whole, flags) == 0 || fnmatch(*names, with_prefix, flags) == 0)
			return true;
	}
	return false;
}

static int by_line(const void *a, const void *b)
{
	return (*(const struct unit_entry *const *)a)->line -
	       (*(const struct unit_entry *const *)b)->line;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

/* All tests, if there are no NAMES. */
static void choose(char *const *names)
{
	for (const struct unit_entry *entry = entries; entry; entry = entry->next) {
		struct group *group;

		if (entry->kind != UNIT_TEST)
			continue;
		group = group_of(entry->file);
		if (*names && !is_one_of(names, group->name, entry->name))
			continue;
		if (group->n == MAX_CASES)
			die(group->name, "too many tests");
		group->cases[group->n++] = entry;
	}
	qsort(groups, n_groups, sizeof(groups[0]), by_name);
	for (size_t i = 0; i < n_groups; i++)
		qsort(groups[i].cases, groups[i].n, sizeof(struct unit_entry *), by_line);
}

/* Each NAME must mean a test. */
static void check(char *const *names)
{
	for (; *names; names++) {
		char *const name[] = { *names, NULL };
		bool is_known = false;

		for (const struct group *g = groups; g < groups + n_groups; g++)
			for (size_t i = 0; i < g->n; i++)
				is_known = is_known || is_one_of(name, g->name, g->cases[i]->name);
		if (!is_known)
			die(*names, "no such test");
	}
}

static size_t list(bool writes)
{
	size_t n = 0;

	for (const struct group *group = groups; group < groups + n_groups; group++)
		for (size_t i = 0; i < group->n; i++, n++)
			if (writes)
				printf("%s/%s\n", group->name, group->cases[i]->name);
	return n;
}

/* ---- a group: its process ------------------------------------------------------------------- */

static struct CMUnitTest cmocka_test(const struct group *group, const struct unit_entry *entry)
{
	const struct unit_entry *each = entry_of(group->file, UNIT_EACH);

	if (entry->has_own)
		each = entry;
	return (struct CMUnitTest){ entry->name, entry->test, each ? each->set_up : NULL,
				    each ? each->tear_down : NULL, NULL };
}

static int run(const struct group *group)
{
	const struct unit_entry *all = entry_of(group->file, UNIT_GROUP);
	struct CMUnitTest tests[MAX_CASES];

	setvbuf(stdout, NULL, _IONBF, 0); /* what a test writes on stderr comes before its result */
	setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);
	for (const struct unit_entry *entry = entries; entry; entry = entry->next)
		if (entry->kind == UNIT_START && strcmp(entry->file, group->file) == 0 &&
		    entry->start() != 0)
			return FAILED_START;
	for (size_t i = 0; i < group->n; i++)
		tests[i] = cmocka_test(group, group->cases[i]);
	return _cmocka_run_group_tests(group->name, tests, group->n, all ? all->set_up : NULL,
				       all ? all->tear_down : NULL) != 0;
}

static void begin(struct group *group, const sigset_t *mask)
{
	const pid_t parent = getpid();

	group->is_begun = true;
	group->began = now();
	group->output = memfd_create(group->name, MFD_CLOEXEC);
	if (group->output < 0)
		die(group->name, strerror(errno));
	fflush(NULL);
	group->pid = fork();
	if (group->pid < 0)
		die(group->name, strerror(errno));
	if (group->pid == 0) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		sigprocmask(SIG_SETMASK, mask, NULL);
		dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
		dup2(group->output, STDOUT_FILENO);
		dup2(group->output, STDERR_FILENO);
		close_range(STDERR_FILENO + 1, ~0U, 0);
		exit(run(group));
	}
	setpgid(group->pid, group->pid);
}

/* ---- what it wrote -------------------------------------------------------------------------- */

/* Result number N of cmocka; TEXT is what comes behind the number. */
static bool is_result(const char *line, size_t n, bool *is_ok, const char **text)
{
	unsigned long number;
	char *end;

	*is_ok = strncmp(line, "ok ", 3) == 0;
	if (!*is_ok && strncmp(line, "not ok ", 7) != 0)
		return false;
	number = strtoul(line + (*is_ok ? 3 : 7), &end, 10);
	*text = end;
	*is_ok = *is_ok || strncmp(end, " # SKIP", 7) == 0;
	return number == n;
}

static void report_case(const struct group *group, size_t i, bool is_ok, const char *comment)
{
	n_failed += !is_ok;
	printf("%sok %zu - %s/%s%s%s\n", is_ok ? "" : "not ", ++n_reported, group->name,
	       group->cases[i]->name, *comment ? " # " : "", comment);
}

/* Of its process: empty if that ended as it should. */
static void say_end(char *text, size_t bytes, int status, bool is_late, size_t failed)
{
	*text = '\0';
	if (is_late)
		snprintf(text, bytes, "did not end in time");
	else if (WIFSIGNALED(status))
		snprintf(text, bytes, "killed by signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) != (failed > 0))
		snprintf(text, bytes, "exit status %d", WEXITSTATUS(status));
}

/* Calls SEEN for each line that is a result, writes the others. Returns the number of results. */
static size_t read_output(const struct group *group, bool writes, size_t *failed, const char *end)
{
	FILE *output = fdopen(dup(group->output), "r");
	char *line = NULL;
	size_t seen = 0, room = 0;
	const char *text;
	bool is_ok;

	*failed = 0;
	rewind(output);
	for (ssize_t n; (n = getline(&line, &room, output)) > 0;) {
		line[strcspn(line, "\n")] = '\0';
		if (seen < group->n && is_result(line, seen + 1, &is_ok, &text)) {
			const char *skip = strstr(text, "# SKIP") ? "SKIP" : "";

			*failed += !is_ok;
			/* The process ended badly, but no case failed: its last one did. */
			if (++seen == group->n && is_ok && !*failed && *end)
				is_ok = false, skip = end;
			if (writes)
				report_case(group, seen - 1, is_ok, skip);
		} else if (writes && strncmp(line, "1..", 3) != 0 &&
			   strncmp(line, "# ok - ", 7) != 0 &&
			   strncmp(line, "# not ok - ", 11) != 0) {
			puts(line);
		}
	}
	free(line);
	fclose(output);
	return seen;
}

static void report(struct group *group, int status, bool is_late)
{
	char end[64];
	size_t failed, seen = read_output(group, false, &failed, "");

	say_end(end, sizeof(end), status, is_late, failed);
	read_output(group, true, &failed, end);
	for (size_t i = seen; i < group->n; i++)
		report_case(group, i, false, i > seen ? "did not run" : *end ? end : "no result");
	if (now() - group->began >= 1)
		printf("# %s took %.1f s\n", group->name, now() - group->began);
	fflush(stdout);
	close(group->output);
}

/* ---- all groups ----------------------------------------------------------------------------- */

static void kill_all(void)
{
	for (struct group *group = groups; group < groups + n_groups; group++)
		if (group->pid > 0)
			kill(-group->pid, SIGKILL);
}

static bool may_begin(const struct group *group)
{
	if (group->n == 0 || group->is_begun)
		return false;
	for (const struct group *other = groups; group->is_alone && other < groups + n_groups;
	     other++)
		if (other->is_alone && other->pid > 0)
			return false;
	return true;
}

/* Begin groups until N_RUNNING run. Returns how many do. */
static size_t begin_some(size_t n_running, const sigset_t *mask)
{
	size_t n = 0;

	for (struct group *group = groups; group < groups + n_groups; group++)
		n += group->pid > 0;
	for (struct group *group = groups; group < groups + n_groups && n < n_running; group++)
		if (may_begin(group)) {
			begin(group, mask);
			n++;
		}
	return n;
}

/* Those whose process has ended, or has run for SECONDS. */
static void end_some(double seconds)
{
	for (struct group *group = groups; group < groups + n_groups; group++) {
		siginfo_t info = { 0 };
		bool is_late;
		int status;

		if (group->pid <= 0)
			continue;
		is_late = now() - group->began > seconds;
		if (waitid(P_PID, (id_t)group->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    !info.si_pid && !is_late)
			continue;
		is_late = !info.si_pid;
		/*
		 * While the process is not waited for, the number of its process group is its own.
		 */
		kill(-group->pid, SIGKILL);
		waitpid(group->pid, &status, 0);
		group->pid = 0;
		report(group, status, is_late);
	}
}

static int run_all(size_t n_running, double seconds)
{
	const struct timespec a_second = { 1, 0 };
	sigset_t signals, before;
	int sig;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &before);
	printf("1..%zu\n", list(false));
	while (begin_some(n_running, &before) > 0) {
		sig = sigtimedwait(&signals, NULL, &a_second);
		if (sig == SIGINT || sig == SIGTERM) {
			kill_all();
			return 128 + sig;
		}
		end_some(seconds);
	}
	return n_failed > 0;
}

static int run_program(const char *name, int argc, char **argv)
{
	for (const struct unit_entry *entry = entries; entry; entry = entry->next)
		if (entry->kind == UNIT_PROGRAM && strcmp(entry->name, name) == 0)
			return entry->program(argc, argv);
	die(name, "no such program");
	return USAGE;
}

static double number(const char *option, const char *text)
{
	char *end;
	const double value = text ? strtod(text, &end) : 0;

	if (!text || *end || value <= 0)
		die(option, "needs a number");
	return value;
}

int main(int argc, char **argv)
{
	double n_running = 1, seconds = 1200;
	bool lists = false;
	int i = 1;

	if (argc > 1 && strncmp(argv[1], "--program=", 10) == 0)
		return run_program(argv[1] + 10, argc - 1, argv + 1);
	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--list") == 0)
			lists = true;
		else if (strncmp(argv[i], "-j", 2) == 0)
			n_running = number("-j", argv[i][2] ? argv[i] + 2 : argv[++i]);
		else if (strncmp(argv[i], "-t", 2) == 0)
			seconds = number("-t", argv[i][2] ? argv[i] + 2 : argv[++i]);
		else
			die(argv[i], "no such option");
	}
	choose(argv + i);
	check(argv + i);
	if (lists)
		return list(true) == 0;
	return run_all((size_t)n_running, seconds);
}
