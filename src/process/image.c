// SPDX-License-Identifier: MIT
/*
 * Images: the files that a process runs code from, and their load biases.
 *
 * The kernel maps a page-aligned piece of the file at the start of each mapping. The program
 * headers tell the link-time address of that file offset; the difference is the load bias. Only the
 * first executable mapping of each file is used. mprotect(2) and patching may have split it, which
 * does not change the bias.
 *
 * The executable is the file that holds the program's entry point (AT_ENTRY). Device and inode
 * cannot identify it: those of /proc/PID/exe and of maps differ on some file systems (overlayfs,
 * btrfs). It is opened through /proc/PID/exe, which also works if the file was deleted, replaced or
 * is in another mount namespace. Other files are opened through map_files, which needs a privilege,
 * or below the root directory of the process, where the inode must be the mapped one.
 */
#include "process/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program/dormant/external.h"
#include "tracee/auxv.h"
#include "process/externals.h"
#include "tracee/proc_file.h"
#include "process/trampolines.h"

bool image_same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->path, b->path) == 0;
}

bool image_off_to_va(const struct elf_file *elf, uint64_t off, uint64_t *va)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct elf_segment *segments;
	size_t n;

	segments = elf_file_segments(elf, &n);
	for (size_t i = 0; i < n; i++) {
		uint64_t first = segments[i].off & ~(page - 1);

		if (segments[i].executable && off >= first &&
		    off < segments[i].off + segments[i].file_bytes) {
			*va = segments[i].va - segments[i].off + off; /* may wrap and wrap back */
			return true;
		}
	}
	return false;
}

int image_open_exe(struct ocp_ctx *ctx, pid_t pid, int *fd)
{
	char path[PROC_PATH_BYTES];

	proc_path(path, pid, "exe");
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? proc_why_no_access(ctx, pid, errno) : 0;
}

static int no_segment(struct ocp_ctx *ctx, const struct mapping *m)
{
	return ctx_error(ctx, -EBADMSG,
			 "%s: the executable mapping at 0x%" PRIx64
			 " belongs to no executable segment",
			 m->path, m->start);
}

/*
 * Read the probes of the file that is mapped at M. If it has none, prog of *IMAGE stays NULL. A
 * library without probes of its own is kept if it may have inlined probes of other files.
 */
static int read_image(struct ocp_ctx *ctx, int fd, const struct mapping *m,
		      const struct file_origin *origin, struct image *image)
{
	bool has_externals = origin->is_library;
	uint64_t va;
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
	if (!image_off_to_va(image->prog->elf, m->off, &va)) {
		err = no_segment(ctx, m);
		goto without;
	}
	image->bias = m->start - va;
	image->path = strdup(m->path);
	if (image->path)
		return 0;
	err = ctx_no_memory(ctx);
without:
	ocp_program_free(image->prog);
	image->prog = NULL;
	return err;
}

bool image_is_first_of_file(const struct maps *maps, size_t i)
{
	const struct mapping *m = &maps->mappings[i];

	if (!m->executable || m->inode == 0 || m->path[0] != '/' || trampolines_are_in(m))
		return false;
	for (size_t j = i; j-- > 0;)
		if (maps->mappings[j].executable && image_same_file(&maps->mappings[j], m))
			return false;
	return true;
}

/* The mapping of the executable: it holds the address ENTRY. */
static int find_exe(struct ocp_ctx *ctx, pid_t pid, const struct maps *maps, uint64_t entry,
		    const struct mapping **exe)
{
	const struct mapping *m = maps_find(maps, entry);

	if (!m || !m->executable || m->inode == 0)
		return ctx_error(ctx, -ESRCH,
				 "pid %d: no mapped file holds its entry point 0x%" PRIx64
				 " (ending, or not an ordinary program)",
				 (int)pid, entry);
	*exe = m;
	return 0;
}

static int read_exe(struct ocp_ctx *ctx, pid_t pid, const struct maps *maps, uint64_t entry,
		    struct image_list *list, const struct mapping **exe)
{
	const struct mapping *m;
	int fd, err = find_exe(ctx, pid, maps, entry, exe);

