// SPDX-License-Identifier: MIT
/*
 * Finding, judging and settling the journals of tools that were killed.
 *
 * If root runs this tool, it reads the files of other users, too, but it trusts the files of a user
 * only about that user's processes.
 *
 * The first DONE actions of a journal were done, even if other tools have switched the probes
 * since. The actions from BEGUN on were not done. For each action in between, the probe's counter
 * decides: it is nearer to COUNT-BEFORE or to COUNT-AFTER. (If another tool enables such a probe
 * after the kill and before doctor runs, this can be mistaken for an enable by the killed tool.)
 *
 * The functions below name the tests of tests/unit/test_journal.c that cover them.
 */
#include "process/journal_search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/interrupted.h"
#include "process/journal_folder.h"
#include "process/journal_format.h"
#include "tracee/proc_file.h"

enum {
	MAX_JOURNAL_BYTES = 32 << 20, /* 100 000 names of 300 characters */
	MAX_FILES = 4096,	      /* read in one directory */
	/* The age at which a temporary file is abandoned: writing a journal takes milliseconds. */
	OLD_SECONDS = 60,
};

/* ---- finding them --------------------------------------------------------------------------- */

static void free_stale(struct stale_journal *journal)
{
	journal_free_entries(journal->entries, journal->n);
	free(journal->dir);
	free(journal->file);
	*journal = (struct stale_journal){ 0 };
}

/*
 * Read the text of FILE. Return NULL if FILE cannot be read, or (with a log message) if FILE is not
 * a regular file of user UID, or is too large.
 */
static char *read_journal_text(struct ocp_ctx *ctx, int dir_fd, const char *path, const char *file,
			       uid_t uid)
{
	int fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct interruptions interruptions = { 0 };
	char *text = NULL;
	size_t done = 0;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != uid ||
	    st.st_size > MAX_JOURNAL_BYTES) {
		ctx_log(ctx, OCP_LOG_WARN,
			"%s: left out: not a regular file of uid %u of at most %d bytes", path, uid,
			MAX_JOURNAL_BYTES);
		close(fd);
		return NULL;
	}
	text = malloc((size_t)st.st_size + 1);
	while (text && done < (size_t)st.st_size) {
		ssize_t n = read(fd, text + done, (size_t)st.st_size - done);

		if (n < 0 && is_interrupted(&interruptions))
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (text)
		text[done] = '\0';
	close(fd);
	return text;
}

static int keep_stale(struct ocp_ctx *ctx, struct stale_journals *stale,
		      struct stale_journal *journal)
{
	struct stale_journal *new = array_add(stale->list, stale->n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = *journal;
	*journal = (struct stale_journal){ 0 };
	return 0;
}

/*
 * Return true if the journal is about PROCESS, which is alive, and its tool is dead. Test:
 * a_living_tools_journal_is_its_own.
 */
static bool is_left_behind(const struct journal_text *about, pid_t process)
{
	return about->process_lives && about->process == process && !about->tool_lives;
}

/*
 * Return true if the process has executed another program since the journal was written. The
 * journal then does not apply to its probes.
 */
static bool is_of_another_program(struct ocp_ctx *ctx, const struct journal_text *about)
{
	uint64_t program = about->program ? journal_program_id(ctx, about->process) : 0;

	return program && program != about->program;
}

/*
 * Read the journal FILE. If its process has ended, delete FILE. If it is about PROCESS and its tool
 * is dead, add it to STALE, or delete it if PROCESS runs another program now. Otherwise leave it
 * alone.
 */
static int look_at_journal(struct ocp_ctx *ctx, int dir_fd, const char *dir, const char *file,
			   uid_t uid, pid_t process, struct stale_journals *stale)
{
	struct stale_journal journal = { .owner = uid, .dir = strdup(dir), .file = strdup(file) };
	struct journal_text about;
	char *path = NULL, *text;
	int err = 0;

	if (asprintf(&path, "%s/%s", dir, file) < 0)
		path = NULL;
	if (!path || !journal.dir || !journal.file) {
		free(path);
		free_stale(&journal);
		return ctx_no_memory(ctx);
	}
	text = read_journal_text(ctx, dir_fd, path, file, uid);
	if (text)
		err = journal_parse(ctx, path, text, &about, &journal);
	/* Test: files_that_are_no_journals. */
	if (err && err != -ENOMEM) {
		ctx_log(ctx, OCP_LOG_WARN, "left out: %s", ocp_error(ctx));
		err = 0;
	} else if (!err && text && !about.other_namespace) {
		/* Tests: pids_of_elsewhere_mean_nothing; an_exec_ends_a_journal. */
		bool is_left = is_left_behind(&about, process);

		/* Test: journals_of_ended_processes_are_deleted. */
		if (!about.process_lives || (is_left && is_of_another_program(ctx, &about)))
			unlinkat(dir_fd, file, 0);
		else if (is_left)
			err = keep_stale(ctx, stale, &journal);
	}
	free(path);
	free(text);
	free_stale(&journal);
	return err;
}

/*
 * Delete a temporary file if its tool was killed while writing it.
 * Test: what_was_cut_off_in_writing_goes_when_it_is_old.
 */
static void look_at_temporary(int dir_fd, const char *file)
{
	struct stat st;
	int tool;

	/* A tool of another pid namespace may be writing the file: wait until the file is old. */
	if (sscanf(file, ".%*d.%*u.%d.", &tool) != 1 ||
	    fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    time(NULL) - st.st_mtime < OLD_SECONDS)
		return;
	if (tool > 0 && kill(tool, 0) != 0 && errno == ESRCH)
		unlinkat(dir_fd, file, 0);
}

static int look_in(struct ocp_ctx *ctx, const char *path, uid_t uid, pid_t process,
		   struct stale_journals *stale)
{
	int fd = journal_folder_open(ctx, path, uid, OCP_LOG_WARN), err = 0, looked = 0;
	struct dirent *entry;
	DIR *dir;

