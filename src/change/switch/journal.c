// SPDX-License-Identifier: MIT
/*
 * Journals: a record of what a tool is doing to a process, which outlives the tool.
 *
 * A tool records its actions before it touches the process. It removes the file when all actions
 * are done (an update), or when all are undone (a promise, for actions with a time limit). If the
 * tool is killed in between, the file stays. Doctor then finds the actions and the progress
 * and undoes or completes the actions (repair.c).
 *
 * A file is complete as soon as it exists: it is written under another name and renamed. It is not
 * synced, because a crash of the kernel ends the process too. Before each slice of the actions
 * (update.c) the tool records that all earlier slices are done and this one is begun. Only this
 * progress is overwritten in place.
 *
 * The contents and the place of the file are described below. The tests are
 * test_journal and test_journal_faults (tests/unit), and interrupted.sh (tests/e2e), which kills
 * the tool at each of its writes.
 */
#include "change/switch/journal.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/ctx.h"
#include "base/hash.h"
#include "base/interrupted.h"
#include "base/user_folder.h"
#include "look/memory.h"
#include "look/proc_file.h"

/* ---- the format ------------------------------------------------------------------------------ */

/*
 * A journal is
 *
 *	ocaml-probes journal 3
 *	boot BOOT-ID
 *	pid-namespace INODE
 *	process PID START-TIME
 *	program HASH
 *	tool PID START-TIME
 *	promise | update
 *	progress DONE BEGUN
 *	enable NAME COUNT-BEFORE COUNT-AFTER
 *	disable NAME COUNT-BEFORE COUNT-AFTER
 *	end
 *
 * in a file PID.START-TIME.TOOL-PID.TIME. Several tools may switch probes of one process, and one
 * tool may do so several times; the name keeps their files distinct. Of the name,
 * journal_find_stale() only checks the first character, which must be a digit from 1 to 9. A
 * process is identified by its pid and its start time, since pids are reused; both are valid only
 * within one boot and one pid namespace. An exec keeps both and changes HASH.
 *
 * The actions have the order in which they are done. The first DONE of them are done, the first
 * BEGUN of them are begun. The progress has a fixed length and is overwritten in place.
 *
 * The functions below name the tests of tests/unit/test_journal.c that cover them.
 */

struct process_id {
	pid_t pid;
	uint64_t start_time;
};

/* The boot and the pid namespace in which the pids of a journal are valid. */
struct surroundings {
	char boot[64];
	uint64_t pid_namespace;
};

/* The lines of a journal that come before its actions. */
struct journal_header {
	struct surroundings where;
	struct process_id process, tool;
	uint64_t program; /* journal_program_id() of the process */
	enum journal_kind kind;
};

/* The length of the line "progress DONE BEGUN", which is overwritten. */
enum { PROGRESS_BYTES = 30 };

/* Journals of other versions are refused: they were written by tools that were never released. */
#define FIRST_LINE "ocaml-probes journal 3"

/* ---- processes ------------------------------------------------------------------------------ */

static void surroundings_read(struct surroundings *here)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat st;

	*here = (struct surroundings){ 0 };
	if (!f || fscanf(f, "%63s", here->boot) != 1)
		snprintf(here->boot, sizeof(here->boot), "unknown");
	if (f)
		fclose(f);
	if (stat("/proc/self/ns/pid", &st) == 0)
		here->pid_namespace = st.st_ino;
}

static bool is_alive(const struct process_id *id)
{
	uint64_t start_time;

	return proc_start_time(id->pid, &start_time) == 0 && start_time == id->start_time;
}

/*
 * The kernel gives each program that it starts 16 random bytes (AT_RANDOM, getauxval(3)). These
 * bytes are a secret of the program, so keep only a hash of them (FNV-1a). Test:
 * an_exec_ends_a_journal.
 */
uint64_t journal_program_id(struct ocp_ctx *ctx, pid_t pid)
{
	struct memory_piece piece = { .bytes = 16 };
	struct memory *memory;
	uint8_t random[16];
	int err = auxv_read(ctx, pid, AT_RANDOM, &piece.addr);

	if (err || !piece.addr || memory_open(ctx, pid, &memory) != 0)
		return 0;
	err = memory_read(memory, &piece, 1, random);
	memory_close(memory);
	return err ? 0 : hash_bytes(HASH_START, random, sizeof(random));
}

