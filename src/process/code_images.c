// SPDX-License-Identifier: MIT
#include "process/code_images.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracee/auxv.h"
#include "process/image.h"
#include "tracee/maps.h"

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

/* Read the functions of the file of FD, which is closed after an error. */
static int read_file(struct ocp_ctx *ctx, int fd, const char *path, struct code_image *image)
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
	err = read_file(ctx, fd, path, &images->images[0]);
	if (err)
		code_images_free(images);
	else
		images->n = 1;
	return err;
}

/* Read the file that is mapped at M. A file without OCaml functions is left out: -ENODATA. */
static int read_mapped(struct ocp_ctx *ctx, int fd, const struct mapping *m,
		       struct code_images *images)
{
	struct code_image *image = &images->images[images->n];
	uint64_t va;
	int err = read_file(ctx, fd, m->path, image);

	if (err)
		return err;
	if (!image_off_to_va(image->elf, m->off, &va)) {
		free_image(image);
		return ctx_error(ctx, -EBADMSG,
				 "%s: the executable mapping at 0x%" PRIx64
				 " belongs to no executable segment",
				 m->path, m->start);
	}
	image->bias = m->start - va;
	images->n++;
	return 0;
}

/* Returns -ENODATA, with a message, if the executable has no OCaml functions. */
static int read_exe(struct ocp_ctx *ctx, pid_t pid, const struct mapping *exe,
		    struct code_images *images)
{
	int fd, err;

	images->exe_path = strdup(exe->path);
	if (!images->exe_path)
		return ctx_no_memory(ctx);
	err = image_open_exe(ctx, pid, &fd);
	return err ? err : read_mapped(ctx, fd, exe, images);
}

static void read_library(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m,
			 struct code_images *images)
{
	const int fd = maps_open_file(pid, m);
	int err;

	if (fd < 0) {
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: cannot read mapped file %s: %s", (int)pid,
			m->path, strerror(errno));
		return;
	}
	err = read_mapped(ctx, fd, m, images);
	if (!err)
		images->images[images->n - 1].is_library = true;
	else if (err != -ENODATA)
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: left out: %s", (int)pid, ocp_error(ctx));
}

static int read_all(struct ocp_ctx *ctx, pid_t pid, const struct maps *maps, uint64_t entry,
		    struct code_images *images)
{
	const struct mapping *exe = maps_find(maps, entry);
	int err;

	if (!exe || !exe->executable || exe->inode == 0)
		return ctx_error(ctx, -ESRCH,
				 "pid %d: no mapped file holds its entry point 0x%" PRIx64
				 " (ending, or not an ordinary program)",
				 (int)pid, entry);
	err = read_exe(ctx, pid, exe, images);
	if (err && err != -ENODATA)
		return err;
	for (size_t i = 0; i < maps->n; i++)
		if (image_is_first_of_file(maps, i) && !image_same_file(&maps->mappings[i], exe))
			read_library(ctx, pid, &maps->mappings[i], images);
	if (images->n)
		return 0;
	return ctx_error(ctx, -ENODATA,
			 "pid %d (%s): not an OCaml program, or stripped of its symbols", (int)pid,
			 images->exe_path);
}

int code_images_read(struct ocp_ctx *ctx, pid_t pid, struct code_images *images)
{
	struct maps maps = { 0 };
	uint64_t entry;
	int err;

	*images = (struct code_images){ 0 };
	err = auxv_read(ctx, pid, AT_ENTRY, &entry);
	if (!err)
		err = maps_read(ctx, pid, &maps);
	if (!err) {
		/* At most one image per mapping. */
		images->images = calloc(maps.n + 1, sizeof(*images->images));
		err = images->images ? 0 : ctx_no_memory(ctx);
	}
	if (!err)
		err = read_all(ctx, pid, &maps, entry, images);
	maps_free(&maps);
	if (err)
		code_images_free(images);
	return err;
}
