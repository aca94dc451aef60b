// SPDX-License-Identifier: MIT
#include "process/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "elf/symbols.h"
#include "process/mapped_files.h"
#include "program/dormant/external.h"
#include "program/dormant/marker.h"
#include "look/proc_file.h"

/* ---- dormant probes of other files ----------------------------------------------------------- */

/*
 * Code that was inlined into a plugin can contain probes of the host (dormant/external.c). The
 * marker of such a probe is in the file that defines the marker's symbol: the host, or another
 * plugin. If there are several definitions, the dynamic linker takes the first. The search below
 * may take any of them, because OCaml's symbols contain the name of the compilation unit, and a
 * process has each unit only once.
 *
 *	symbols that the plugin's GOT refers to		external_list
 *	-> where other images define them		dynsym_each
 *	-> the bytes there				in that image's file
 *	-> sites in the plugin				dormant_read_external
 *
 * Such a site is switched and counted like any dormant site. Its counter is the one in the marker,
 * which an inlined [%probe_is_enabled] reads, too.
 */

/*
 * Limit for the size of a symbol table. A program with plugins exports all its symbols; 100 000 of
 * them take about 6 MB.
 */
#define MAX_TABLE_BYTES (UINT64_C(64) << 20)

enum {
	WORD = 8,
	/* The size of the longest marker, with its header and padding. */
	MAX_MARKER_BYTES = 4096 + 64,
};

/* The search, in the other images, for the symbols that one image refers to. */
struct external_search {
	struct ocp_ctx *ctx;
	const struct image *in;	      /* the image that refers to the symbols */
	const struct image *definer;  /* the image in which the symbols are now searched for */
	struct object_external **all; /* the symbols, sorted by name */
	size_t n;
};

static int compare_external_symbols(const void *a, const void *b)
{
	return strcmp((*(struct object_external *const *)a)->symbol,
		      (*(struct object_external *const *)b)->symbol);
}

static int compare_external_name(const void *name, const void *external)
{
	return strcmp(name, (*(struct object_external *const *)external)->symbol);
}

/*
 * If a marker can be at VA of the definer, read its bytes into EXTERNAL. Markers are in writable
 * OCaml data. Return 0 also if there is no marker.
 */
static int read_marker_bytes(const struct external_search *search, uint64_t va,
			     struct object_external *external)
{
	const struct elf_file *elf = search->definer->prog->elf;
	const struct elf_segment *segment = elf_file_segment_of(elf, va, WORD);
	uint8_t start[MARKER_START_BYTES];
	uint64_t room, n;
	int err;

	if (!segment || !segment->writable || va % WORD || va - segment->va < WORD ||
	    va - segment->va >= segment->file_bytes)
		return 0;
	err = elf_file_read(elf, va - segment->va + segment->off, start, sizeof(start));
	if (err || !marker_starts_with(start))
		return err == -EBADMSG ? 0 : err;
	room = segment->file_bytes - (va - segment->va) + WORD;
	n = room < MAX_MARKER_BYTES ? room : MAX_MARKER_BYTES;
	external->bytes = malloc((size_t)n);
	if (!external->bytes)
		return ctx_no_memory(search->ctx);
	err = elf_file_read(elf, va - WORD - segment->va + segment->off, external->bytes,
			    (size_t)n);
	if (err)
		return err;
	external->n_bytes = (size_t)n;
	external->va = search->definer->bias + va - search->in->bias;
	return 0;
}

static int take_definition(void *data, const char *name, uint64_t va)
{
	const struct external_search *search = data;
	struct object_external **found =
		bsearch(name, search->all, search->n, sizeof(struct object_external *),
			compare_external_name);

	/* Take the first definition found: see the start of this file. */
	return found && !(*found)->bytes ? read_marker_bytes(search, va, *found) : 0;
}

