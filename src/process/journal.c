// SPDX-License-Identifier: MIT
/*
 * Journals: what a tool is doing to a process, kept when the tool is killed.
 *
 * A tool writes down what it is about to do before it touches the process, and removes the file
 * when all is done (an update) or, of what is for a time only, when all is undone (a promise). If
 * it is killed in between, the file stays, and doctor finds what it was doing and how far it got,
 * and undoes or completes it. A journal is
 *
 *	ocaml-probes journal 2
 *	boot BOOT-ID
 *	pid-namespace INODE
 *	target PID START-TIME
 *	program HASH
 *	tool PID START-TIME
 *	promise | update
 *	progress DONE BEGUN
 *	enable NAME COUNT-BEFORE COUNT-AFTER
 *	disable NAME COUNT-BEFORE COUNT-AFTER
 *	end
 *
 * in a file PID.START-TIME.TOOL-PID.TIME: several tools may hold one process, and one tool several
 * times. Only that the name starts with a digit counts, the rest is for people and uniqueness.
 * A process is its pid and its start time (pids come round again), and both mean something within
 * one boot and one pid namespace only. An exec changes neither, but HASH. A file is complete or not
 * there: it is written under another name and renamed. It is not synced: it need not survive the
 * kernel, since its target does not.
 *
 * The actions stand in the order in which they are done, a slice of them at a time (update.c). The
 * progress alone is written in place: before a slice the tool says that what came before it is done
 * and the slice is begun. The first DONE actions were done, whatever others have switched since;
 * those from BEGUN on were not. For the slice in between the counters tell: each is nearer to what
 * it was before or to what it becomes. (There an enable by somebody else, made between the kill and
 * the doctor, can be taken for the tool's own.)
 *
 * Root believes the files of a user about that user's processes only; for the folders see
 * journal_folder.c.
 */
#include "process/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "process/journal_text.h"
#include "process/proc_file.h"

enum {
	MAX_JOURNAL_BYTES = 32 << 20, /* 100 000 names of 300 characters */
	MAX_FILES = 4096,	      /* looked at in one folder */
	FILE_BYTES = 100,
	OLD_SECONDS = 60, /* nobody takes that long to write a journal */
};

struct journal {
	struct ocp_ctx *ctx;
	int dir_fd;
	FILE *f; /* on disk; NULL: not yet */
	char dir[PATH_MAX];
	char file[FILE_BYTES];
	struct journal_header header;
	struct journal_entry *entries;
	size_t n;
	long progress_at; /* in the file */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* What is needed for a promise is worth a warning if it cannot be had. */
static enum ocp_log_level level_of(enum journal_kind kind)
{
	return kind == JOURNAL_PROMISE ? OCP_LOG_WARN : OCP_LOG_INFO;
}

static int fill_header(struct ocp_ctx *ctx, pid_t target, enum journal_kind kind,
		       struct journal_header *header)
{
	*header = (struct journal_header){
		.kind = kind,
		.target.pid = target,
		.tool.pid = getpid(),
		.program = journal_program_id(ctx, target),
	};
	surroundings_read(&header->where);
	if (proc_start_time(target, &header->target.start_time) != 0)
		return ctx_error(ctx, -ESRCH, "pid %d: no such process", (int)target);
	if (proc_start_time(header->tool.pid, &header->tool.start_time) != 0)
		return ctx_error(ctx, -ESRCH, "/proc: does not show this process");
	return 0;
}

int journal_open(struct ocp_ctx *ctx, pid_t target, enum journal_kind kind, struct journal **out)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	struct timespec now;
	int err;

	*out = NULL;
	if (!journal)
		return ctx_no_memory(ctx);
	*journal = (struct journal){ .ctx = ctx, .dir_fd = -1 };
	err = fill_header(ctx, target, kind, &journal->header);
	if (!err)
		journal->dir_fd = journal_folder_make(ctx, journal->dir, level_of(kind));
	if (!err && journal->dir_fd < 0)
		err = journal->dir_fd;
	if (err) {
		free(journal);
		return err;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(journal->file, sizeof(journal->file), "%d.%" PRIu64 ".%d.%jd%09ld", (int)target,
		 journal->header.target.start_time, (int)journal->header.tool.pid,
		 (intmax_t)now.tv_sec, now.tv_nsec);
	*out = journal;
	return 0;
}

int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before, int count_after)
{
	struct journal_entry entry = {
		.name = (char *)(uintptr_t)name,
		.verb = verb,
		.count_before = count_before,
		.count_after = count_after,
	};

	return journal_add_entry(journal->ctx, &journal->entries, &journal->n, &entry);
}