/* ---- entries -------------------------------------------------------------------------------- */

static int journal_add_entry(struct ocp_ctx *ctx, struct journal_entry **entries, size_t *n,
			     const struct journal_entry *entry)
{
	char *name = strdup(entry->name);
	struct journal_entry *new = name ? array_add(*entries, *n) : NULL;

	if (!new) {
		free(name);
		return ctx_no_memory(ctx);
	}
	*new = *entry;
	new->name = name;
	return 0;
}

void journal_free_entries(struct journal_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(entries[i].name);
	free(entries);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void progress_text(char text[PROGRESS_BYTES + 1], size_t done, size_t begun)
{
	snprintf(text, PROGRESS_BYTES + 1, "progress %010zu %010zu", done, begun);
}

/*
 * Overwrite the progress at offset AT of FD. Returns 0 or -errno. The bytes written lie within one
 * page, so that a signal cannot interrupt the write half way.
 */
static int journal_write_progress(int fd, off_t at, size_t done, size_t begun)
{
	struct interruptions interruptions = { 0 };
	char text[PROGRESS_BYTES + 1];
	ssize_t n;

	progress_text(text, done, begun);
	do
		n = pwrite(fd, text, PROGRESS_BYTES, at);
	while (n < 0 && is_interrupted(&interruptions));
	if (n == PROGRESS_BYTES)
		return 0;
	return n < 0 ? -errno : -EIO;
}

/*
 * Write a whole journal. Leave out entries that change no counter. Of the entries that are written,
 * the first DONE are done and the first BEGUN are begun. Set *PROGRESS_AT to the offset of the
 * progress line.
 */
static void journal_write(FILE *f, const struct journal_header *header,
			  const struct journal_entry *entries, size_t n, size_t done, size_t begun,
			  long *progress_at)
{
	char progress[PROGRESS_BYTES + 1];

	fprintf(f, FIRST_LINE "\nboot %s\npid-namespace %" PRIu64 "\n", header->where.boot,
		header->where.pid_namespace);
	fprintf(f, "process %d %" PRIu64 "\n", (int)header->process.pid,
		header->process.start_time);
	fprintf(f, "program %" PRIu64 "\n", header->program);
	fprintf(f, "tool %d %" PRIu64 "\n", (int)header->tool.pid, header->tool.start_time);
	fprintf(f, "%s\n", header->kind == JOURNAL_PROMISE ? "promise" : "update");
	*progress_at = ftell(f);
	progress_text(progress, done, begun);
	fprintf(f, "%s\n", progress);
	for (size_t i = 0; i < n; i++)
		if (entries[i].count_before != entries[i].count_after)
			fprintf(f, "%s %s %d %d\n",
				entries[i].verb == ACTION_ENABLE ? "enable" : "disable",
				entries[i].name, entries[i].count_before, entries[i].count_after);
	fputs("end\n", f);
}

/* ---- parsing -------------------------------------------------------------------------------- */

/*
 * Return the next line of *TEXT without its newline, and move *TEXT past it; NULL if no complete
 * line is left.
 */
static char *next_journal_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/*
 * Parse a decimal number of at most MAX. Set *END to the address of the character after the number.
 */
static bool parse_number(const char *text, uint64_t max, uint64_t *value, const char **end)
{
	char *stop;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &stop, 10);
	*end = stop;
	return errno == 0 && *value <= max;
}

static const char *after_key(const char *line, const char *key)
{
	size_t bytes = strlen(key);

	return line && strncmp(line, key, bytes) == 0 && line[bytes] == ' ' ? line + bytes + 1
									    : NULL;
}

/* Parse "KEY A B", where A is at most MAX_A and B is at most MAX_B. */
static bool parse_two(const char *line, const char *key, uint64_t max_a, uint64_t *a,
		      uint64_t max_b, uint64_t *b)
{
	const char *rest = after_key(line, key), *end;

	return rest && parse_number(rest, max_a, a, &end) && *end == ' ' &&
	       parse_number(end + 1, max_b, b, &end) && *end == '\0';
}

/* Parse "KEY PID START-TIME". */
static bool parse_process(const char *line, const char *key, struct process_id *id)
{
	uint64_t pid;

	if (!parse_two(line, key, INT_MAX, &pid, UINT64_MAX, &id->start_time) || pid == 0)
		return false;
	id->pid = (pid_t)pid;
	return true;
}

