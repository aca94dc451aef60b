// SPDX-License-Identifier: MIT
#include "journal_place.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "change/switch/journal.h"

static void keep_warning(void *data, enum ocp_log_level level, const char *line)
{
	struct journal_place *place = data;

	(void)level;
	place->n_warnings++;
	snprintf(place->warnings, sizeof(place->warnings), "%s", line);
}

int journal_place_make(void **state)
{
	static struct journal_place place;

	place = (struct journal_place){ .ctx = ocp_ctx_new(),
					.runtime = "/tmp/test_journal.XXXXXX" };
	if (!place.ctx || !mkdtemp(place.runtime))
		return -1;
	ocp_ctx_set_log(place.ctx, keep_warning, &place, OCP_LOG_WARN);
	snprintf(place.dir, sizeof(place.dir), "%s/ocaml-probes", place.runtime);
	setenv("XDG_RUNTIME_DIR", place.runtime, 1);
	*state = &place;
	return 0;
}

int journal_place_remove(void **state)
{
	struct journal_place *place = *state;
	char command[200];

	snprintf(command, sizeof(command), "rm -rf '%s'", place->runtime);
	ocp_ctx_free(place->ctx);
	return system(command); /* NOLINT(cert-env33-c): our own path */
}

pid_t start_sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	return pid;
}

void end_sleeper(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

void write_some_journal(struct ocp_ctx *ctx, pid_t process, bool applied, size_t n)
{
	struct journal *journal;

	assert_int_equal(journal_open(ctx, process, JOURNAL_PROMISE, &journal), 0);
	assert_int_equal(journal_append(journal, ACTION_ENABLE, "alpha", 3, 4), 0);
	assert_int_equal(journal_commit(journal, 0, 0), 0);
	assert_int_equal(journal_append(journal, ACTION_DISABLE, "", 1, 0), 0);
	for (size_t i = 2; i < n; i++)
		assert_int_equal(journal_append(journal, ACTION_ENABLE, "more", 0, 1), 0);
	assert_int_equal(journal_commit(journal, 0, n), 0);
	if (applied)
		assert_int_equal(journal_progress(journal, n, n), 0);
	journal_close(journal);
}

pid_t journal_of_killed_tool(struct ocp_ctx *ctx, pid_t process, bool applied, size_t n)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		write_some_journal(ctx, process, applied, n);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return pid;
}
void put_journal(const struct journal_place *place, const char *name, const char *text)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", place->dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}
