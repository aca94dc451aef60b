// SPDX-License-Identifier: MIT
/*
 * The journals of tools that were killed: finding, judging and settling them.
 *
 * Root believes the files of a user about that user's processes only.
 *
 * The first DONE actions of a journal were done, whatever others have switched since; those from
 * BEGUN on were not. For the slice in between the counters tell: each is nearer to what it was
 * before or to what it becomes. (There an enable by somebody else, made between the kill and the
 * doctor, can be taken for the tool's own.)
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

#include "base/interrupted.h"
#include "process/journal_folder.h"
#include "process/journal_format.h"
#include "process/proc_file.h"

enum {
	MAX_JOURNAL_BYTES = 32 << 20, /* 100 000 names of 300 characters */
	MAX_FILES = 4096,	      /* looked at in one folder */
	OLD_SECONDS = 60,	      /* nobody takes that long to write a journal */
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
 * The text of the file, NULL if it is not one that UID wrote (said in the log) or cannot be read.
 */
static char *read_text(struct ocp_ctx *ctx, int dir_fd, const char *path, const char *file,
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
		ctx_log(ctx, OCP_LOG_WARN, "%s: left out: no file of uid %u of a fit size", path,
			uid);
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
	struct stale_journal *larger =
		reallocarray(stale->list, stale->n + 1, sizeof(*stale->list));

	if (!larger)
		return ctx_no_memory(ctx);
	stale->list = larger;
	stale->list[stale->n++] = *journal;
	*journal = (struct stale_journal){ 0 };
	return 0;
}

/* Is it about TARGET, and of a tool that can do no more about it? */
static bool is_left_behind(const struct journal_text *about, pid_t target)
{
	return about->target_lives && about->target == target && !about->tool_lives;
}

/* Has the target become another program since? Then nothing of what was done to it is left. */
static bool is_of_another_program(struct ocp_ctx *ctx, const struct journal_text *about)
{
	uint64_t program = about->program ? journal_program_id(ctx, about->target) : 0;

	return program && program != about->program;
}

/* Look at one file; delete it, keep it or pass it by. */
static int look_at(struct ocp_ctx *ctx, int dir_fd, const char *dir, const char *file, uid_t uid,
		   pid_t target, struct stale_journals *stale)
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
	text = read_text(ctx, dir_fd, path, file, uid);
	if (text)
		err = journal_parse(ctx, path, text, &about, &journal);
	if (err && err != -ENOMEM) {
		ctx_log(ctx, OCP_LOG_WARN, "left out: %s", ocp_error(ctx));
		err = 0;
	} else if (!err && text && !about.other_namespace) {
		bool is_left = is_left_behind(&about, target);

		if (!about.target_lives || (is_left && is_of_another_program(ctx, &about)))
			unlinkat(dir_fd, file, 0);
		else if (is_left)
			err = keep_stale(ctx, stale, &journal);
	}
	free(path);
	free(text);
	free_stale(&journal);
	return err;
}

/* Delete a journal that its tool was killed in the middle of writing. */
static void look_at_temporary(int dir_fd, const char *file)
{
	struct stat st;
	int tool;

	/* A tool of another pid namespace is writing it, if anybody is: it takes milliseconds. */
	if (sscanf(file, ".%*d.%*u.%d.", &tool) != 1 ||
	    fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    time(NULL) - st.st_mtime < OLD_SECONDS)
		return;
	if (tool > 0 && kill(tool, 0) != 0 && errno == ESRCH)
		unlinkat(dir_fd, file, 0);
}

static int look_in(struct ocp_ctx *ctx, const char *path, uid_t uid, pid_t target,
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
		/* Others are no journals. */
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		looked++;
		err = look_at(ctx, fd, path, entry->d_name, uid, target, stale);
	}
	if (!err && looked < MAX_FILES && errno)
		err = ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	closedir(dir);
	return err;
}

static int look_for_user(struct ocp_ctx *ctx, uid_t uid, pid_t target, struct stale_journals *stale)
{
	char paths[N_JOURNAL_FOLDERS][PATH_MAX];
	int n = 0, err = 0;

	for (int folder = 0; !err && folder < N_JOURNAL_FOLDERS; folder++) {
		bool seen = false;

		if (!journal_folder_path(uid, folder, paths[n]))
			continue;
		/* $XDG_RUNTIME_DIR is /run/user/UID mostly. */
		for (int i = 0; i < n; i++)
			seen |= strcmp(paths[i], paths[n]) == 0;
		if (seen)
			continue;
		err = look_in(ctx, paths[n++], uid, target, stale);
	}
	return err;
}

int journal_find_stale(struct ocp_ctx *ctx, pid_t target, struct stale_journals *stale)
{
	struct proc_status status;
	int err = proc_status_read(ctx, target, &status);

	*stale = (struct stale_journals){ 0 };
	if (err)
		return err;
	err = look_for_user(ctx, geteuid(), target, stale);
	/* Of a setuid process the real user is not to be believed. */
	if (!err && geteuid() == 0 && status.real_uid != 0 &&
	    status.real_uid == status.effective_uid)
		err = look_for_user(ctx, status.real_uid, target, stale);
	if (err)
		journal_free_stale(stale);
	return err;
}

/* ---- settling them -------------------------------------------------------------------------- */

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
	int dir_fd, fd, err;

	if (!journal->progress_at)
		return 0;
	dir_fd = journal_folder_open(ctx, journal->dir, journal->owner, OCP_LOG_WARN);
	if (dir_fd < 0)
		return ctx_error(ctx, -ENOENT, "%s: is gone", journal->dir);
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
		return ctx_error(ctx, -ENOENT, "%s: is gone", journal->dir);
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
