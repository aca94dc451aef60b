// SPDX-License-Identifier: MIT
#include "process/code_images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/mapped_files.h"
#include "process/process_kind.h"

static void free_image(struct code_image *image)
{
	functions_free(image->functions);
	elf_file_close(image->elf);
	if (image->fd >= 0)
		close(image->fd);
	free(image->path);
}

void code_images_free(struct code_images *images)
{
	for (size_t i = 0; images->images && i < images->n; i++)
		free_image(&images->images[i]);
	free(images->images);
	free(images->exe_path);
	*images = (struct code_images){ 0 };
}

/*
 * Read the functions of the file that is open as FD into IMAGE, which then owns FD. After an error,
 * FD is closed.
 */
static int read_file_functions(struct ocp_ctx *ctx, int fd, const char *path,
			       struct code_image *image)
{
	int err;

	*image = (struct code_image){ .fd = fd, .path = strdup(path) };
	err = image->path ? 0 : ctx_no_memory(ctx);
	if (!err)
		err = elf_file_open(ctx, fd, path, &image->elf);
	if (!err)
		err = functions_read(ctx, image->elf, &image->functions);
	if (!err)
		err = functions_require_ocaml(ctx, image->functions, path);
	if (err)
		free_image(image);
	return err;
}

int code_images_open(struct ocp_ctx *ctx, const char *path, struct code_images *images)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;

	*images = (struct code_images){ 0 };
	if (fd < 0)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	images->images = calloc(1, sizeof(*images->images));
	if (!images->images) {
		close(fd);
		return ctx_no_memory(ctx);
	}
	err = read_file_functions(ctx, fd, path, &images->images[0]);
	if (err)
		code_images_free(images);
	else
		images->n = 1;
	return err;
}

/*
 * Append the file of FD, whose code is mapped at M, to IMAGES. Return -ENODATA, and append nothing,
 * if the file has no OCaml functions.
 */
static int read_mapped(struct ocp_ctx *ctx, int fd, const struct mapping *m,
		       struct code_images *images)
{
	struct code_image *image = &images->images[images->n];
	int err = read_file_functions(ctx, fd, m->path, image);

	if (err)
		return err;
	err = mapped_files_need_bias(ctx, image->elf, m, &image->bias);
	if (err)
		free_image(image);
	images->n += !err;
	return err;
}

/*
 * Append the executable of PID, which is mapped at EXE, to IMAGES. Return -ENODATA, with a message,
 * if it has no OCaml functions.
 */
static int read_exe_functions(struct ocp_ctx *ctx, pid_t pid, const struct mapping *exe,
			      struct code_images *images)
{
	int fd, err;

	images->exe_path = strdup(exe->path);
	if (!images->exe_path)
		return ctx_no_memory(ctx);
	err = mapped_files_open_exe(ctx, pid, &fd);
	return err ? err : read_mapped(ctx, fd, exe, images);
}

static void read_library(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m,
			 struct code_images *images)
{
	const int fd = mapped_files_open_library(ctx, pid, m);
	int err;

	if (fd < 0)
		return;
	err = read_mapped(ctx, fd, m, images);
	if (!err)
		images->images[images->n - 1].is_library = true;
	else if (err != -ENODATA)
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: left out: %s", (int)pid, ocp_error(ctx));
}

static int read_all_images(struct ocp_ctx *ctx, pid_t pid, const struct mapped_files *files,
			   struct code_images *images)
{
	int err;

	/* There is at most one image per mapping. */
	images->images = calloc(files->maps.n + 1, sizeof(*images->images));
	err = images->images ? read_exe_functions(ctx, pid, files->exe, images)
			     : ctx_no_memory(ctx);
	if (err && err != -ENODATA)
		return err;
	for (size_t i = 0; i < files->maps.n; i++)
		if (mapped_files_is_library(files, i))
			read_library(ctx, pid, &files->maps.mappings[i], images);
	if (images->n)
		return 0;
	err = process_need_native(ctx, pid);
	return err ? err
		   : ctx_error(ctx, -ENODATA,
			       "pid %d (%s): a stripped OCaml program, compiled without -g: no "
			       "function has a name",
			       (int)pid, images->exe_path);
}

int code_images_read(struct ocp_ctx *ctx, pid_t pid, struct code_images *images)
{
	struct mapped_files files;
	int err = mapped_files_read(ctx, pid, &files);

	*images = (struct code_images){ 0 };
	if (err)
		return err;
	err = read_all_images(ctx, pid, &files, images);
	mapped_files_free(&files);
	if (err)
		code_images_free(images);
	return err;
}