	if (fd < 0)
		return 0;
	dir = fdopendir(fd);
	if (!dir) {
		err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
		close(fd);
		return err;
	}
	while (!err && looked < MAX_FILES && (errno = 0, entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			look_at_temporary(fd, entry->d_name);
		/* The names of journals start with a pid. */
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		looked++;
		err = look_at_journal(ctx, fd, path, entry->d_name, uid, process, stale);
	}
	if (!err && looked < MAX_FILES && errno)
		err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	closedir(dir);
	return err;
}

static int look_for_user(struct ocp_ctx *ctx, uid_t uid, pid_t process,
			 struct stale_journals *stale)
{
	char paths[N_JOURNAL_FOLDERS][PATH_MAX];
	int n = 0, err = 0;

	for (int folder = 0; !err && folder < N_JOURNAL_FOLDERS; folder++) {
		bool seen = false;

		if (!journal_folder_path(uid, folder, paths[n]))
			continue;
		/* $XDG_RUNTIME_DIR is usually /run/user/UID. */
		for (int i = 0; i < n; i++)
			seen |= strcmp(paths[i], paths[n]) == 0;
		if (seen)
			continue;
		err = look_in(ctx, paths[n++], uid, process, stale);
	}
	return err;
}

int journal_find_stale(struct ocp_ctx *ctx, pid_t process, struct stale_journals *stale)
{
	struct proc_status status;
	int err = proc_status_read(ctx, process, &status);

	*stale = (struct stale_journals){ 0 };
	if (err)
		return err;
	err = look_for_user(ctx, geteuid(), process, stale);
	/*
	 * The real user of a set-user-ID process is not trusted.
	 * Test: doctor.sh: test_root_finds_another_users_journal.
	 */
	if (!err && geteuid() == 0 && status.real_uid != 0 &&
	    status.real_uid == status.effective_uid)
		err = look_for_user(ctx, status.real_uid, process, stale);
	if (err)
		journal_free_stale(stale);
	return err;
}

/* ---- settling them -------------------------------------------------------------------------- */

/* Test: the_counters_tell_of_what_was_begun. */
bool journal_was_done(const struct stale_journal *journal, size_t entry, int count)
{
	const struct journal_entry *e = &journal->entries[entry];

	if (entry < journal->n_done)
		return true;
	if (entry >= journal->n_begun)
		return false;
	if (e->count_before == JOURNAL_UNKNOWN)
		return true;
	return abs(count - e->count_after) < abs(count - e->count_before);
}

int journal_reopen_stale(struct ocp_ctx *ctx, const struct stale_journal *journal)
{
	int dir_fd = journal_folder_open(ctx, journal->dir, journal->owner, OCP_LOG_WARN), fd, err;

	if (dir_fd < 0)
		return ctx_error(ctx, -ENOENT, "%s: can no longer be used", journal->dir);
	fd = openat(dir_fd, journal->file, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	err = fd < 0 ? -errno
		     : journal_write_progress(fd, (off_t)journal->progress_at, 0, journal->n);
	if (fd >= 0)
		close(fd);
	close(dir_fd);
	return err ? ctx_error(ctx, err, "%s/%s: %s", journal->dir, journal->file, strerror(-err))
		   : 0;
}

int journal_remove_stale(struct ocp_ctx *ctx, const struct stale_journal *journal)
{
	int fd = journal_folder_open(ctx, journal->dir, journal->owner, OCP_LOG_WARN), err = 0;

	if (fd < 0)
		return ctx_error(ctx, -ENOENT, "%s: can no longer be used", journal->dir);
	if (unlinkat(fd, journal->file, 0) != 0 && errno != ENOENT)
		err = ctx_error(ctx, -errno, "%s/%s: %s", journal->dir, journal->file,
				strerror(errno));
	close(fd);
	return err;
}

void journal_free_stale(struct stale_journals *stale)
{
	for (size_t i = 0; i < stale->n; i++)
		free_stale(&stale->list[i]);
	free(stale->list);
	*stale = (struct stale_journals){ 0 };
}
