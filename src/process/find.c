// SPDX-License-Identifier: MIT
/*
 * The processes that run a file. A file is its device and inode, not its path: /proc/PID/exe leads
 * to the very inode that was executed, across mount namespaces and after a rename. A file that has
 * been replaced since is another one.
 */
#include "process/find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	NAME_BYTES = 15, /* of a process, at most */
	/* Who runs something else is soon what it will be: a shell that will exec, or not. */
	YOUNG_LOOKS = 16,
	OTHERS_A_ROUND = 256,
};

struct search {
	struct ocp_ctx *ctx;
	int proc; /* the folder */
	const char *base;
	const struct stat *file;
	struct found_processes *found;
	struct find_memory *before; /* NULL: none */
	size_t at;		    /* in before->others */
	struct find_memory after;
};

static int add_pid(struct ocp_ctx *ctx, pid_t **pids, size_t *n, pid_t pid)
{
	pid_t *grown;

	/* Room for a power of 2 of them. */
	if ((*n & (*n - 1)) == 0) {
		grown = realloc(*pids, (*n ? 2 * *n : 1) * sizeof(**pids));
		if (!grown)
			return ctx_no_memory(ctx);
		*pids = grown;
	}
	(*pids)[(*n)++] = pid;
	return 0;
}

/*
 * A process of somebody else hides what it runs, but not its name, which at first is the first 15
 * bytes of the file's. Only those of the right name are worth a word: there are hundreds of others.
 */
static bool has_name(const struct search *s, const char *pid)
{
	char path[32], name[NAME_BYTES + 2];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.16s/comm", pid);
	fd = openat(s->proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (n <= 0)
		return false;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return strncmp(name, s->base, NAME_BYTES) == 0;
}

void find_memory_free(struct find_memory *memory)
{
	free(memory->others);
	*memory = (struct find_memory){ 0 };
}

bool find_is_its_turn(pid_t pid, size_t n, size_t a_round, unsigned int round)
{
	const size_t n_rounds = n / a_round + 1;

	return (size_t)pid % n_rounds == round % n_rounds;
}

/* How often PID ran something else; as folders of /proc come in ascending order. */
static unsigned int looks_before(struct search *s, pid_t pid)
{
	const struct find_memory *before = s->before;

	while (s->at < before->n && before->others[s->at].pid < pid)
		s->at++;
	return s->at < before->n && before->others[s->at].pid == pid ? before->others[s->at].looks
								     : 0;
}

static int add_other(struct search *s, pid_t pid, unsigned int looks)
{
	struct find_memory *after = &s->after;
	struct other_process *grown;

	if ((after->n & (after->n - 1)) == 0) {
		grown = realloc(after->others, (after->n ? 2 * after->n : 1) * sizeof(*grown));
		if (!grown)
			return ctx_no_memory(s->ctx);
		after->others = grown;
	}
	after->others[after->n++] = (struct other_process){ pid, looks };
	return 0;
}

static int look_at(struct search *s, const char *pid)
{
	struct found_processes *found = s->found;
	struct stat exe;
	char link[32];

	snprintf(link, sizeof(link), "%.16s/exe", pid);
	if (fstatat(s->proc, link, &exe, 0) != 0) {
		/* Anything else: a kernel thread, a zombie, or gone meanwhile. */
		if ((errno == EACCES || errno == EPERM) && has_name(s, pid))
			return add_pid(s->ctx, &found->hidden, &found->n_hidden,
				       (pid_t)strtol(pid, NULL, 10));
		return 0;
	}
	if (exe.st_dev != s->file->st_dev || exe.st_ino != s->file->st_ino)
		return 0;
	return add_pid(s->ctx, &found->pids, &found->n, (pid_t)strtol(pid, NULL, 10));
}

static int look_at_or_remember(struct search *s, const char *name)
{
	const pid_t pid = (pid_t)strtol(name, NULL, 10);
	const size_t n_before = s->found->n + s->found->n_hidden;
	unsigned int looks;
	int err;

	if (!s->before)
		return look_at(s, name);
	looks = looks_before(s, pid);
	if (looks >= YOUNG_LOOKS &&
	    !find_is_its_turn(pid, s->before->n, OTHERS_A_ROUND, s->before->round))
		return add_other(s, pid, looks);
	err = look_at(s, name);
	if (err || s->found->n + s->found->n_hidden != n_before)
		return err;
	return add_other(s, pid, looks < YOUNG_LOOKS ? looks + 1 : looks);
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int find_processes(struct ocp_ctx *ctx, const struct stat *file, const char *base,
		   struct find_memory *memory, struct found_processes *found)
{
	struct search s = {
		.ctx = ctx, .base = base, .file = file, .found = found, .before = memory
	};
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int err = 0;

	*found = (struct found_processes){ 0 };
	if (!proc)
		return ctx_error(ctx, -errno, "/proc: %s", strerror(errno));
	s.proc = dirfd(proc);
	while (!err && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		/* There always is one. */
		found->sees_all |= strcmp(entry->d_name, "1") == 0;
		err = look_at_or_remember(&s, entry->d_name);
	}
	closedir(proc);
	if (memory && !err) {
		s.after.round = memory->round + 1;
		find_memory_free(memory);
		*memory = s.after;
	} else {
		find_memory_free(&s.after);
	}
	if (err)
		return err;
	if (found->n)
		qsort(found->pids, found->n, sizeof(*found->pids), compare_pids);
	if (found->n_hidden)
		qsort(found->hidden, found->n_hidden, sizeof(*found->hidden), compare_pids);
	return 0;
}

void found_processes_free(struct found_processes *found)
{
	free(found->pids);
	free(found->hidden);
	*found = (struct found_processes){ 0 };
}

void find_log_hidden(struct ocp_ctx *ctx, pid_t pid, const char *base)
{
	ctx_log(ctx, OCP_LOG_WARN, "pid %d (%.*s): left out, it may not be inspected", (int)pid,
		NAME_BYTES, base);
}

static int none_found(struct ocp_ctx *ctx, const char *path, size_t n_hidden)
{
	int err = ctx_error(ctx, -ESRCH, "%s: no process runs it", path);

	if (n_hidden)
		ctx_hint(ctx,
			 "%zu processes that may run it may not be inspected: run as their "
			 "user, or with CAP_SYS_PTRACE (e.g. sudo)",
			 n_hidden);
	return err;
}

int ocp_find_processes(struct ocp_ctx *ctx, const char *path, pid_t **pids, size_t *n)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	struct found_processes found;
	struct stat file;
	int err;

	*pids = NULL;
	*n = 0;
	if (stat(path, &file) != 0)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	err = find_processes(ctx, &file, base, NULL, &found);
	for (size_t i = 0; !err && i < found.n_hidden; i++)
		find_log_hidden(ctx, found.hidden[i], base);
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
