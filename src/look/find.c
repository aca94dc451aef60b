// SPDX-License-Identifier: MIT
/*
 * Finding the processes that run a file. Device and inode identify the file: /proc/PID/exe leads to
 * the inode that was executed, across mount namespaces and after a rename. A file that has replaced
 * the executed file at the same path has another inode.
 */
#include "look/find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/array.h"
#include "base/base_name.h"
#include "base/plural.h"
#include "base/search.h"
#include "look/denial.h"
#include "look/proc_file.h"

enum {
	/*
	 * After this number of inspections with the same result, a process no longer counts as new.
	 * A process that will execute another file, such as a shell's child, does so soon after its
	 * start.
	 */
	YOUNG_LOOKS = 16,
	LOOKS_A_ROUND = 256,
};

/* ---- what runs ------------------------------------------------------------------------------ */

void find_memory_free(struct find_memory *memory)
{
	free(memory->processes);
	*memory = (struct find_memory){ 0 };
}

void find_memory_expire(struct find_memory *memory)
{
	memory->is_listed = false;
}

bool find_is_its_turn(pid_t pid, size_t n, size_t a_round, unsigned int round)
{
	const size_t n_rounds = n / a_round + 1;

	return (size_t)pid % n_rounds == round % n_rounds;
}

/*
 * Read the name of process PID. Unless the process has changed its name, this is the beginning of
 * the name of the file that it runs. NAME becomes "" if the name cannot be read.
 */
static void read_name(pid_t pid, char *name)
{
	char path[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, name, FIND_NAME_BYTES);
	if (fd >= 0)
		close(fd);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

static void inspect_process(struct known_process *process, unsigned int round)
{
	struct known_process now = { .pid = process->pid, .looks = 1, .round = round };
	struct stat exe;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)now.pid);
	if (stat(path, &exe) == 0) {
		now.dev = exe.st_dev;
		now.ino = exe.st_ino;
	} else if ((errno == EACCES || errno == EPERM) && proc_has_memory(now.pid)) {
		read_name(now.pid, now.hidden);
	} /* else PID is a kernel thread or a zombie, or has ended meanwhile */
	if (now.dev == process->dev && now.ino == process->ino &&
	    strcmp(now.hidden, process->hidden) == 0)
		now.looks = process->looks < YOUNG_LOOKS ? process->looks + 1 : YOUNG_LOOKS;
	*process = now;
}

/*
 * Return what MEMORY knows about PID. The search starts at index *AT, and leaves *AT at the place
 * of PID; so call this function for ascending pids.
 */
static struct known_process recall_process(const struct find_memory *memory, pid_t pid, size_t *at)
{
	while (*at < memory->n && memory->processes[*at].pid < pid)
		++*at;
	if (*at < memory->n && memory->processes[*at].pid == pid)
		return memory->processes[*at];
	return (struct known_process){ .pid = pid };
}

