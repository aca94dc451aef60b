// SPDX-License-Identifier: MIT
#include "process/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/dormant/external.h"
#include "process/externals.h"
#include "process/mapped_files.h"
#include "tracee/proc_file.h"

/*
 * Read the probes of the file of FD, which is mapped at M. Leave IMAGE->prog NULL if the file has
 * no probes, unless it is a library into which probes of other files may have been inlined.
 */
static int read_image(struct ocp_ctx *ctx, int fd, const struct mapping *m,
		      const struct file_origin *origin, struct image *image)
{
	bool has_externals = origin->is_library;
	int err;

	if (file_rules_admit(ctx, fd, origin) == FILE_WITHOUT_PROBES) {
		close(fd);
		return 0;
	}
	err = program_open_from(ctx, fd, origin, &image->prog);
	if (err)
		return err;
	if (image->prog->n_probes == 0 && has_externals)
		err = external_may_be_in(ctx, image->prog->elf, &has_externals);
	if (err || (image->prog->n_probes == 0 && !has_externals))
		goto without;
	err = mapped_files_need_bias(ctx, image->prog->elf, m, &image->bias);
	if (err)
		goto without;
	image->path = strdup(m->path);
	if (image->path)
		return 0;
	err = ctx_no_memory(ctx);
without:
	ocp_program_free(image->prog);
	image->prog = NULL;
	return err;
}

static int read_exe_image(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m,
			  struct image_list *list)
{
	int fd, err;

	list->exe_path = strdup(m->path);
	if (!list->exe_path)
		return ctx_no_memory(ctx);
	err = mapped_files_open_exe(ctx, pid, &fd);
	if (!err)
		err = read_image(ctx, fd, m,
				 &(const struct file_origin){ .name = m->path, .pid = pid },
				 &list->images[0]);
	err = mapped_files_check_exec(ctx, pid, m, err);
	if (!err && list->images[0].prog)
		list->n = 1;
	return err;
}

static int read_other(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m,
		      struct image_list *list)
{
	const struct file_origin origin = { .name = m->path, .pid = pid, .is_library = true };
	struct image *image = &list->images[list->n];
	const int fd = mapped_files_open_library(ctx, pid, m);
	int err;

	if (fd < 0)
		return 0;
	err = read_image(ctx, fd, m, &origin, image);
	/* A file that exceeds the limits is reported once for all processes that map it. */
	if (err && err != -EAGAIN && err != -EFBIG)
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: left out: %s", (int)pid, ocp_error(ctx));
	list->n += !err && image->prog;
	return err == -EAGAIN ? err : 0;
}

/*
 * Read all mapped files but the executable. Return -EAGAIN if some files may not be read yet; the
 * other files have been read.
 */
static int read_others(struct ocp_ctx *ctx, pid_t pid, const struct mapped_files *files,
		       struct image_list *list)
{
	size_t n_later = 0;

	for (size_t i = 0; i < files->maps.n; i++)
		if (mapped_files_is_library(files, i))
			n_later += read_other(ctx, pid, &files->maps.mappings[i], list) != 0;
	if (!n_later)
		return 0;
	return ctx_error(ctx, -EAGAIN, "pid %d: still examining %zu of its files", (int)pid,
			 n_later);
}

int image_list_read(struct ocp_ctx *ctx, pid_t pid, struct image_list *list)
{
	struct mapped_files files;
	int err = mapped_files_read(ctx, pid, &files);

	*list = (struct image_list){ 0 };
	if (err)
		return err;
	/* At most one image per mapping. */
	list->images = calloc(files.maps.n + 1, sizeof(*list->images));
	err = list->images ? 0 : ctx_no_memory(ctx);
	if (!err)
		err = read_exe_image(ctx, pid, files.exe, list);
	if (!err)
		err = read_others(ctx, pid, &files, list);
	if (!err)
		err = externals_add(ctx, list);
	mapped_files_free(&files);
	if (err)
		image_list_free(list);
	return err;
}

int image_exe_open(struct ocp_ctx *ctx, pid_t pid, struct image_exe *exe)
{
	struct mapped_files files;
	int err = mapped_files_read(ctx, pid, &files);

	*exe = (struct image_exe){ .fd = -1 };
	if (err)
		return err;
	err = mapped_files_open_exe(ctx, pid, &exe->fd);
	if (!err)
		err = elf_file_open(ctx, exe->fd, files.exe->path, &exe->elf);
	if (!err)
		err = mapped_files_need_bias(ctx, exe->elf, files.exe, &exe->bias);
	err = mapped_files_check_exec(ctx, pid, files.exe, err);
	if (!err) {
		exe->path = strdup(files.exe->path);
		err = exe->path ? 0 : ctx_no_memory(ctx);
	}
	mapped_files_free(&files);
	if (err)
		image_exe_close(exe);
	return err;
}

void image_exe_close(struct image_exe *exe)
{
	elf_file_close(exe->elf);
	if (exe->fd >= 0)
		close(exe->fd);
	free(exe->path);
	*exe = (struct image_exe){ .fd = -1 };
}

const char *image_list_name(const struct image_list *list)
{
	return list->is_restricted && list->n ? list->images[0].path : list->exe_path;
}

void image_free(struct image *image)
{
	ocp_program_free(image->prog);
	free(image->path);
}

void image_list_empty(struct image_list *list)
{
	for (size_t i = 0; list->images && i < list->n; i++)
		image_free(&list->images[i]);
	list->n = 0;
}

void image_list_free(struct image_list *list)
{
	image_list_empty(list);
	free(list->images);
	free(list->exe_path);
	*list = (struct image_list){ 0 };
}

bool image_is_exe(pid_t pid, int fd)
{
	char path[PROC_PATH_BYTES];
	struct stat exe, st;

	proc_path(path, pid, "exe");
	return stat(path, &exe) == 0 && fstat(fd, &st) == 0 && exe.st_dev == st.st_dev &&
	       exe.st_ino == st.st_ino;
}