/* Parse the value of a counter; -1 stands for an unknown value. */
static bool parse_count(const char *text, int *count, const char **end)
{
	uint64_t value;

	*count = JOURNAL_UNKNOWN;
	*end = text + 2;
	if (strncmp(text, "-1", 2) == 0)
		return true;
	if (!parse_number(text, UINT16_MAX, &value, end))
		return false;
	*count = (int)value;
	return true;
}

/*
 * Parse "enable NAME COUNT-BEFORE COUNT-AFTER" or "disable ...". The name may be empty. Test:
 * lines_are_checked.
 */
static bool parse_entry(char *line, struct journal_entry *entry)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_";
	char *rest = (char *)(uintptr_t)after_key(line, "enable");
	const char *end;
	size_t bytes;

	entry->verb = rest ? ACTION_ENABLE : ACTION_DISABLE;
	if (!rest)
		rest = (char *)(uintptr_t)after_key(line, "disable");
	if (!rest)
		return false;
	bytes = strspn(rest, letters);
	if (rest[bytes] != ' ')
		return false;
	rest[bytes] = '\0';
	entry->name = rest;
	return parse_count(rest + bytes + 1, &entry->count_before, &end) && *end == ' ' &&
	       parse_count(end + 1, &entry->count_after, &end) && !*end;
}

static int bad_journal(struct ocp_ctx *ctx, const char *path, const char *what)
{
	return ctx_error(ctx, -EBADMSG, "%s: is damaged: %s", path, what);
}

static int parse_entries(struct ocp_ctx *ctx, const char *path, char *text,
			 struct stale_journal *journal)
{
	struct journal_entry entry;
	char *line;
	int err = 0;

	while (!err && (line = next_journal_line(&text)) && strcmp(line, "end") != 0) {
		if (!parse_entry(line, &entry))
			return bad_journal(ctx, path, "an action is malformed");
		err = journal_add_entry(ctx, &journal->entries, &journal->n, &entry);
	}
	if (!err && !line)
		err = bad_journal(ctx, path, "the last line is not \"end\"");
	if (!err && *text)
		err = bad_journal(ctx, path, "text follows the line \"end\"");
	return err;
}

/* Parse the lines with the kind of the journal and the progress. */
static bool parse_state(char **text, const char *start, struct stale_journal *journal)
{
	const char *line = next_journal_line(text);
	uint64_t done, begun;

	journal->kind = line && strcmp(line, "update") == 0 ? JOURNAL_UPDATE : JOURNAL_PROMISE;
	if (!line || (journal->kind == JOURNAL_PROMISE && strcmp(line, "promise") != 0))
		return false;
	journal->progress_at = (size_t)(*text - start);
	line = next_journal_line(text);
	if (!line || strlen(line) != PROGRESS_BYTES ||
	    !parse_two(line, "progress", UINT32_MAX, &done, UINT32_MAX, &begun) || done > begun)
		return false;
	journal->n_done = (size_t)done;
	journal->n_begun = (size_t)begun;
	return true;
}

static bool parse_program(char **text, uint64_t *program)
{
	const char *line = after_key(next_journal_line(text), "program"), *end;

	return line && parse_number(line, UINT64_MAX, program, &end) && !*end;
}

/* Parse the lines with the boot, the pid namespace, the process, the program and the tool. */
static int parse_header(struct ocp_ctx *ctx, const char *path, char **text,
			struct journal_text *about)
{
	struct process_id process, tool;
	struct surroundings here;
	const char *line, *boot, *end;
	uint64_t pid_namespace, program;
	bool same_boot;

	boot = after_key(next_journal_line(text), "boot");
	line = after_key(next_journal_line(text), "pid-namespace");
	if (!boot || !line || !parse_number(line, UINT64_MAX, &pid_namespace, &end) || *end)
		return bad_journal(ctx, path, "the boot or the pid namespace is missing");
	if (!parse_process(next_journal_line(text), "process", &process) ||
	    !parse_program(text, &program) ||
	    !parse_process(next_journal_line(text), "tool", &tool))
		return bad_journal(ctx, path, "the process, the program or the tool is missing");
	surroundings_read(&here);
	same_boot = strcmp(boot, here.boot) == 0;
	*about = (struct journal_text){
		.process = process.pid,
		.tool = tool.pid,
		.program = program,
		.other_namespace = same_boot && pid_namespace != here.pid_namespace,
		.process_lives = same_boot && is_alive(&process),
		.tool_lives = same_boot && is_alive(&tool),
	};
	return 0;
}