	if (err)
		return err;
	m = *exe;
	list->exe_path = strdup(m->path);
	if (!list->exe_path)
		return ctx_no_memory(ctx);
	err = image_open_exe(ctx, pid, &fd);
	if (!err)
		err = read_image(ctx, fd, m,
				 &(const struct file_origin){ .name = m->path, .pid = pid },
				 &list->images[0]);
	if (!err && list->images[0].prog)
		list->n = 1;
	return err;
}

/* Is M, which could not be opened, still mapped? The process may have ended or made an exec. */
static bool is_still_mapped(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m)
{
	const struct mapping *now;
	struct maps maps;
	bool is_there;

	if (maps_read(ctx, pid, &maps) != 0)
		return false;
	now = maps_find(&maps, m->start);
	is_there = now && now->inode == m->inode;
	maps_free(&maps);
	return is_there;
}

static int read_other(struct ocp_ctx *ctx, pid_t pid, const struct mapping *m,
		      struct image_list *list)
{
	const struct file_origin origin = { .name = m->path, .pid = pid, .is_library = true };
	struct image *image = &list->images[list->n];
	const int fd = maps_open_file(pid, m);
	int err = fd < 0 ? errno : 0;

	if (err) {
		if (is_still_mapped(ctx, pid, m))
			ctx_log(ctx, OCP_LOG_WARN, "pid %d: cannot read mapped file %s: %s",
				(int)pid, m->path, strerror(err));
		return 0;
	}
	err = read_image(ctx, fd, m, &origin, image);
	/* A file that exceeds the limits is reported once for all processes that map it. */
	if (err && err != -EAGAIN && err != -EFBIG)
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: left out: %s", (int)pid, ocp_error(ctx));
	list->n += !err && image->prog;
	return err == -EAGAIN ? err : 0;
}

/* -EAGAIN if some files may not be read yet; the others have been read. */
static int read_others(struct ocp_ctx *ctx, pid_t pid, const struct maps *maps,
		       const struct mapping *exe, struct image_list *list)
{
	size_t n_later = 0;

	for (size_t i = 0; i < maps->n; i++)
		if (image_is_first_of_file(maps, i) && !image_same_file(&maps->mappings[i], exe))
			n_later += read_other(ctx, pid, &maps->mappings[i], list) != 0;
	if (!n_later)
		return 0;
	return ctx_error(ctx, -EAGAIN, "pid %d: still examining %zu of its files", (int)pid,
			 n_later);
}

int image_list_read(struct ocp_ctx *ctx, pid_t pid, struct image_list *list)
{
	const struct mapping *exe = NULL;
	struct maps maps = { 0 };
	uint64_t entry;
	int err;

	*list = (struct image_list){ 0 };
	err = auxv_read(ctx, pid, AT_ENTRY, &entry);
	if (!err)
		err = maps_read(ctx, pid, &maps);
	if (!err) {
		/* At most one image per mapping. */
		list->images = calloc(maps.n + 1, sizeof(*list->images));
		err = list->images ? 0 : ctx_no_memory(ctx);
	}
	if (!err)
		err = read_exe(ctx, pid, &maps, entry, list, &exe);
	if (!err)
		err = read_others(ctx, pid, &maps, exe, list);
	if (!err)
		err = externals_add(ctx, list);
	maps_free(&maps);
	if (err)
		image_list_free(list);
	return err;
}

int image_exe_open(struct ocp_ctx *ctx, pid_t pid, struct image_exe *exe)
{
	const struct mapping *m = NULL;
	struct maps maps = { 0 };
	uint64_t entry, va;
	int err;

	*exe = (struct image_exe){ .fd = -1 };
	err = auxv_read(ctx, pid, AT_ENTRY, &entry);
	if (!err)
		err = maps_read(ctx, pid, &maps);
	if (!err)
		err = find_exe(ctx, pid, &maps, entry, &m);
	if (!err)
		err = image_open_exe(ctx, pid, &exe->fd);
	if (!err)
		err = elf_file_open(ctx, exe->fd, m->path, &exe->elf);
	if (!err && !image_off_to_va(exe->elf, m->off, &va))
		err = no_segment(ctx, m);
	if (!err) {
		exe->bias = m->start - va;
		exe->path = strdup(m->path);
		err = exe->path ? 0 : ctx_no_memory(ctx);
	}
	maps_free(&maps);
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
