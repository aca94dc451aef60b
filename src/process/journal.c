// SPDX-License-Identifier: MIT
/*
 * Journals: the promise to undo, kept when the one who made it is killed.
 *
 * A tool that switches probes for a time only writes down, before it touches the process, what it
 * is about to do, and removes the file when all is undone. If it is killed in between, the file
 * stays, and whoever looks at the process next (doctor) finds what is left on, by whom, and undoes
 * it. A journal is
 *
 *	ocaml-probes journal 1
 *	boot BOOT-ID
 *	pid-namespace INODE
 *	target PID START-TIME
 *	tool PID START-TIME
 *	applied | pending
 *	enable NAME COUNT-BEFORE
 *	disable NAME COUNT-BEFORE
 *	end
 *
 * in a file PID.START-TIME.TOOL-PID.TIME: several tools may hold one process, and one tool several
 * times. Only that the name starts with a digit counts, the rest is for people and uniqueness.
 * A process is its pid and its start time (pids come round again), and both mean something within
 * one boot and one pid namespace only. A file is complete or not there: it is written under another
 * name and renamed. It is not synced: it need not survive the kernel, since its target does not.
 *
 * "pending" is the time between the announcement and the deed. Whether a probe was switched then
 * shows in its counter: it is what it was before, or not. (Of a tool killed in these milliseconds
 * an enable by somebody else, made before the journal is found, is taken for its own.)
 *
 * The folders are per user: $XDG_RUNTIME_DIR/ocaml-probes, else /run/user/UID/ocaml-probes, else
 * /tmp/ocaml-probes-UID. The latter can be made by anybody, so a folder is used only if it is no
 * symbolic link, belongs to that user and is closed to all others, and everything in it is reached
 * through its descriptor. Root believes the files of a user about that user's processes only.
 */
#include "process/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "process/proc_file.h"

#define MAGIC "ocaml-probes journal 1"

enum {
	MAX_JOURNAL_BYTES = 32 << 20, /* 100 000 names of 300 characters */
	MAX_FILES = 4096,	      /* looked at in one folder */
	ID_BYTES = 64,
	FILE_BYTES = 100,
	N_PLACES = 3,
};

struct process_id {
	pid_t pid;
	uint64_t start_time;
};

/* What a pid means something in. */
struct surroundings {
	char boot[ID_BYTES];
	uint64_t pid_namespace;
};

struct journal {
	struct ocp_ctx *ctx;
	int dir_fd;
	char dir[PATH_MAX];
	char file[FILE_BYTES];
	struct surroundings here;
	struct process_id target, tool;
	struct journal_entry *entries;
	size_t n;
};

/* ---- processes ------------------------------------------------------------------------------ */

static void read_surroundings(struct surroundings *here)
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

/* ---- folders -------------------------------------------------------------------------------- */

/* Place number PLACE for the journals of user UID; false if that does not exist. */
static bool place_path(uid_t uid, int place, char path[PATH_MAX])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int n = 0;

	switch (place) {
	case 0:
		if (uid == geteuid() && runtime && runtime[0] == '/')
			n = snprintf(path, PATH_MAX, "%s/ocaml-probes", runtime);
		break;
	case 1:
		n = snprintf(path, PATH_MAX, "/run/user/%u/ocaml-probes", uid);
		break;
	default:
		n = snprintf(path, PATH_MAX, "/tmp/ocaml-probes-%u", uid);
		break;
	}
	return n > 0 && n < PATH_MAX;
}

/* Open the folder PATH if it is UID's and nobody else's; -1 if there is no such. */
static int open_place(struct ocp_ctx *ctx, const char *path, uid_t uid)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_uid == uid && (st.st_mode & 077) == 0)
		return fd;
	ctx_log(ctx, OCP_LOG_WARN, "%s: is not used: it is not a folder of uid %u alone", path,
		uid);
	close(fd);
	return -1;
}

/* The first folder that can be had, made if need be. */
static int make_place(struct ocp_ctx *ctx, char path[PATH_MAX])
{
	for (int place = 0; place < N_PLACES; place++) {
		int fd;

		if (!place_path(geteuid(), place, path))
			continue;
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			continue;
		fd = open_place(ctx, path, geteuid());
		if (fd >= 0)
			return fd;
	}
	ctx_error(ctx, -EACCES, "%s: no folder for what has to be undone later", path);
	ctx_hint(ctx, "set XDG_RUNTIME_DIR to a folder of yours");
	return -EACCES;
}

/* ---- writing -------------------------------------------------------------------------------- */