static int add_known_process(struct ocp_ctx *ctx, struct find_memory *memory,
			     const struct known_process *process)
{
	struct known_process *new = array_add(memory->processes, memory->n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = *process;
	return 0;
}

/* /proc lists the processes with ascending pids, as recall_process() requires. */
int find_memory_list(struct ocp_ctx *ctx, struct find_memory *memory)
{
	struct find_memory now = { .round = memory->round + 1, .is_listed = true };
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	size_t at = 0;
	int err = 0;

	if (!proc)
		return ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	while (!err && (errno = 0, entry = readdir(proc))) {
		struct known_process process;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		process = recall_process(memory, (pid_t)strtol(entry->d_name, NULL, 10), &at);
		/* Process 1 always exists: if /proc does not list it, /proc hides processes. */
		now.sees_all |= process.pid == 1;
		if (process.looks < YOUNG_LOOKS ||
		    find_is_its_turn(process.pid, memory->n, LOOKS_A_ROUND, now.round))
			inspect_process(&process, now.round);
		err = add_known_process(ctx, &now, &process);
	}
	if (!err && errno)
		err = ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	closedir(proc);
	find_memory_free(err ? &now : memory);
	if (!err)
		*memory = now;
	return err;
}

/* ---- who runs a file ------------------------------------------------------------------------ */

static int append_pid(struct ocp_ctx *ctx, pid_t **pids, size_t *n, pid_t pid)
{
	pid_t *new = array_add(*pids, *n);

	if (!new)
		return ctx_no_memory(ctx);
	*new = pid;
	return 0;
}

static bool runs(const struct known_process *process, const struct stat *file)
{
	return process->dev == file->st_dev && process->ino == file->st_ino;
}

/*
 * Return true if PROCESS hides its executable, but may run a file called BASE. Processes of other
 * users hide their executables, but not their names. There may be hundreds of such processes, so
 * only those called BASE are reported.
 */
static bool may_run(const struct known_process *process, const char *base)
{
	return process->hidden[0] && strncmp(process->hidden, base, FIND_NAME_BYTES) == 0;
}

int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct find_memory *memory, struct found_processes *found)
{
	int err = memory->is_listed ? 0 : find_memory_list(ctx, memory);

	*found = (struct found_processes){ .sees_all = memory->sees_all };
	for (size_t i = 0; !err && i < memory->n; i++) {
		struct known_process *process = &memory->processes[i];

		if (process->round != memory->round &&
		    (runs(process, file) || may_run(process, base)))
			inspect_process(process, memory->round);
		if (runs(process, file))
			err = append_pid(ctx, &found->pids, &found->n, process->pid);
		else if (may_run(process, base))
			err = append_pid(ctx, &found->hidden, &found->n_hidden, process->pid);
	}
	return err;
}

void found_processes_free(struct found_processes *found)
{
	free(found->pids);
	free(found->hidden);
	*found = (struct found_processes){ 0 };
}

static void log_hidden(struct ocp_ctx *ctx, pid_t pid, const char *base)
{
	ctx_log(ctx, OCP_LOG_WARN, "pid %d (%.*s): left out, it may not be inspected", (int)pid,
		FIND_NAME_BYTES, base);
}

static int compare_process_ids(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

void find_warn_of_hidden(struct ocp_ctx *ctx, struct warned_pids *told,
			 struct found_processes *found, const char *base)
{
	for (size_t i = 0; i < found->n_hidden; i++)
		if (!told->n || !bsearch(&found->hidden[i], told->pids, told->n,
					 sizeof(*told->pids), compare_process_ids))
			log_hidden(ctx, found->hidden[i], base);
	free(told->pids);
	*told = (struct warned_pids){ found->hidden, found->n_hidden };
	found->hidden = NULL;
	found->n_hidden = 0;
}

static int none_found(struct ocp_ctx *ctx, const char *path, size_t n_hidden)
{
	int err = ctx_error(ctx, -ESRCH, "%s: no process runs it", path);
	struct denial denial;
	char modules[256];

	if (!n_hidden)
		return err;
	denial_read(&denial, modules, sizeof(modules));
	ctx_hint(ctx, "%zu process%s that may run it may not be inspected: run as %s user, or %s",
		 n_hidden, plural_es(n_hidden), n_hidden == 1 ? "its" : "their",
		 denial_remedy(&denial));
	return err;
}

int ocp_find_processes(struct ocp_ctx *ctx, const char *path, pid_t **pids, size_t *n)
{
	const char *base = base_name(path);
	struct found_processes found;
	struct find_memory memory = { 0 };
	struct stat file;
	int err;

	*pids = NULL;
	*n = 0;
	if (stat(path, &file) != 0)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	err = find_processes(ctx, &file, base, &memory, &found);
	find_memory_free(&memory);
	for (size_t i = 0; !err && i < found.n_hidden; i++)
		log_hidden(ctx, found.hidden[i], base);
	if (!err && found.n == 0)
		err = none_found(ctx, path, found.n_hidden);
	if (!err) {
		*pids = found.pids;
		*n = found.n;
		found.pids = NULL;
	}
	found_processes_free(&found);
	return err;
}
