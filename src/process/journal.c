// SPDX-License-Identifier: MIT
/*
 * Journals: a record of what a tool is doing to a process, which outlives the tool.
 *
 * A tool records its actions before it touches the process. It removes the file when all actions
 * are done (an update), or when all are undone (a promise, for actions with a time limit). If the
 * tool is killed in between, the file stays. Doctor then finds the actions and the progress
 * (journal_search.c) and undoes or completes the actions (repair.c).
 *
 * A file is complete as soon as it exists: it is written under another name and renamed. It is not
 * synced, because a crash of the kernel ends the process too. Before each slice of the actions
 * (update.c) the tool records that all earlier slices are done and this one is begun. Only this
 * progress is overwritten in place.
 *
 * journal_format.c describes the contents of the file, journal_folder.c its place. The tests are
 * test_journal and test_journal_faults (tests/unit), and interrupted.sh (tests/e2e), which kills
 * the tool at each of its writes.
 */
#include "process/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "process/journal_folder.h"
#include "process/journal_format.h"
#include "tracee/proc_file.h"

enum { FILE_BYTES = 100 };

struct journal {
	struct ocp_ctx *ctx;
	int dir_fd;
	FILE *f; /* the file on disk; NULL: not written yet */
	char dir[PATH_MAX];
	char file[FILE_BYTES];
	struct journal_header header;
	struct journal_entry *entries;
	size_t n;
	long progress_at; /* offset of the progress line in the file */
};

/*
 * Return the level for messages about unusable directories: a promise depends on its journal, but
 * an update can run without one.
 */
static enum ocp_log_level level_of(enum journal_kind kind)
{
	return kind == JOURNAL_PROMISE ? OCP_LOG_WARN : OCP_LOG_INFO;
}

static int fill_header(struct ocp_ctx *ctx, pid_t process, enum journal_kind kind,
		       struct journal_header *header)
{
	*header = (struct journal_header){
		.kind = kind,
		.process.pid = process,
		.tool.pid = getpid(),
		.program = journal_program_id(ctx, process),
	};
	surroundings_read(&header->where);
	if (proc_start_time(process, &header->process.start_time) != 0)
		return ctx_error(ctx, -ESRCH, "pid %d: no such process", (int)process);
	if (proc_start_time(header->tool.pid, &header->tool.start_time) != 0)
		return ctx_error(ctx, -ESRCH, "/proc: does not show this process");
	return 0;
}

int journal_open(struct ocp_ctx *ctx, pid_t process, enum journal_kind kind, struct journal **out)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	struct timespec now;
	int err;

	*out = NULL;
	if (!journal)
		return ctx_no_memory(ctx);
	*journal = (struct journal){ .ctx = ctx, .dir_fd = -1 };
	err = fill_header(ctx, process, kind, &journal->header);
	if (!err)
		journal->dir_fd = journal_folder_make(ctx, journal->dir, level_of(kind));
	if (!err && journal->dir_fd < 0)
		err = journal->dir_fd;
	if (err) {
		free(journal);
		return err;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(journal->file, sizeof(journal->file), "%d.%" PRIu64 ".%d.%jd%09ld", (int)process,
		 journal->header.process.start_time, (int)journal->header.tool.pid,
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

/*
 * Return how many of the first N entries are in the file: only entries that change a counter are.
 * Test: test_journal: entries_without_effect_are_left_out.
 */
static size_t number_in_file(const struct journal *journal, size_t n)
{
	size_t in_file = 0;

	for (size_t i = 0; i < n; i++)
		in_file += journal->entries[i].count_before != journal->entries[i].count_after;
	return in_file;
}

static int cannot_write(const struct journal *journal, int err)
{
	return ctx_error(journal->ctx, err, "%s/%s: cannot write the undo journal: %s",
			 journal->dir, journal->file, strerror(-err));
}

/* Write the whole file. Return the open file, or NULL with errno set. */
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
	(void)fflush(f); /* ferror() below reports its failure */
	if (!ferror(f))
		return f;
	fclose(f);
	return NULL;
}

/* Test: test_journal_faults: files_that_cannot_be_written_whole. */
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

int journal_progress(struct journal *journal, size_t done, size_t begun)
{
	int err = journal_write_progress(fileno(journal->f), journal->progress_at,
					 number_in_file(journal, done),
					 number_in_file(journal, begun));

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
		ctx_log(journal->ctx, OCP_LOG_WARN, "%s/%s: cannot remove the undo journal: %s",
			journal->dir, journal->file, strerror(errno));
	journal_close(journal);
}