int journal_open(struct ocp_ctx *ctx, pid_t target, struct journal **out)
{
	struct journal *journal = calloc(1, sizeof(*journal));
	struct timespec now;
	int err = 0;

	*out = NULL;
	if (!journal)
		return ctx_no_memory(ctx);
	*journal = (struct journal){ .ctx = ctx, .dir_fd = -1 };
	read_surroundings(&journal->here);
	journal->target.pid = target;
	journal->tool.pid = getpid();
	if (proc_start_time(target, &journal->target.start_time) != 0)
		err = ctx_error(ctx, -ESRCH, "pid %d: no such process", (int)target);
	else if (proc_start_time(journal->tool.pid, &journal->tool.start_time) != 0)
		err = ctx_error(ctx, -ESRCH, "/proc: does not show this process");
	if (!err)
		journal->dir_fd = make_place(ctx, journal->dir);
	if (!err && journal->dir_fd < 0)
		err = journal->dir_fd;
	if (err) {
		free(journal);
		return err;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(journal->file, sizeof(journal->file), "%d.%" PRIu64 ".%d.%jd%09ld", (int)target,
		 journal->target.start_time, (int)journal->tool.pid, (intmax_t)now.tv_sec,
		 now.tv_nsec);
	*out = journal;
	return 0;
}

static int add_entry(struct ocp_ctx *ctx, struct journal_entry **entries, size_t *n,
		     const struct journal_entry *entry)
{
	/* A power of two is full. */
	if ((*n & (*n - 1)) == 0) {
		struct journal_entry *larger =
			reallocarray(*entries, *n ? 2 * *n : 1, sizeof(*larger));

		if (!larger)
			return ctx_no_memory(ctx);
		*entries = larger;
	}
	(*entries)[*n] = *entry;
	(*entries)[*n].name = strdup(entry->name);
	if (!(*entries)[*n].name)
		return ctx_no_memory(ctx);
	++*n;
	return 0;
}

static void free_entries(struct journal_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(entries[i].name);
	free(entries);
}

int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before)
{
	struct journal_entry entry = {
		.name = (char *)(uintptr_t)name,
		.verb = verb,
		.count_before = count_before,
	};

	return add_entry(journal->ctx, &journal->entries, &journal->n, &entry);
}

static void write_journal(FILE *f, const struct journal *journal, bool applied)
{
	fprintf(f, MAGIC "\nboot %s\npid-namespace %" PRIu64 "\n", journal->here.boot,
		journal->here.pid_namespace);
	fprintf(f, "target %d %" PRIu64 "\n", (int)journal->target.pid, journal->target.start_time);
	fprintf(f, "tool %d %" PRIu64 "\n", (int)journal->tool.pid, journal->tool.start_time);
	fprintf(f, "%s\n", applied ? "applied" : "pending");
	for (size_t i = 0; i < journal->n; i++)
		fprintf(f, "%s %s %d\n",
			journal->entries[i].verb == ACTION_ENABLE ? "enable" : "disable",
			journal->entries[i].name, journal->entries[i].count_before);
	fputs("end\n", f);
}

static int cannot_write(const struct journal *journal, int err)
{
	return ctx_error(journal->ctx, err, "%s/%s: cannot write what has to be undone later: %s",
			 journal->dir, journal->file, strerror(-err));
}

