// SPDX-License-Identifier: MIT
#include "tool/follow_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "code/runtime.h"
#include "tracee/proc_file.h"
#include "program/program.h"
#include "watch/verdicts.h"

/* The inode alone does not identify the contents: files are replaced and rewritten. */
struct follow_file {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec changed;
	struct follow_program program;
};

/* A machine usually runs few executables, but a build runs thousands of new ones. */
enum { MAX_FILES = 4096, EXAM_MS = 12000 };

static bool is_of(const struct follow_file *file, const struct stat *st)
{
	return file->dev == st->st_dev && file->ino == st->st_ino && file->bytes == st->st_size &&
	       file->changed.tv_sec == st->st_ctim.tv_sec &&
	       file->changed.tv_nsec == st->st_ctim.tv_nsec;
}

/* Open the file of FD and take ownership of FD. Wait until the file has been examined. */
static int open_program(struct ocp_ctx *ctx, struct verdicts *verdicts, int fd, pid_t pid,
			const char *name, struct ocp_program **prog)
{
	const struct file_origin origin = { .name = name, .pid = pid };
	int again, err;

	do {
		again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		err = again < 0 ? -errno : program_open_from(ctx, again, &origin, prog);
	} while (err == -EAGAIN && verdicts_await(verdicts, EXAM_MS));
	close(fd);
	return err;
}

/* Read the file of FD and take ownership of FD. A damaged file counts as not an OCaml program. */
static int read_followed_program(struct ocp_ctx *ctx, struct verdicts *verdicts, int fd, pid_t pid,
				 struct follow_program *program)
{
	char path[PROC_PATH_BYTES], name[PATH_MAX] = "";
	struct ocp_program *prog;
	struct runtime runtime;
	int err;

	proc_path(path, pid, "exe");
	if (readlink(path, name, sizeof(name) - 1) <= 0)
		snprintf(name, sizeof(name), "%s", path);
	err = open_program(ctx, verdicts, fd, pid, name, &prog);
	if (err)
		return err == -ENOMEM ? err : 0;
	program->n_probes = ocp_program_probe_count(prog);
	err = runtime_recognise(ctx, prog->elf, &runtime);
	ocp_program_free(prog);
	if (err == -ENOMEM)
		return err;
	/* A runtime with unknown structures is still an OCaml runtime. */
	program->is_one = program->n_probes || !err || err == -EPROTONOSUPPORT;
	if (!err || err == -EPROTONOSUPPORT)
		snprintf(program->ocaml, sizeof(program->ocaml), "%s", runtime.version);
	return 0;
}

/* Add a file. If the list is full, replace the oldest entry. */
static int remember_file(struct ocp_ctx *ctx, struct follow_files *files,
			 const struct follow_file *file)
{
	if (!files->list)
		files->list = calloc(MAX_FILES, sizeof(*files->list));
	if (!files->list)
		return ctx_no_memory(ctx);
	files->list[files->n++ % MAX_FILES] = *file;
	return 0;
}

int follow_files_look(struct ocp_ctx *ctx, struct follow_files *files, pid_t pid,
		      struct follow_program *program)
{
	struct follow_file file;
	struct stat st;
	const int fd = proc_open_exe(pid);
	int err;

	*program = (struct follow_program){ 0 };
	if (fd < 0)
		return fd == -ENOENT || fd == -ESRCH ? -ESRCH : 0;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return -ESRCH;
	}
	for (size_t i = 0; i < files->n && i < MAX_FILES; i++) {
		if (!is_of(&files->list[i], &st))
			continue;
		close(fd);
		*program = files->list[i].program;
		return 0;
	}
	*program = (struct follow_program){ .dev = st.st_dev, .ino = st.st_ino };
	err = read_followed_program(ctx, files->verdicts, fd, pid, program);
	if (err)
		return err;
	file = (struct follow_file){ .dev = st.st_dev,
				     .ino = st.st_ino,
				     .bytes = st.st_size,
				     .changed = st.st_ctim,
				     .program = *program };
	return remember_file(ctx, files, &file);
}

int follow_files_open(struct ocp_ctx *ctx, struct follow_files *files)
{
	*files = (struct follow_files){ .verdicts = verdicts_new(ctx) };
	if (!files->verdicts)
		return -ENOMEM;
	verdicts_set_strangers(files->verdicts);
	return 0;
}

void follow_files_free(struct follow_files *files)
{
	verdicts_free(files->verdicts);
	free(files->list);
	*files = (struct follow_files){ 0 };
}