bool journal_has_counts(const struct journal *journal, size_t entry, int before, int after)
{
	return journal->entries[entry].count_before == before &&
	       journal->entries[entry].count_after == after;
}

void journal_set_counts(struct journal *journal, size_t entry, int before, int after)
{
	journal->entries[entry].count_before = before;
	journal->entries[entry].count_after = after;
}

/* How many of the first N entries are in the file: those that change something. */
static size_t number_in_file(const struct journal *journal, size_t n)
{
	size_t in_file = 0;

	for (size_t i = 0; i < n; i++)
		in_file += journal->entries[i].count_before != journal->entries[i].count_after;
	return in_file;
}

static int cannot_write(const struct journal *journal, int err)
{
	return ctx_error(journal->ctx, err, "%s/%s: cannot write what has to be undone later: %s",
			 journal->dir, journal->file, strerror(-err));
}

/* The new file, complete and open; NULL: see errno. */
static FILE *write_file(struct journal *journal, const char *name, size_t done, size_t begun)
{
	int fd = openat(journal->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	journal_write(f, &journal->header, journal->entries, journal->n,
		      number_in_file(journal, done), number_in_file(journal, begun),
		      &journal->progress_at);
	(void)fflush(f); /* it is an error of F if it fails */
	if (!ferror(f))
		return f;
	fclose(f);
	return NULL;
}

int journal_commit(struct journal *journal, size_t done, size_t begun)
{
	char temporary[FILE_BYTES + 1];
	FILE *f;
	int err;

	snprintf(temporary, sizeof(temporary), ".%s", journal->file);
	f = write_file(journal, temporary, done, begun);
	if (f && renameat(journal->dir_fd, temporary, journal->dir_fd, journal->file) == 0) {
		if (journal->f)
			fclose(journal->f);
		journal->f = f;
		return 0;
	}
	err = errno ? -errno : -EIO;
	unlinkat(journal->dir_fd, temporary, 0);
	if (f)
		fclose(f);
	return cannot_write(journal, err);
}

/* Of a write within one page a signal takes effect before or after it. */
static int write_progress(int fd, off_t at, size_t done, size_t begun)
{
	struct interruptions interruptions = { 0 };
	char text[PROGRESS_BYTES + 1];
	ssize_t n;

	journal_progress_text(text, done, begun);
	do
		n = pwrite(fd, text, PROGRESS_BYTES, at);
	while (n < 0 && is_interrupted(&interruptions));
	if (n == PROGRESS_BYTES)
		return 0;
	return n < 0 ? -errno : -EIO;
}

int journal_progress(struct journal *journal, size_t done, size_t begun)
{
	int err = write_progress(fileno(journal->f), journal->progress_at,
				 number_in_file(journal, done), number_in_file(journal, begun));

	return err ? cannot_write(journal, err) : 0;
}

void journal_close(struct journal *journal)
{
	if (!journal)
		return;
	journal_free_entries(journal->entries, journal->n);
	if (journal->f)
		fclose(journal->f);
	close(journal->dir_fd);
	free(journal);
}

void journal_remove(struct journal *journal)
{
	if (journal && journal->f && unlinkat(journal->dir_fd, journal->file, 0) != 0)
		ctx_log(journal->ctx, OCP_LOG_WARN, "%s/%s: cannot be removed: %s", journal->dir,
			journal->file, strerror(errno));
	journal_close(journal);
}

/* ---- finding what others have left ---------------------------------------------------------- */

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

/* ---- settling it ---------------------------------------------------------------------------- */

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
	err = fd < 0 ? -errno : write_progress(fd, (off_t)journal->progress_at, 0, journal->n);
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