int journal_commit(struct journal *journal, bool applied)
{
	char temporary[FILE_BYTES + 1];
	bool failed;
	FILE *f;
	int fd;

	snprintf(temporary, sizeof(temporary), ".%s", journal->file);
	unlinkat(journal->dir_fd, temporary, 0);
	fd = openat(journal->dir_fd, temporary,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return cannot_write(journal, -errno);
	f = fdopen(fd, "w");
	if (!f) {
		int err = -errno;

		close(fd);
		return cannot_write(journal, err);
	}
	write_journal(f, journal, applied);
	failed = ferror(f);
	if (fclose(f) != 0 || failed ||
	    renameat(journal->dir_fd, temporary, journal->dir_fd, journal->file) != 0) {
		int err = errno ? -errno : -EIO;

		unlinkat(journal->dir_fd, temporary, 0);
		return cannot_write(journal, err);
	}
	return 0;
}

void journal_close(struct journal *journal)
{
	if (!journal)
		return;
	free_entries(journal->entries, journal->n);
	close(journal->dir_fd);
	free(journal);
}

void journal_remove(struct journal *journal)
{
	if (journal)
		unlinkat(journal->dir_fd, journal->file, 0);
	journal_close(journal);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Take the next line off *TEXT; NULL if there is none that ends. */
static char *next_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/* A number of digits only, up to MAX; and the character behind it. */
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

/* "KEY PID START-TIME" */
static bool parse_process(const char *line, const char *key, struct process_id *id)
{
	size_t bytes = strlen(key);
	uint64_t pid;
	const char *end;

	if (!line || strncmp(line, key, bytes) != 0 || line[bytes] != ' ' ||
	    !parse_number(line + bytes + 1, INT_MAX, &pid, &end) || pid == 0 || *end != ' ' ||
	    !parse_number(end + 1, UINT64_MAX, &id->start_time, &end))
		return false;
	id->pid = (pid_t)pid;
	return *end == '\0';
}

static const char *after(const char *line, const char *key)
{
	size_t bytes = strlen(key);

	return line && strncmp(line, key, bytes) == 0 && line[bytes] == ' ' ? line + bytes + 1
									    : NULL;
}

/* "enable NAME COUNT-BEFORE"; the name may be empty. */
static bool parse_entry(char *line, struct journal_entry *entry)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_";
	char *rest = (char *)(uintptr_t)after(line, "enable");
	const char *end;
	uint64_t count;
	size_t bytes;

	entry->verb = rest ? ACTION_ENABLE : ACTION_DISABLE;
	if (!rest)
		rest = (char *)(uintptr_t)after(line, "disable");
	if (!rest)
		return false;
	bytes = strspn(rest, letters);
	if (rest[bytes] != ' ')
		return false;
	rest[bytes] = '\0';
	entry->name = rest;
	rest += bytes + 1;
	entry->count_before = JOURNAL_UNKNOWN;
	if (strcmp(rest, "-1") == 0)
		return true;
	if (!parse_number(rest, UINT16_MAX, &count, &end) || *end)
		return false;
	entry->count_before = (int)count;
	return true;
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

	while (!err && (line = next_line(&text)) && strcmp(line, "end") != 0) {
		if (!parse_entry(line, &entry))
			return bad_journal(ctx, path, "an action is no action");
		err = add_entry(ctx, &journal->entries, &journal->n, &entry);
	}
	if (!err && !line)
		err = bad_journal(ctx, path, "it has no end");
	if (!err && *text)
		err = bad_journal(ctx, path, "it goes on behind its end");
	return err;
}

int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal)
{
	struct process_id target, tool;
	struct surroundings here;
	const char *line, *boot, *end;
	uint64_t pid_namespace;
	bool same_boot;

	*about = (struct journal_text){ 0 };
	line = next_line(&text);
	if (!line || strcmp(line, MAGIC) != 0)
		return bad_journal(ctx, path, "it is no journal of this version");
	boot = after(next_line(&text), "boot");
	line = after(next_line(&text), "pid-namespace");
	if (!boot || !line || !parse_number(line, UINT64_MAX, &pid_namespace, &end) || *end)
		return bad_journal(ctx, path, "it does not say where it was made");
	if (!parse_process(next_line(&text), "target", &target) ||
	    !parse_process(next_line(&text), "tool", &tool))
		return bad_journal(ctx, path, "it does not say whose it is");
	line = next_line(&text);
	if (!line || (strcmp(line, "applied") != 0 && strcmp(line, "pending") != 0))
		return bad_journal(ctx, path, "it does not say how far it got");
	read_surroundings(&here);
	same_boot = strcmp(boot, here.boot) == 0;
	*about = (struct journal_text){
		.target = target.pid,
		.tool = tool.pid,
		.other_namespace = same_boot && pid_namespace != here.pid_namespace,
		.target_lives = same_boot && is_alive(&target),
		.tool_lives = same_boot && is_alive(&tool),
	};
	journal->tool = tool.pid;
	journal->applied = strcmp(line, "applied") == 0;
	return parse_entries(ctx, path, text, journal);
}

static void free_stale(struct stale_journal *journal)
{
	free_entries(journal->entries, journal->n);
	free(journal->dir);
	free(journal->file);
	*journal = (struct stale_journal){ 0 };
}

/* The text of the file, NULL if it is not one that UID wrote (said in the log) or cannot be read.
 */
static char *read_text(struct ocp_ctx *ctx, int dir_fd, const char *path, const char *file,
		       uid_t uid)
{
	int fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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

		if (n < 0 && errno == EINTR)
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
		if (!about.target_lives)
			unlinkat(dir_fd, file, 0);
		else if (about.target == target && !about.tool_lives)
			err = keep_stale(ctx, stale, &journal);
	}
	free(path);
	free(text);
	free_stale(&journal);
	return err;
}

static int look_in(struct ocp_ctx *ctx, const char *path, uid_t uid, pid_t target,
		   struct stale_journals *stale)
{
	int fd = open_place(ctx, path, uid), err = 0, looked = 0;
	struct dirent *entry;
	DIR *dir;

	if (fd < 0)
		return 0;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return ctx_no_memory(ctx);
	}
	while (!err && looked < MAX_FILES && (entry = readdir(dir))) {
		/* Others are no journals, or are being written. */
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		looked++;
		err = look_at(ctx, fd, path, entry->d_name, uid, target, stale);
	}
	closedir(dir);
	return err;
}

static int look_for_user(struct ocp_ctx *ctx, uid_t uid, pid_t target, struct stale_journals *stale)
{
	char paths[N_PLACES][PATH_MAX];
	int n = 0, err = 0;

	for (int place = 0; !err && place < N_PLACES; place++) {
		bool seen = false;

		if (!place_path(uid, place, paths[n]))
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

int journal_remove_stale(struct ocp_ctx *ctx, const struct stale_journal *journal)
{
	int fd = open_place(ctx, journal->dir, journal->owner), err = 0;

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