int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal)
{
	const char *start = text, *first = next_journal_line(&text);
	int err;

	*about = (struct journal_text){ 0 };
	if (!first || strcmp(first, FIRST_LINE) != 0)
		return bad_journal(ctx, path, "not a journal of this version");
	err = parse_header(ctx, path, &text, about);
	if (err)
		return err;
	journal->tool = about->tool;
	if (!parse_state(&text, start, journal))
		return bad_journal(ctx, path, "the kind or the progress is malformed");
	err = parse_entries(ctx, path, text, journal);
	if (!err && journal->n_begun > journal->n)
		err = bad_journal(ctx, path, "the progress exceeds the number of actions");
	return err;
}

/* ---- writing --------------------------------------------------------------------------------- */

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
 * Return the level of log messages about unusable directories. It is higher for a promise, which
 * needs its journal more than an update does.
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
		journal->dir_fd =
			user_folder_make(ctx, "the undo journal", journal->dir, level_of(kind));
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
 * Return how many of the first N entries are in the file: entries that change no counter are left
 * out of it. Test: test_journal: entries_without_effect_are_left_out.
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
	(void)fflush(f); /* if it fails, ferror() below returns true */
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

/* ---- journals of killed tools ---------------------------------------------------------------- */

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

enum {
	MAX_JOURNAL_BYTES = 32 << 20, /* enough for 100 000 names of 300 characters */
	MAX_FILES = 4096, /* the largest number of journals that are read in one directory */
	/*
	 * A temporary file of this age counts as abandoned: writing a journal takes milliseconds.
	 */
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
 * Read the text of FILE. Return NULL if FILE cannot be opened. Also return NULL, and log a message,
 * if FILE is not a regular file of user UID, or is too large.
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
 * Return true if the journal is about PROCESS, PROCESS is alive, and the tool of the journal is
 * dead. Test: a_living_tools_journal_is_its_own.
 */
static bool is_left_behind(const struct journal_text *about, pid_t process)
{
	return about->process_lives && about->process == process && !about->tool_lives;
}

/*
 * Return true if the process has executed another program since the journal was written. Then the
 * journal is not about the probes that the process has now.
 */
static bool is_of_another_program(struct ocp_ctx *ctx, const struct journal_text *about)
{
	uint64_t program = about->program ? journal_program_id(ctx, about->process) : 0;

	return program && program != about->program;
}

/*
 * Read the journal FILE. If its process has ended, delete FILE. If the journal is about PROCESS and
 * its tool is dead, add it to STALE, or delete FILE if PROCESS runs another program now. In all
 * other cases leave FILE alone.
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
 * Delete the temporary file FILE if the tool that was writing it was killed. Test:
 * what_was_cut_off_in_writing_goes_when_it_is_old.
 */
static void look_at_temporary(int dir_fd, const char *file)
{
	struct stat st;
	int tool;

	/*
	 * The writing tool may be in another pid namespace, so that its pid shows nothing: wait
	 * until the file is old.
	 */
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
	int fd = user_folder_open(ctx, path, uid, OCP_LOG_WARN), err = 0, looked = 0;
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
	char paths[N_USER_FOLDERS][PATH_MAX];
	int n = 0, err = 0;

	for (int folder = 0; !err && folder < N_USER_FOLDERS; folder++) {
		bool seen = false;

		if (!user_folder_path(uid, folder, paths[n]))
			continue;
		/* Look in each directory only once: $XDG_RUNTIME_DIR is usually /run/user/UID. */
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
	 * Do not trust the real user of a set-user-ID process: do not read the journals of this
	 * user. Test: doctor.sh: test_root_finds_another_users_journal.
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
	int dir_fd = user_folder_open(ctx, journal->dir, journal->owner, OCP_LOG_WARN), fd, err;

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
	int fd = user_folder_open(ctx, journal->dir, journal->owner, OCP_LOG_WARN), err = 0;

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