/* Look up EXTERNALS, the N symbols that image IN refers to, in all other images. */
static int find_all(struct ocp_ctx *ctx, const struct image_list *list, const struct image *in,
		    struct object_external *externals, size_t n)
{
	struct external_search search = {
		.ctx = ctx,
		.in = in,
		.all = calloc(n + 1, sizeof(struct object_external *)),
		.n = n,
	};
	int err = search.all ? 0 : ctx_no_memory(ctx);

	for (size_t i = 0; !err && i < n; i++)
		search.all[i] = &externals[i];
	if (!err)
		qsort(search.all, n, sizeof(struct object_external *), compare_external_symbols);
	for (size_t i = 0; !err && i < list->n; i++) {
		search.definer = &list->images[i];
		if (search.definer != in)
			err = dynsym_each(search.definer->prog->elf, MAX_TABLE_BYTES,
					  take_definition, &search);
	}
	free(search.all);
	return err;
}

static int add_externals_to(struct ocp_ctx *ctx, const struct image_list *list,
			    const struct image *image)
{
	struct object_external *externals = NULL;
	struct dormant dormant = { 0 };
	struct object object;
	size_t n = 0;
	int err = object_read(ctx, image->prog->elf, &object);

	if (err)
		return err;
	err = external_list(&object, &externals, &n);
	if (!err && n)
		err = find_all(ctx, list, image, externals, n);
	object.externals = externals;
	object.n_externals = n;
	if (!err && n)
		err = dormant_read_external(&object, &dormant);
	if (!err)
		err = program_add_external(image->prog, &dormant);
	for (size_t i = 0; i < n; i++)
		free(externals[i].bytes);
	free(externals);
	object_free(&object);
	return err;
}

/*
 * Add to each image of LIST the probes of other images that were inlined into its code. If an image
 * cannot be read, log a warning and add nothing to it. Then remove the images without probes from
 * LIST.
 */
static int externals_add(struct ocp_ctx *ctx, struct image_list *list)
{
	size_t kept = 0;

	/* NOLINTBEGIN(clang-analyzer-core.*): each image of the list has a path and a program */
	for (size_t i = 0; i < list->n; i++) {
		const struct image *image = &list->images[i];
		/* An executable contains all units that it calls, so it has no externals. */
		bool may_be_in = strcmp(image->path, list->exe_path) != 0;
		int err = may_be_in ? external_may_be_in(ctx, image->prog->elf, &may_be_in) : 0;

		if (!err && may_be_in)
			err = add_externals_to(ctx, list, image);
		if (err == -ENOMEM)
			return err;
		if (err == -EFBIG)
			file_rules_exceeded(ctx, image->prog->fd,
					    &(const struct file_origin){ .name = image->path,
									 .is_library = true });
		else if (err)
			ctx_log(ctx, OCP_LOG_WARN,
				"%s: probes that were inlined from other files are left out: %s",
				image->path, ocp_error(ctx));
	}
	/* Remove the images without probes, which were kept for this search only. */
	for (size_t i = 0; i < list->n; i++) {
		if (list->images[i].prog->n_probes)
			list->images[kept++] = list->images[i];
		else
			image_free(&list->images[i]);
	}
	/* NOLINTEND(clang-analyzer-core.*) */
	list->n = kept;
	return 0;
}

/* ---- images ---------------------------------------------------------------------------------- */

/*
 * Read the probes of the file of FD, which is mapped at M. If the file has no probes, leave
 * IMAGE->prog NULL. Exception: a library into which probes of other files may have been inlined
 * gets a PROG without probes.
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
	/*
	 * A file that exceeds the limits (-EFBIG) was reported already, once for all processes that
	 * map it.
	 */
	if (err && err != -EAGAIN && err != -EFBIG)
		ctx_log(ctx, OCP_LOG_WARN, "pid %d: left out: %s", (int)pid, ocp_error(ctx));
	list->n += !err && image->prog;
	return err == -EAGAIN ? err : 0;
}

/*
 * Read all mapped files except the executable. Return -EAGAIN if some files must not be read yet
 * because they are still being examined. In this case, too, all other files have been read, except
 * those that could not be read, which are left out.
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
	/* There is at most one image per mapping. */
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
