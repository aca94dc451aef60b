// SPDX-License-Identifier: MIT
/*
 * The processes that run a file. A file is its device and inode, not its path: /proc/PID/exe leads
 * to the very inode that was executed, across mount namespaces and after a rename. A file that has
 * been replaced since is another one.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "process/proc_file.h"

struct search {
	struct ocp_ctx *ctx;
	const char *path;
	struct stat file;
	pid_t *pids;
	size_t n;
	size_t n_hidden; /* processes that may run it and may not be looked at */
};

/*
 * A process of somebody else hides what it runs, but not its name, which at first is the first 15
 * bytes of the file's. Only those of the right name are worth a word: there are hundreds of others.
 */
static void note_hidden(struct search *s, pid_t pid)
{
	const char *slash = strrchr(s->path, '/'), *base = slash ? slash + 1 : s->path;
	struct proc_status status;

	if (proc_status_read(s->ctx, pid, &status) != 0 || strncmp(status.name, base, 15) != 0)
		return;
	s->n_hidden++;
	ctx_log(s->ctx, OCP_LOG_WARN, "pid %d (%s): left out, it may not be inspected", (int)pid,
		status.name);
}

static int look_at(struct search *s, pid_t pid)
{
	struct stat exe;
	char link[32];
	pid_t *pids;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	if (stat(link, &exe) != 0) {
		/* Anything else: a kernel thread, a zombie, or gone meanwhile. */
		if (errno == EACCES || errno == EPERM)
			note_hidden(s, pid);
		return 0;
	}
	if (exe.st_dev != s->file.st_dev || exe.st_ino != s->file.st_ino)
		return 0;
	pids = realloc(s->pids, (s->n + 1) * sizeof(*pids));
	if (!pids)
		return ctx_no_memory(s->ctx);
	s->pids = pids;
	s->pids[s->n++] = pid;
	return 0;
}

static int look_at_all(struct search *s)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int err = 0;

	if (!proc)
		return ctx_error(s->ctx, -errno, "/proc: %s", strerror(errno));
	while (!err && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = look_at(s, (pid_t)strtol(entry->d_name, NULL, 10));
	closedir(proc);
	return err;
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int none_found(const struct search *s)
{
	int err = ctx_error(s->ctx, -ESRCH, "%s: no process runs it", s->path);

	if (s->n_hidden)
		ctx_hint(s->ctx,
			 "%zu processes that may run it may not be inspected: run as their "
			 "user, or with CAP_SYS_PTRACE (e.g. sudo)",
			 s->n_hidden);
	return err;
}

int ocp_find_processes(struct ocp_ctx *ctx, const char *path, pid_t **pids, size_t *n)
{
	struct search s = { .ctx = ctx, .path = path };
	int err = 0;

	*pids = NULL;
	*n = 0;
	if (stat(path, &s.file) != 0)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	err = look_at_all(&s);
	if (!err && s.n == 0)
		err = none_found(&s);
	if (err) {
		free(s.pids);
		return err;
	}
	qsort(s.pids, s.n, sizeof(*s.pids), compare_pids);
	*pids = s.pids;
	*n = s.n;
	return 0;
}
